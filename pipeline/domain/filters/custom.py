"""custom: a callable of the user's own, which the shell builds. It must decide by its argument alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Protocol

from pipeline.domain.events import Member
from pipeline.domain.filters.finding import Finding, GroupFilter
from pipeline.domain.rules import FilterRule
from pipeline.domain.told import shown, told, told_error
from pipeline.domain.vocabulary import Reason


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a custom filter may answer instead of a plain bool. `why` is told with a rejection."""

    keep: bool
    why: str | None = None
    measured: float | None = None
    threshold: float | None = None


class Filter(Protocol):
    """Decides by a group's members whether it is trained on."""

    def __call__(self, members: Sequence[Member], /) -> bool | Opinion:
        """True, or an Opinion with `keep`, keeps the group. Neither order nor place of a member counts."""
        ...


Customs = Callable[[FilterRule], Filter]
"""Gives the callable that a rule of type `custom` names."""


def custom(rule: FilterRule, judge: Filter) -> GroupFilter:
    """Rejects what the callable says. An exception, or an answer of another type, is a decision by `on_error`: reject
    (filter_error), keep, or raise (reject, and end the run)."""
    factory, on_error = str(rule.args["factory"]), str(rule.args["on_error"])

    def decide(members: Sequence[Member]) -> Finding:
        try:
            opinion = judge(members)
            if isinstance(opinion, bool):
                opinion = Opinion(opinion)
            if not isinstance(opinion, Opinion):
                raise TypeError(f"answered {type(opinion).__name__}; expected a bool or an Opinion")
            keep, why = bool(opinion.keep), told(opinion.why) if opinion.why else None
            measured, threshold = _number(opinion.measured), _number(opinion.threshold)
        except Exception as error:
            if on_error == "keep":
                return Finding("custom", None, measurements={"filter_errors": 1.0})
            reason, detail = Reason.FILTER_ERROR, f"{factory}: {told_error(error)}"
            return Finding("custom", reason, metric_name=f"drop_{reason}", detail=detail, ends_run=on_error == "raise")
        if keep:
            return Finding("custom", None, measured, threshold)
        reason, detail = Reason.CUSTOM, f"{factory}: {why}" if why else factory
        return Finding("custom", reason, measured, threshold, metric_name=f"drop_{reason}", detail=detail)

    return decide


def _number(value: object) -> float | None:
    """A number of any kind, as a record can hold it. Raises TypeError or OverflowError."""
    if value is None:
        return None
    if not isinstance(value, Real):
        raise TypeError(f"answered with the number {shown(value)}; expected a float or None")
    return float(value)
