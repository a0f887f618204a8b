"""zero_std: a group whose rewards are all the same teaches a group-relative advantage nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from pipeline.domain.events import Member
from pipeline.domain.filters.finding import Finding, GroupFilter, metric_values
from pipeline.domain.grouping import sample_std
from pipeline.domain.vocabulary import ConstantClass, Reason


def zero_std(args: Mapping[str, Any]) -> GroupFilter:
    """Rejects when not (std > tol), std with ddof 1. `tol`: in units of the metric; `metric`: reward, raw or a
    component; `max_reward`: what `all_max` means. After check_reward_nonzero_std of slime and MILES."""
    tol, metric, top = float(args["tol"]), str(args["metric"]), float(args["max_reward"])

    def decide(members: Sequence[Member]) -> Finding:
        values = metric_values(members, metric)
        if values is None:
            return Finding("zero_std", Reason.UNGRADED, metric=metric, metric_name=f"drop_{Reason.UNGRADED}")
        std = sample_std(values)
        if not isfinite(std):
            reason = Reason.NON_FINITE_REWARD
            return Finding("zero_std", reason, metric=metric, metric_name=f"drop_{reason}", detail=f"{values[:8]}")
        measurements = {f"{metric}_std": std}
        if std > tol:
            return Finding("zero_std", None, std, tol, metric, measurements=measurements)
        return Finding(
            "zero_std",
            Reason.ZERO_STD,
            std,
            tol,
            metric,
            constant_class(values, top),
            f"drop_zero_std_{round(values[0], 1) + 0.0}",
            measurements=measurements,
        )

    return decide


def constant_class(values: Sequence[float], top: float) -> ConstantClass:
    """Whether the common value is zero, the highest there is, or another."""
    if all(v == 0.0 for v in values):
        return ConstantClass.ALL_ZERO
    return ConstantClass.ALL_MAX if all(v == top for v in values) else ConstantClass.CONSTANT
