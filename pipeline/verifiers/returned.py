"""What a verifier returned, checked. Whatever it is, it becomes a Score or a Blank, which says why there is none."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from pipeline.sdk import Score, ScoreRequest

EXPECTED: Final = (
    "pipeline.sdk.Score with a value that is a finite number or None, and components that are numbers by name; or just "
    "such a value"
)
MISCONFIGURED: Final = "misconfigured"


class Blank(NamedTuple):
    """No score. `outcome`: error, timeout, wrong_type, not_finite, wrong_count, no_score, misconfigured, or what the
    verifier itself says."""

    outcome: str
    detail: str


Outcome = Score | Blank


def checked(name: str, requests: Sequence[ScoreRequest], returned: Any) -> Sequence[Outcome]:
    """One outcome for each request, of what the verifier of that name returned for them all."""
    which = f"verifier {name!r}"
    if not isinstance(returned, Sequence) or isinstance(returned, str | bytes):
        kind = type(returned).__name__
        detail = f"{which} returned a {kind}; expected a sequence of {EXPECTED}"
        return [Blank("wrong_type", detail)] * len(requests)
    if len(returned) != len(requests):
        detail = f"{which} returned {len(returned)} scores for {len(requests)} requests; expected equal"
        return [Blank("wrong_count", detail)] * len(requests)
    return [_one(which, score) for score in returned]


def _one(which: str, score: Any) -> Outcome:
    if score is None:
        return Blank("no_score", f"{which} gave no score")
    if _is_number(score):
        score = Score(float(score))
    if not isinstance(score, Score):
        return _wrong(which, f"a {type(score).__name__}")
    value = score.value
    if value is None:
        said = score.detail if isinstance(score.detail, str) else f"gave no score: {score.outcome}"
        return Blank(str(score.outcome), f"{which}: {said}" if score.detail else f"{which} {said}")
    if not _is_number(value):
        return _wrong(which, f"a Score whose value is a {type(value).__name__}")
    if not math.isfinite(value):
        return Blank("not_finite", f"{which} returned {value}; expected a {EXPECTED}")
    if not _is_number(score.penalty) or not math.isfinite(score.penalty):
        return _wrong(which, f"a Score whose penalty is {score.penalty!r:.40}, no finite number")
    if score.components and not _are_numbers(score.components):
        return _wrong(which, "a Score with components that are no numbers")
    return score


def _wrong(which: str, what: str) -> Blank:
    return Blank("wrong_type", f"{which} returned {what}; expected a {EXPECTED}")


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real)


def _are_numbers(components: Any) -> bool:
    return isinstance(components, Mapping) and all(
        isinstance(name, str) and _is_number(value) for name, value in components.items()
    )
