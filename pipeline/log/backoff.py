"""Waiting longer each time, up to a bound."""

from __future__ import annotations

import asyncio
from typing import Final

FIRST_S: Final = 0.05
MOST_S: Final = 2.0


class Backoff:
    """50 ms, then twice as long each time, up to 2 s."""

    def __init__(self) -> None:
        self._next_s = FIRST_S

    async def wait(self) -> None:
        """Wait, and next time longer."""
        pause_s, self._next_s = self._next_s, min(2 * self._next_s, MOST_S)
        await asyncio.sleep(pause_s)
