"""When selecting has become pointless: nothing is kept for long, or the rewards no longer vary."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import fsum

BASE_STEPS = 10
LOW_STEPS = 10
LOW_SHARE = 0.1


def updated_empties(in_a_row: int, kept: int) -> int:
    """Empty selections in a row, after one that kept so many."""
    return 0 if kept else in_a_row + 1


def empty_stop(in_a_row: int, limit: int) -> bool:
    """Whether `limit` selections in a row kept nothing; 0: never."""
    return 0 < limit <= in_a_row


@dataclass(slots=True)
class SpreadWatch:
    """RAGEN's variance stop, fed with the mean group deviation of each non-empty step.

    `base` has those of the first 10 such steps; `low_in_a_row` counts later ones under a tenth of their mean.
    """

    base: list[float] = field(default_factory=list)
    low_in_a_row: int = 0

    def collapsed(self, std: float) -> bool:
        """Note a step; whether now each of the latest 10 after the base is low. NaN is never low, nor is its base."""
        if len(self.base) < BASE_STEPS:
            self.base.append(std)
            return False
        low = std < LOW_SHARE * (fsum(self.base) / BASE_STEPS)
        self.low_in_a_row = self.low_in_a_row + 1 if low else 0
        return self.low_in_a_row >= LOW_STEPS
