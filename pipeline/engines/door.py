"""What an engine returned, checked before it becomes a fact. What can't be right is refused, with the place and the
value: a token without a log-probability would later count as certain, or poison a whole batch."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from operator import index
from typing import Any, Final, NamedTuple

from pipeline.domain.told import kind, shown, told, told_error
from pipeline.domain.told import number as told_number
from pipeline.domain.vocabulary import Failure, FinishReason
from pipeline.sdk import Sample
from pipeline.store.format import Array, Span

ORDINARY: Final = bytes(range(0x80, 0xFF))
"""Top bytes of a float32 between -1.7e38 and 0; neither NaN nor infinite nor positive."""
UNUSUAL: Final = frozenset((0x7F, 0xFF))
"""Top bytes of NaN, of infinities, and of numbers beyond 1.7e38."""
MAX_VERSION: Final = 2**63 - 1
FINISH_REASONS: Final = tuple(FinishReason)


class Refused(Exception):
    """A sample that is none: why, and what exactly."""

    def __init__(self, failure: Failure, detail: object) -> None:
        self.failure, self.detail = failure, told(detail)
        super().__init__(self.detail)


class Admitted(NamedTuple):
    """What a sound sample of `tokens` tokens holds, as our own types; its text is as it came."""

    tokens: int
    response_ids: Array
    logprobs: Array | None
    loss_mask: Array
    spans: tuple[Span, ...]
    entropy: float | None
    env_reward: float | None
    finish: FinishReason
    detail: str | None
    drop_flag: bool
    env_timeout: bool
    env_failed: bool


def admit(sample: Any, version: int) -> Admitted:
    """The sample's arrays; `version` is the policy that was loaded. Raises Refused, whatever the sample does."""
    try:
        return _admitted(sample, version)
    except (Refused, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise _wrong(f"the engine's sample can't be read: {told_error(error)}") from error


def _admitted(sample: Any, version: int) -> Admitted:
    if not isinstance(sample, Sample):
        raise _wrong(f"the engine returned a {kind(sample)}; expected a pipeline.sdk.Sample")
    if sample.failed is not None:
        raise Refused(_failure(sample.failed), sample.detail or "the engine says so")
    if sample.finish_reason not in FINISH_REASONS:
        raise _wrong(f"finish_reason is {shown(sample.finish_reason)}; expected stop, length or abort")
    if sample.finish_reason == "abort":
        raise Refused(Failure.ABORTED, sample.detail or "the engine aborted it")
    if not isinstance(sample.text, str):
        raise _wrong(f"text is a {type(sample.text).__name__}; expected a str")
    entropy = None if sample.entropy is None else number(sample.entropy, "entropy")
    env_reward = None if sample.env_reward is None else number(sample.env_reward, "env_reward")
    ids = token_array(sample.token_ids, "token_ids")
    tokens = len(ids.data) // (4 if ids.dtype == "int32" else 8)
    if not tokens:
        raise Refused(Failure.EMPTY, "the response has no tokens")
    spans = ((0, tokens, version),) if sample.version_spans is None else _spans(sample.version_spans, tokens)
    logprobs, mask = _logprobs(sample.logprobs, tokens), _mask(sample.loss_mask, tokens)
    finish, detail = FinishReason(sample.finish_reason), told(sample.detail) if sample.detail else None
    flags = bool(sample.drop_flag), bool(sample.env_timeout), bool(sample.env_failed)
    return Admitted(tokens, ids, logprobs, mask, spans, entropy, env_reward, finish, detail, *flags)


def number(value: Any, name: str) -> float:
    """A finite number, as a float. Raises Refused."""
    try:
        return told_number(value)
    except ValueError as error:
        raise _wrong(f"{name} is {error}") from None


def token_array(values: Any, name: str) -> Array:
    """Token ids as int32, or as int64 if they need it. Raises Refused."""
    raw = _raw(values, "ilq")
    if raw is not None:
        return Array("int32" if raw.itemsize == 4 else "int64", raw.tobytes())
    items = _items(values, name)
    try:
        return Array("int32", array("i", items).tobytes())
    except OverflowError:
        return Array("int64", _converted("q", items, name, "an id within 64 bits"))
    except TypeError:
        return Array("int32", _converted("i", items, name, "a whole number"))


def _logprobs(values: Any, tokens: int) -> Array | None:
    if values is None:
        return None
    raw = _raw(values, "f")
    data = raw.tobytes() if raw else _converted("f", _items(values, "logprobs"), "logprobs", "a number")
    if len(data) != 4 * tokens:
        raise _wrong(f"logprobs has {len(data) // 4} items, token_ids {tokens}; expected equal lengths")
    top = data[3::4]
    left = top.translate(None, ORDINARY)
    if left and (not UNUSUAL.isdisjoint(left) or max(array("f", data)) > 0.0):
        _find_impossible(array("f", data))
    return Array("float32", data)


def _find_impossible(values: Sequence[float]) -> None:
    for place, value in enumerate(values):
        if not value <= 0.0:
            raise _wrong(f"logprobs[{place}] is {value}; expected at most 0")


def _mask(values: Any, tokens: int) -> Array:
    if values is None:
        return Array("uint8", b"\1" * tokens)
    raw = _raw(values, "B?b")
    data = raw.tobytes() if raw else _converted("B", _items(values, "loss_mask"), "loss_mask", "0 or 1")
    if len(data) != tokens:
        raise _wrong(f"loss_mask has {len(data)} items, token_ids {tokens}; expected equal lengths")
    if data.translate(None, b"\0\1"):
        place = next(i for i, item in enumerate(data) if item > 1)
        raise _wrong(f"loss_mask[{place}] is {data[place]}; expected 0 or 1")
    return Array("uint8", data)


def _spans(spans: Any, tokens: int) -> tuple[Span, ...]:
    expected = 0
    found: list[Span] = []
    for start, end, version in _triples(spans):
        if start != expected or not start < end <= tokens:
            raise _wrong(
                f"version_spans has ({start}, {end}) where {expected} is next; expected to cover {tokens} tokens"
            )
        if not 0 <= version <= MAX_VERSION:
            raise _wrong(f"version_spans names version {version}; expected 0 to 2^63 - 1")
        found.append((start, end, version))
        expected = end
    if expected != tokens:
        raise _wrong(f"version_spans covers {expected} of {tokens} tokens; expected all")
    return tuple(found)


def _triples(spans: Any) -> list[Span]:
    try:
        return [(index(start), index(end), index(version)) for start, end, version in spans]
    except (TypeError, ValueError):
        raise _wrong(f"version_spans is {shown(spans)}; expected (start, end, version), all whole numbers") from None


def _raw(values: Any, formats: str) -> array[Any] | memoryview | None:
    """The values as a flat buffer of one of these item formats; None if they are anything else."""
    if type(values) is array:
        return values if values.typecode in formats else None
    try:
        view = memoryview(values)
    except TypeError:
        return None
    return view if view.ndim == 1 and (view.format or "B").lstrip("@=<") in formats else None


def _items(values: Any, name: str) -> list[Any]:
    try:
        return list(values.tolist() if hasattr(values, "tolist") else values)
    except TypeError:
        raise _wrong(f"{name} is a {type(values).__name__}; expected a sequence or a buffer") from None


def _converted(code: str, items: list[Any], name: str, expected: str) -> bytes:
    """The items' bytes; the first that doesn't fit is named."""
    try:
        return array(code, items).tobytes()
    except (OverflowError, TypeError, ValueError):
        place = next(i for i, item in enumerate(items) if not _fits(code, item))
        raise _wrong(f"{name}[{place}] is {shown(items[place])}; expected {expected}") from None


def _fits(code: str, item: Any) -> bool:
    try:
        array(code, [item])
    except (OverflowError, TypeError, ValueError):
        return False
    return True


def _failure(text: str) -> Failure:
    try:
        return Failure(text)
    except ValueError:
        raise _wrong(f"failed is {shown(text)}; expected one of: {', '.join(Failure)}") from None


def _wrong(detail: str) -> Refused:
    return Refused(Failure.ENV_FAILED, detail)
