"""The response filter: predicates from the configuration that keep single responses out of their groups."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from pipeline import plugins
from pipeline.config.models import DecisionConfig
from pipeline.config.predicates import (
    CustomPredicate,
    InvalidFormat,
    MaxRepetition,
    MaxTokens,
    MinTokens,
    Predicate,
    Truncated,
)
from pipeline.domain.told import flag, kind, told_error
from pipeline.domain.vocabulary import FinishReason
from pipeline.sdk import Judged

Rejects = Callable[[Judged], str | None]
"""Why a response is rejected; None: it isn't."""


class Raised(Exception):
    """A custom predicate raised, or answered what is no answer. `ends_run`: whether its `on_error` says so."""

    def __init__(self, why: str, ends_run: bool) -> None:
        super().__init__(why)
        self.ends_run = ends_run


class ResponseFilter:
    """All predicates of a run; the first that rejects counts. `needs_tokens`: whether one looks at token ids."""

    def __init__(self, config: DecisionConfig) -> None:
        self._predicates = [rejects(p, config.seed, place) for place, p in enumerate(config.response_filter)]
        self.needs_tokens = any(isinstance(p, MaxRepetition | CustomPredicate) for p in config.response_filter)

    def __bool__(self) -> bool:
        return bool(self._predicates)

    def rejection(self, judged: Judged) -> str | None:
        """Why it is rejected, if it is. Raises Raised."""
        return next((reason for refuses in self._predicates if (reason := refuses(judged))), None)


def repeated_share(token_ids: Sequence[int], ngram: int) -> float:
    """The share of the runs of `ngram` tokens that have occurred before; 0 for a response without any."""
    runs = [tuple(token_ids[i : i + ngram]) for i in range(len(token_ids) - ngram + 1)]
    return (len(runs) - len(set(runs))) / len(runs) if runs else 0.0


def rejects(predicate: Predicate, seed: int, place: int) -> Rejects:
    """What a predicate, at this place in the configuration, says. ConfigError if a custom one can't be built."""
    match predicate:
        case InvalidFormat(pattern=pattern):
            found = re.compile(pattern).search
            return lambda r: None if found(r.text) else f"invalid_format: {pattern!r} is not found"
        case Truncated():
            return lambda r: "truncated" if r.finish_reason == FinishReason.LENGTH else None
        case MinTokens(value=least):
            return lambda r: f"min_tokens: {r.tokens} < {least}" if r.tokens < least else None
        case MaxTokens(value=most):
            return lambda r: f"max_tokens: {r.tokens} > {most}" if r.tokens > most else None
        case MaxRepetition(ngram=ngram, share=share):
            return lambda r: _over(repeated_share(r.token_ids, ngram), share)
        case CustomPredicate(factory=factory, options=options, on_error=on_error):
            what = f"response_filter.{place}.factory"
            custom = plugins.build(factory, seed, options, what)
            plugins.callable_with(custom, ("judged",), factory, what)
            return lambda r: asked(r, custom, factory, on_error)


def asked(judged: Judged, custom: Callable[[Judged], Any], factory: str, on_error: str) -> str | None:
    """Why a predicate of the user's rejects; what it does besides is a decision by `on_error`. Raises Raised."""
    try:
        answer = custom(judged)
        if (rejected := flag(answer)) is None:
            raise TypeError(f"{factory} answered {kind(answer)}; expected a bool: true rejects")
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if on_error == "keep":
            return None
        raise Raised(told_error(error), on_error == "raise") from error
    return f"custom: {factory}" if rejected else None


def _over(found: float, share: float) -> str | None:
    return f"max_repetition: {found:.3f} > {share}" if found > share else None
