"""What a filter says of a group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import isfinite
from typing import Final, NamedTuple, cast

from pipeline.domain.events import Member
from pipeline.domain.vocabulary import ConstantClass, Grading, Reason

NOTHING: Final[dict[str, float]] = {}
"""What is measured by a filter that measures nothing; nobody changes it."""
_MOST_NAMES: Final = 12


class Finding(NamedTuple):
    """`reason` None keeps the group. `measured` and `threshold` were compared, `metric` is the number looked at.
    `ends_run`: the group is rejected and the run ends."""

    filter: str
    reason: Reason | None
    measured: float | None = None
    threshold: float | None = None
    metric: str | None = None
    constant_class: ConstantClass | None = None
    metric_name: str = ""
    detail: str | None = None
    measurements: dict[str, float] = NOTHING
    ends_run: bool = False


GroupFilter = Callable[[Sequence[Member]], Finding]


def metric_values(members: Sequence[Member], metric: str) -> list[float] | None:
    """The number filtered on, by member: `reward`, `raw`, or a named component; None if a member lacks it."""
    match metric:
        case "reward":
            values = [m.reward for m in members]
        case "raw":
            values = [m.raw_score for m in members]
        case _:
            values = [m.components.get(metric) for m in members]
    return None if None in values else cast(list[float], values)


def ungraded(name: str, metric: str, members: Sequence[Member]) -> Finding:
    """The rejection of a group in which a member lacks the number. The detail says so of one that was judged: its
    verifiers give no such number."""
    reason, detail = Reason.UNGRADED, next(_without(members, metric), None)
    return Finding(name, reason, metric=metric, metric_name=f"drop_{reason}", detail=detail)


def _without(members: Sequence[Member], metric: str) -> Iterator[str]:
    for member in members:
        if member.grading is Grading.GRADED and metric_values([member], metric) is None:
            known = ", ".join(["reward", "raw", *sorted(member.components)][:_MOST_NAMES])
            yield f"slot {member.slot} was judged and has no number {metric!r}; known: {known}"


def non_finite(name: str, metric: str, values: Sequence[float], statistic: float) -> Finding | None:
    """The rejection of a group with a number, or a statistic of them, that is not finite; else None."""
    if isfinite(statistic) and all(map(isfinite, values)):
        return None
    reason = Reason.NON_FINITE_REWARD
    return Finding(name, reason, metric=metric, metric_name=f"drop_{reason}", detail=f"{values[:8]}")
