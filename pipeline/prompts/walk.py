"""Goals to walk to: `34>`, a column and a row of a field of 5 by 5. The game itself is pipeline/environments/walk.py.

Of each column and each row one goal is held out: no episode of training ever leads there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.prompts.order import Order
from pipeline.prompts.sorting import ARROW, DIGIT, Split
from pipeline.sdk import Task

SIZE = 5
MOVES = tuple(range(DIGIT + SIZE, DIGIT + SIZE + 4))
"""Token ids of a step to the north, east, south and west."""
SYMBOLS = "_$01234NESW.>"
"""What each token id is as text."""


@dataclass(frozen=True, slots=True)
class WalkPromptOptions:
    """size: prompts in one pass; goals repeat, each time with another start."""

    split: Split = "train"
    size: int = 4096
    domain: str = "walk"


def cells() -> list[tuple[int, int]]:
    """All of the field, as columns and rows."""
    return [(column, row) for column in range(SIZE) for row in range(SIZE)]


def split_of(goal: tuple[int, int]) -> Split:
    """On which side a goal is: a Latin square, one of each column and row."""
    column, row = goal
    return "eval" if (column + 2 * row) % SIZE == 0 else "train"


class WalkPrompts:
    """A PromptSource; each epoch has its own order. Options: `WalkPromptOptions`."""

    def __init__(self, seed: int, options: Mapping[str, Any]) -> None:
        self._options = WalkPromptOptions(**options)
        if self._options.split not in ("train", "eval"):
            raise ValueError(f"split is {self._options.split!r}; expected train or eval")
        self._goals = [cell for cell in cells() if split_of(cell) == self._options.split]
        self._order = Order(seed, self._options.domain, self._options.size)
        rules = {"rule": "walk/1, order/1", "seed": seed, "size": SIZE, **asdict(self._options)}
        self.content_hash = hashlib.sha256(json.dumps([rules, self._goals], sort_keys=True).encode()).hexdigest()

    def domains(self) -> Sequence[str]:
        """The one domain."""
        return (self._options.domain,)

    def size(self, domain: str) -> int:
        """Prompts in one pass. Raises KeyError for another domain."""
        self._check(domain)
        return self._options.size

    def at(self, domain: str, ordinal: int, epoch: int) -> Task:
        """The task at a place. Raises KeyError for another domain, IndexError for a place outside the pass."""
        self._check(domain)
        place = self._order.at(ordinal, epoch)
        column, row = self._goals[place % len(self._goals)]
        tokens = (DIGIT + column, DIGIT + row, ARROW)
        name = f"walk-{self._options.split}-{place}"
        return Task(name, f"{column}{row}>", tokens, (), {"column": column, "row": row})

    def _check(self, domain: str) -> None:
        if domain != self._options.domain:
            raise KeyError(f"no domain {domain!r}: this source has {self._options.domain!r}")
