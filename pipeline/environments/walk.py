"""Walk to the goal: a text game of several turns, on an icy field of 5 by 5.

    34>   the task: the goal, column and row
    10    the environment: where the player stands; the episode's seed decides it
    E     the policy: a step to N, E, S or W (anything else stands still)
    20    the environment: where the player stands now; on ice a step may come to nothing
    …     until the goal is reached, for a reward of 1, or the turns are used up

The seed decides start and ice, so that members of a group play the same game. For demonstration some episodes break:
which, and how, is decided by seed and response.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.prompts.sorting import DIGIT
from pipeline.prompts.walk import MOVES, SIZE, cells
from pipeline.sdk import EpisodeRequest, Observation, Turn

STEPS = ((0, -1), (1, 0), (0, 1), (-1, 0))
"""Of `MOVES`, as columns and rows; row 0 is in the north."""
BREAKS = ("raises", "hangs", "drops")


class Broken(Exception):
    """What a broken episode raises."""


@dataclass(frozen=True, slots=True)
class WalkOptions:
    """ice: one step in so many comes to nothing; breaks: one training episode in so many breaks (0: none), a third each
    by an exception, by an answer that never comes, and by an environment that says so; episodes: at once."""

    ice: int = 10
    breaks: int = 0
    episodes: int = 512


class Walk:
    """An Environment. Options: `WalkOptions`."""

    def __init__(self, seed: int, options: Mapping[str, Any]) -> None:
        self._options = WalkOptions(**options)
        self.concurrency = self._options.episodes

    async def start(self, request: EpisodeRequest) -> Round:
        """Where the seed says."""
        goal = (int(request.metadata["column"]), int(request.metadata["row"]))
        starts = [cell for cell in cells() if cell != goal]
        start = starts[_number(f"start/{request.seed}") % len(starts)]
        return Round(goal, start, request.seed, self._options.ice, self._trouble(request))

    def _trouble(self, request: EpisodeRequest) -> str | None:
        breaks = self._options.breaks
        if not breaks or request.evaluation:
            return None
        drawn = _number(f"breaks/{request.seed}/{request.response_id}")
        return BREAKS[drawn // breaks % len(BREAKS)] if drawn % breaks == 0 else None


class Round:
    """An Episode."""

    def __init__(self, goal: tuple[int, int], start: tuple[int, int], seed: int, ice: int, trouble: str | None) -> None:
        self._goal, self._at, self._seed, self._ice, self._trouble = goal, start, seed, ice, trouble
        self._turns = 0
        self.opening = _standing(start)

    async def step(self, turn: Turn) -> Observation:
        """Where the step leads."""
        self._turns += 1
        if self._turns == 2 and self._trouble is not None:
            return await self._break()
        if _number(f"ice/{self._seed}/{self._turns}") % self._ice:
            self._at = _moved(self._at, turn.token_ids[0])
        arrived = self._at == self._goal
        return _standing(self._at, float(arrived), arrived)

    async def close(self) -> None:
        """Nothing is held."""

    async def _break(self) -> Observation:
        if self._trouble == "raises":
            raise Broken("the ice broke")
        if self._trouble == "hangs":
            await asyncio.Event().wait()
        return Observation(text="fog", done=True, drop=True)


def _moved(at: tuple[int, int], token: int) -> tuple[int, int]:
    """One step on, unless it is none, or leads off the field."""
    if token not in MOVES:
        return at
    column, row = (a + b for a, b in zip(at, STEPS[MOVES.index(token)], strict=True))
    return (column, row) if 0 <= column < SIZE and 0 <= row < SIZE else at


def _standing(at: tuple[int, int], reward: float = 0.0, done: bool = False) -> Observation:
    column, row = at
    return Observation((DIGIT + column, DIGIT + row), f"{column}{row}", reward, done)


def _number(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big")
