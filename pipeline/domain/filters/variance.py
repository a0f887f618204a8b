"""Filters of the spread: a group whose rewards are all the same teaches a group-relative advantage nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pipeline.domain.events import Member
from pipeline.domain.filters.finding import NOTHING, Finding, GroupFilter, metric_values, non_finite, ungraded
from pipeline.domain.grouping import sample_std
from pipeline.domain.vocabulary import ConstantClass, FinishReason, Reason


def zero_std(args: Mapping[str, Any]) -> GroupFilter:
    """Rejects when not (std > tol), std with ddof 1. `tol`: in units of the metric; `metric`: reward, raw or a
    component; `max_reward`: what `all_max` means. After check_reward_nonzero_std of slime and MILES."""
    of = _constant("zero_std", args, "std")
    return lambda members: of(members, NOTHING)


def finished_zero_std(args: Mapping[str, Any]) -> GroupFilter:
    """zero_std over the members that weren't cut off at their length limit; fewer than two: rejected. A kept group
    stays whole. After the finished-response filter of open-instruct."""

    of = _constant("finished_zero_std", args, "std_finished")

    def decide(members: Sequence[Member]) -> Finding:
        whole = finished(members)
        count = {"finished": float(len(whole))}
        if len(whole) >= 2:
            return of(whole, count)
        reason = Reason.INSUFFICIENT_FINISHED_RESPONSES
        return Finding("finished_zero_std", reason, count["finished"], 2.0, metric_name=f"drop_{reason}",
                       measurements=count)  # fmt: skip

    return decide


def finished(members: Sequence[Member]) -> list[Member]:
    """The members that weren't cut off at their length limit."""
    return [m for m in members if m.finish_reason is not FinishReason.LENGTH]


def std_filter(args: Mapping[str, Any]) -> GroupFilter:
    """Rejects when std ≤ std_threshold, std with `ddof`; a group of one is kept. After std_filter of ROLL."""
    threshold, ddof, metric = float(args["std_threshold"]), int(args["ddof"]), str(args["metric"])
    key = f"{metric}_std" if ddof == 1 else f"{metric}_std_ddof{ddof}"

    def decide(members: Sequence[Member]) -> Finding:
        values = metric_values(members, metric)
        if values is None:
            return ungraded("std_filter", metric, members)
        std = sample_std(values, ddof)
        if broken := non_finite("std_filter", metric, values, std):
            return broken
        if len(members) == 1:
            return Finding("std_filter", None, metric=metric)
        reason = Reason.STD if std <= threshold else None
        name = f"drop_{reason}" if reason else ""
        return Finding("std_filter", reason, std, threshold, metric, metric_name=name, measurements={key: std})

    return decide


def _constant(
    name: str, args: Mapping[str, Any], key: str
) -> Callable[[Sequence[Member], Mapping[str, float]], Finding]:  # fmt: skip
    """Judges members by their spread; the second argument is measured too."""
    tol, metric, top = float(args["tol"]), str(args["metric"]), float(args["max_reward"])
    measured = f"{metric}_{key}"

    def decide(members: Sequence[Member], more: Mapping[str, float]) -> Finding:
        values = metric_values(members, metric)
        if values is None:
            return ungraded(name, metric, members)
        std = sample_std(values)
        if broken := non_finite(name, metric, values, std):
            return broken
        measurements = {measured: std, **more}
        if std > tol:
            return Finding(name, None, std, tol, metric, measurements=measurements)
        label = f"drop_zero_std_{round(min(values), 1) + 0.0}"
        kind = constant_class(values, top)
        return Finding(name, Reason.ZERO_STD, std, tol, metric, kind, label, measurements=measurements)

    return decide


def constant_class(values: Sequence[float], top: float) -> ConstantClass:
    """Whether the common value is zero, the highest there is, or another."""
    if all(v == 0.0 for v in values):
        return ConstantClass.ALL_ZERO
    return ConstantClass.ALL_MAX if all(v == top for v in values) else ConstantClass.CONSTANT
