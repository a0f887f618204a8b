"""A selection by the user's own code, which the shell builds. It must decide by its argument alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pipeline.domain.events import Member, Scores
from pipeline.domain.rules import FilterRule
from pipeline.domain.told import kind, number, shown, told_error


@dataclass(frozen=True, slots=True)
class Candidate:
    """A group of the window, in the order of acceptance."""

    group_id: str
    members: tuple[Member, ...]
    scores: Scores


class Selector(Protocol):
    """Chooses the groups of a window to train on."""

    def __call__(self, window: Sequence[Candidate], /) -> Sequence[str] | Mapping[str, float]:
        """The ids to keep; or the weight in the loss of each group to keep, by its id. Neither its order counts."""
        ...


Selectors = Callable[[FilterRule], Selector]
"""Gives the callable that a selection of type `custom` names."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The groups to keep with their weights. `failed`: what went wrong; `ends_run`: and the run shall end for it."""

    weights: Mapping[str, float]
    failed: str | None = None
    ends_run: bool = False


def choose(rule: FilterRule, selector: Selector, window: Sequence[Candidate]) -> Choice:
    """What the user's code keeps. Whatever it raises, and an answer that names what isn't there, is a decision by
    `on_error`: keep none (reject), keep all (keep), or keep none and end the run (raise)."""
    try:
        return Choice(_weights(selector(window), [c.group_id for c in window]))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        on_error, failed = rule.args["on_error"], f"{rule.args['factory']}: {told_error(error)}"
        kept = {c.group_id: 1.0 for c in window} if on_error == "keep" else {}
        return Choice(kept, failed, on_error == "raise")


def _weights(answer: Any, known: Sequence[str]) -> dict[str, float]:
    if isinstance(answer, Mapping):
        pairs = list(answer.items())
    elif isinstance(answer, Sequence) and not isinstance(answer, str):
        pairs = [(group, 1.0) for group in answer]
    else:
        raise TypeError(f"answered {kind(answer)}; expected a sequence of group ids, or weights by group id")
    weights: dict[str, float] = {}
    for group, weight in pairs:
        if not isinstance(group, str) or group not in known or group in weights:
            where = "named twice" if group in weights else "not there"
            raise ValueError(f"named group {shown(group)}, which is {where}")
        weights[group] = _weight(group, weight)
    return weights


def _weight(group: str, weight: object) -> float:
    try:
        found = number(weight)
    except ValueError:
        found = -1.0
    if found < 0:
        raise ValueError(f"gave group {group} the weight {shown(weight)}; expected a finite number of at least 0")
    return found
