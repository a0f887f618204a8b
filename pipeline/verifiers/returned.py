"""What a verifier returned, checked. Whatever it is, it becomes a Score or a Blank, which says why there is none."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from pipeline.domain.told import kind, shown, told, told_error
from pipeline.sdk import Score, ScoreRequest

EXPECTED: Final = (
    "pipeline.sdk.Score with a value that is a finite number or None, and components that are numbers by name; or just "
    "such a value"
)
MISCONFIGURED: Final = "misconfigured"
MOST_COMPONENTS: Final = 256


class Blank(NamedTuple):
    """No score. `outcome`: error, timeout, wrong_type, not_finite, wrong_count, no_score, misconfigured, or what the
    verifier itself says."""

    outcome: str
    detail: str


Outcome = Score | Blank


def checked(name: str, requests: Sequence[ScoreRequest], returned: Any) -> Sequence[Outcome]:
    """One outcome for each request, of what the verifier of that name returned for them all."""
    which = f"verifier {name!r}"
    try:
        return _all(which, requests, returned)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return [_unreadable(which, error)] * len(requests)


def _all(which: str, requests: Sequence[ScoreRequest], returned: Any) -> Sequence[Outcome]:
    if not isinstance(returned, Sequence) or isinstance(returned, str | bytes):
        detail = f"{which} returned a {kind(returned)}; expected a sequence of {EXPECTED}"
        return [Blank("wrong_type", detail)] * len(requests)
    scores = list(returned)
    if len(scores) != len(requests):
        detail = f"{which} returned {len(scores)} scores for {len(requests)} requests; expected equal"
        return [Blank("wrong_count", detail)] * len(requests)
    return [_one(which, score) for score in scores]


def _one(which: str, score: Any) -> Outcome:
    """It as our own types: whatever it holds is read here, and nowhere else."""
    try:
        return _outcome(which, score)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return _unreadable(which, error)


def _outcome(which: str, score: Any) -> Outcome:
    if score is None:
        return Blank("no_score", f"{which} gave no score")
    if isinstance(score, numbers.Real):
        score = Score(score)  # type: ignore[arg-type]
    if not isinstance(score, Score):
        return _wrong(which, f"a {kind(score)}")
    if score.value is None:
        outcome = told(score.outcome)
        said = score.detail if isinstance(score.detail, str) else f"gave no score: {outcome}"
        return Blank(outcome, told(f"{which}: {said}" if score.detail else f"{which} {said}"))
    value, penalty, components = _number(score.value), _number(score.penalty), _components(score.components)
    if value is None:
        return _wrong(which, f"a Score whose value is a {kind(score.value)}")
    if not math.isfinite(value):
        return Blank("not_finite", f"{which} returned {value}; expected a {EXPECTED}")
    if penalty is None or not math.isfinite(penalty):
        return _wrong(which, f"a Score whose penalty is {shown(score.penalty)}, no finite number")
    if components is None:
        return _wrong(which, "a Score with components that are no numbers")
    answer = told(score.answer) if isinstance(score.answer, str) else None
    return Score(value, "ok", components, answer, None, penalty)


def _wrong(which: str, what: str) -> Blank:
    return Blank("wrong_type", f"{which} returned {what}; expected a {EXPECTED}")


def _unreadable(which: str, error: BaseException) -> Blank:
    return Blank("wrong_type", f"{which} returned what can't be read: {told_error(error)}; expected a {EXPECTED}")


def _number(value: object) -> float | None:
    """A number of any kind as a float, infinite if it is beyond them; None if it is no number."""
    if not isinstance(value, numbers.Real):
        return None
    try:
        return float(value)
    except OverflowError:
        return -math.inf if value < 0 else math.inf


def _components(given: Any) -> dict[str, float] | None:
    """Numbers by name, at most MOST_COMPONENTS; None if they are anything else."""
    if not given:
        return {}
    if not isinstance(given, Mapping) or len(given) > MOST_COMPONENTS:
        return None
    found = {told(name): _number(value) for name, value in given.items() if isinstance(name, str)}
    known = {name: value for name, value in found.items() if value is not None}
    return known if len(known) == len(given) else None
