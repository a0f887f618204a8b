"""The selection itself, on scores. Every order is total: by score, then by group id."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import takewhile
from math import exp, fsum, inf, isnan, nan

from pipeline.domain.events import Scores
from pipeline.domain.selection.rules import ZERO, Metric, SelectionRules

Scored = tuple[str, float]
"""A group id and its score."""


def score(scores: Scores, metric: Metric) -> float | None:
    """The number to rank a group by; None if a member lacks it."""
    match metric:
        case "reward_variance" | "reward_std":
            return scores.reward_std
        case "reward_variance_sq":
            return None if scores.reward_std is None else scores.reward_std * scores.reward_std
        case "reward":
            return scores.reward_mean
        case "reward_sum":
            return scores.reward_sum
        case "length":
            return scores.length_mean
        case "entropy":
            return scores.entropy_mean
        case "entropy_variance" | "entropy_std":
            return scores.entropy_std


def rank(groups: Sequence[tuple[str, float | None]], rules: SelectionRules) -> list[Scored]:
    """The candidates, best first: groups with a score that is no NaN and, unless `include_zero`, no zero."""
    known = [(group, value) for group, value in groups if value is not None and not isnan(value)]
    if not rules.include_zero:
        known = [(group, value) for group, value in known if abs(value) > ZERO]
    sign = -1.0 if rules.keep == "largest" else 1.0
    return sorted(known, key=lambda scored: (sign * scored[1], scored[0]))


def select(groups: Sequence[tuple[str, float | None]], rules: SelectionRules) -> list[str]:
    """The ids of the groups to train on, best first; none at all is a result too. The order of `groups` is nothing."""
    ranked = rank(groups, rules)
    values = [value for _, value in ranked]
    return [group for group, _ in ranked[: _count(values, len(groups), rules)]]


def _count(ranked: Sequence[float], of: int, rules: SelectionRules) -> int:
    """How many to keep, from the front. `of`: all groups of the window, whether candidates or not."""
    if not ranked:
        return 0
    match rules.strategy:
        case "top_p" if rules.value >= 1.0:
            return len(ranked)
        case "top_p" if rules.mode == "linear":
            return _linear(ranked, rules.value, rules.eps)
        case "top_p":
            return _softmax([v if rules.keep == "largest" else -v for v in ranked], rules.value)
        case "top_k":
            return int(max(min(rules.value * of, len(ranked)), 1))
        case "top_k_abs":
            return max(min(int(rules.value), len(ranked)), 1)
        case "min_p":
            return _min_p(ranked, rules)


def _linear(ranked: Sequence[float], value: float, eps: float) -> int:
    """The fewest whose sum reaches value · Σ − eps, taken until a score ≤ 0; 0 if they can't, or if that is ≤ 0."""
    target = value * _sum(ranked) - eps
    usable = list(takewhile(lambda v: v > 0.0, ranked))
    taken = bisect_left(range(len(usable) + 1), True, key=lambda n: _sum(usable[:n]) >= target)
    return taken if taken <= len(usable) else 0


def _softmax(ranked: Sequence[float], value: float) -> int:
    """One more than the first index where the cumulated probability is ≥ value. `ranked` falls."""
    weights = [exp(v - ranked[0]) for v in ranked]
    whole = _sum(weights)
    first = bisect_left(range(len(ranked)), True, key=lambda i: _sum(w / whole for w in weights[: i + 1]) >= value)
    return min(first + 1, len(ranked))


def _min_p(ranked: Sequence[float], rules: SelectionRules) -> int:
    """Those near enough to the best one, which may itself be too far from 0."""
    if rules.keep == "largest":
        return len([v for v in ranked if v >= ranked[0] * rules.value - ZERO])
    divisor = rules.value + ZERO
    limit = ranked[0] / divisor + ZERO if divisor else inf
    return len([v for v in ranked if v <= limit])


def _sum(values: Iterable[float]) -> float:
    """Exact, rounded once; NaN, which reaches no target, where there is none."""
    try:
        return fsum(values)
    except (OverflowError, ValueError):
        return nan
