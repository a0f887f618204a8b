"""Filters of the level: groups that are too hard or too easy by their mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf, isfinite
from typing import Any

from pipeline.domain.events import Member
from pipeline.domain.filters.finding import Finding, GroupFilter, metric_values, non_finite, ungraded
from pipeline.domain.grouping import mean
from pipeline.domain.vocabulary import Reason


def mean_filter(args: Mapping[str, Any]) -> GroupFilter:
    """Rejects when mean ≤ threshold_down or mean ≥ threshold_up; None: no such bound. After mean_filter of ROLL, which
    keeps every group of one; so does `compat: roll`."""
    keeps_one = args["compat"] == "roll"
    low, high = _bound(args["threshold_down"], -inf), _bound(args["threshold_up"], inf)

    def judge(average: float) -> Reason | None:
        if average <= low:
            return Reason.MEAN_LOW
        return Reason.MEAN_HIGH if average >= high else None

    by_mean = _by_mean("mean_filter", str(args["metric"]), low, high, judge)

    def decide(members: Sequence[Member]) -> Finding:
        found = by_mean(members)
        alone = keeps_one and len(members) == 1 and found.measured is not None
        return found._replace(reason=None, metric_name="") if alone else found

    return decide


def band(args: Mapping[str, Any]) -> GroupFilter:
    """Rejects when the mean is outside [low, high]; the bounds themselves are kept."""
    low, high = float(args["low"]), float(args["high"])
    return _by_mean("band", str(args["metric"]), low, high, lambda v: None if low <= v <= high else Reason.BAND)


def _by_mean(name: str, metric: str, low: float, high: float, judge: Callable[[float], Reason | None]) -> GroupFilter:
    def decide(members: Sequence[Member]) -> Finding:
        values = metric_values(members, metric)
        if values is None:
            return ungraded(name, metric, members)
        average = mean(values)
        if broken := non_finite(name, metric, values, average):
            return broken
        reason = judge(average)
        found = f"drop_{reason}" if reason else ""
        return Finding(name, reason, average, _nearer(average, low, high), metric, metric_name=found,
                       measurements={f"{metric}_mean": average})  # fmt: skip

    return decide


def _nearer(value: float, low: float, high: float) -> float | None:
    """The bound that decides: that which was crossed, or else the nearer one. None: there is none."""
    bound = low if value <= low or (value < high and value - low <= high - value) else high
    return bound if isfinite(bound) else None


def _bound(value: float | None, absent: float) -> float:
    return absent if value is None else float(value)
