"""custom: a callable of the user's own, which the shell builds. It must decide by its argument alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pipeline.domain.events import Member
from pipeline.domain.filters.finding import Finding, GroupFilter
from pipeline.domain.rules import FilterRule
from pipeline.domain.told import flag, kind, number, shown, told, told_error
from pipeline.domain.vocabulary import Reason


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a custom filter may answer instead of a plain bool. `why` is told with a rejection; `measured` and
    `threshold` are finite."""

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
    """Rejects what the callable says. Whatever it raises, and an answer that is none, is a decision by `on_error`:
    reject (filter_error), keep, or raise (reject, and end the run)."""
    factory, on_error = str(rule.args["factory"]), str(rule.args["on_error"])

    def decide(members: Sequence[Member]) -> Finding:
        try:
            opinion = _opinion(judge(members))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if on_error == "keep":
                return Finding("custom", None, measurements={"filter_errors": 1.0})
            reason, detail = Reason.FILTER_ERROR, f"{factory}: {told_error(error)}"
            return Finding("custom", reason, metric_name=f"drop_{reason}", detail=detail, ends_run=on_error == "raise")
        if opinion.keep:
            return Finding("custom", None, opinion.measured, opinion.threshold)
        reason, detail = Reason.CUSTOM, f"{factory}: {opinion.why}" if opinion.why else factory
        return Finding("custom", reason, opinion.measured, opinion.threshold, metric_name=f"drop_{reason}",
                       detail=detail)  # fmt: skip

    return decide


def _opinion(answer: object) -> Opinion:
    """What was answered, as our own types. Raises TypeError or ValueError."""
    if not isinstance(answer, Opinion):
        if (keep := flag(answer)) is None:
            raise TypeError(f"answered {kind(answer)}; expected a bool or an Opinion")
        return Opinion(keep)
    keep, why = flag(answer.keep), answer.why
    if keep is None:
        raise TypeError(f"answered an Opinion whose keep is {shown(answer.keep)}; expected a bool")
    if why is not None and not isinstance(why, str):
        raise TypeError(f"answered an Opinion whose why is {shown(why)}; expected a text or None")
    numbers = _number("measured", answer.measured), _number("threshold", answer.threshold)
    return Opinion(keep, why and told(why), *numbers)


def _number(name: str, value: object) -> float | None:
    try:
        return None if value is None else number(value)
    except ValueError as error:
        raise ValueError(f"answered an Opinion whose {name} is {error}, or None") from None
