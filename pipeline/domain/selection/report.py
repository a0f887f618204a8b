"""What a window looked like before and after a selection."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

from pipeline.domain.grouping import mean, sample_std, total
from pipeline.domain.selection.rules import ZERO


def spread(groups: Sequence[Sequence[float]]) -> dict[str, float]:
    """Means over the groups of their members' std (ddof 1), max, mean and sum; 0 without a group.

    The members' values are rewards, lengths or entropies. NaN where a value is not finite.
    """
    if not groups:
        return dict.fromkeys(("std", "max", "mean", "sum"), 0.0)
    return {
        "std": mean([sample_std(values) for values in groups]),
        "max": mean([max(values, default=nan) for values in groups]),
        "mean": mean([mean(values) for values in groups]),
        "sum": mean([total(values) for values in groups]),
    }


def zero_count(scores: Sequence[float | None]) -> int:
    """How many groups score zero."""
    return len([s for s in scores if s is not None and abs(s) <= ZERO])
