"""How to select, and what is wrong with a way to select before any group has been seen."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Literal, get_args

Metric = Literal[
    "reward_variance", "reward_std", "reward_variance_sq", "reward", "reward_sum",
    "length", "entropy", "entropy_variance", "entropy_std",
]  # fmt: skip
Strategy = Literal["top_p", "top_k", "top_k_abs", "min_p"]
Mode = Literal["linear", "softmax"]
Keep = Literal["largest", "smallest"]

ZERO = 1e-10
"""A score this near to zero is a zero; also the slack of min_p's comparison."""
SIGNED: tuple[Metric, ...] = ("reward", "reward_sum")
"""Metrics that can be negative."""


@dataclass(frozen=True, slots=True)
class SelectionRules:
    """Rank the groups of a window by `metric` and keep some from the `keep` end.

    reward_variance is the sample standard deviation (ddof 1; so is entropy_variance); both also have the honest name
    *_std. The true variance is reward_variance_sq. `value` is a share of the scores' sum (top_p, linear), of the
    probability by softmax (top_p, softmax), of all groups (top_k), a number of groups (top_k_abs) or a share of the
    best score (min_p). `eps` lowers the linear target. ValueError for an unknown word.
    """

    strategy: Strategy = "top_p"
    value: float = 1.0
    metric: Metric = "reward_variance"
    keep: Keep = "largest"
    mode: Mode = "linear"
    eps: float = 0.01
    include_zero: bool = True

    def __post_init__(self) -> None:
        for word, known in (
            (self.strategy, Strategy), (self.metric, Metric), (self.keep, Keep), (self.mode, Mode),
        ):  # fmt: skip
            if word not in get_args(known):
                raise ValueError(f"{word!r} is none of {', '.join(get_args(known))}")
        if not (isfinite(self.value) and isfinite(self.eps)):
            raise ValueError(f"value {self.value} and eps {self.eps} must be finite")


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a selection keeps nothing: on every window (`certain`), or on those where the data makes it so."""

    text: str
    certain: bool


def problems(rules: SelectionRules) -> list[Problem]:
    """Everything by which these rules keep nothing. Refuse at the start what is certain, warn of the rest."""
    match rules.strategy:
        case "top_p" if rules.mode == "linear" and rules.value < 1.0:
            return _linear(rules)
        case "min_p":
            return _min_p(rules)
    return []


def _linear(rules: SelectionRules) -> list[Problem]:
    signed, found = rules.metric in SIGNED, []
    if rules.value <= 0.0 and rules.eps >= 0.0:
        found.append(Problem(f"a target of {rules.value} × the sum of scores − eps is not above 0", not signed))
    elif rules.eps < 0.0:
        found.append(Problem(f"eps {rules.eps} can raise the target above the sum of scores", False))
    if signed:
        found.append(Problem(f"a negative sum of {rules.metric} makes the target negative", False))
    if rules.keep == "smallest" and (rules.include_zero or signed):
        found.append(Problem("smallest first stops at a score of 0 or less, before it reaches the target", False))
    return found


def _min_p(rules: SelectionRules) -> list[Problem]:
    found = []
    if rules.value > (1.0 if rules.keep == "largest" else 1.0 - 10 * ZERO):  # the slack beside a smallest is below it
        found.append(Problem(f"no positive score lies beyond {rules.value} × the best one", False))
    if rules.value < 0.0 and rules.keep == "smallest":
        found.append(Problem(f"no positive score is below the lowest one / {rules.value}", False))
    if rules.metric in SIGNED:
        found.append(Problem(f"where the best {rules.metric} is negative, the threshold lies beyond it", False))
    return found
