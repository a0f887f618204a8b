"""A selection by the user's own code, which the shell builds. It must decide by its argument alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Protocol

from pipeline.domain.events import Member, Scores
from pipeline.domain.rules import FilterRule
from pipeline.domain.told import told_error


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
    """What the user's code keeps. An exception, or an answer that names what isn't there, is a decision by `on_error`:
    keep none (reject), keep all (keep), or keep none and end the run (raise)."""
    try:
        return Choice(_weights(selector(window), [c.group_id for c in window]))
    except Exception as error:
        on_error, failed = rule.args["on_error"], f"{rule.args['factory']}: {told_error(error)}"
        kept = {c.group_id: 1.0 for c in window} if on_error == "keep" else {}
        return Choice(kept, failed, on_error == "raise")


def _weights(answer: Any, known: Sequence[str]) -> dict[str, float]:
    if isinstance(answer, Mapping):
        pairs = list(answer.items())
    elif isinstance(answer, Sequence) and not isinstance(answer, str):
        pairs = [(group, 1.0) for group in answer]
    else:
        raise TypeError(f"answered {type(answer).__name__}; expected a sequence of group ids, or weights by group id")
    weights: dict[str, float] = {}
    for group, weight in pairs:
        if group not in known or group in weights:
            raise ValueError(f"named group {group!r}, which is {'named twice' if group in weights else 'not there'}")
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not isfinite(weight) or weight < 0:
            raise ValueError(f"gave group {group} the weight {weight!r}; expected a finite number of at least 0")
        weights[group] = float(weight)
    return weights
