"""What a filter says of a group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pipeline.domain.events import Member
from pipeline.domain.vocabulary import ConstantClass, Reason


@dataclass(frozen=True, slots=True)
class Finding:
    """`reason` None keeps the group. `measured` and `threshold` were compared, `metric` is the number looked at."""

    filter: str
    reason: Reason | None
    measured: float | None = None
    threshold: float | None = None
    metric: str | None = None
    constant_class: ConstantClass | None = None
    metric_name: str = ""
    detail: str | None = None
    measurements: dict[str, float] = field(default_factory=dict)


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
    known = [v for v in values if v is not None]
    return known if len(known) == len(values) else None
