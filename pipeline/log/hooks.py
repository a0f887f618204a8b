"""What a process may hang on the loop: effects outside Kafka, facts from outside, signs of life."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from pipeline.domain.topology import Output, StageName
from pipeline.health import Standing
from pipeline.log.errors import Stop

WINDOW: Final = 1_000
IN_A_ROW: Final = 100
TOLD: Final = 20
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Committed:
    """What one transaction held. `seconds`: from having the records to the commit; `positions`: next offset by
    partition; `dead_letters`: place and reason of each."""

    records: int
    outputs: int
    dead_letters: tuple[str, ...]
    snapshots: int
    seconds: float
    positions: dict[int, int]


def tell_dead(stage: StageName, dead: Sequence[str]) -> None:
    """A line of log about the dead letters of a transaction, if it has any; the first TOLD by place and reason."""
    if dead:
        log.warning("dead letters", stage=stage.value, many=len(dead), records=list(dead[:TOLD]))


def _nothing(*_: object) -> None:
    return None


def _no_facts() -> Sequence[Output]:
    return ()


@dataclass(frozen=True, slots=True)
class Hooks:
    """`before_commit` gets a transaction's outputs before it begins: its effects must be such that doing them twice is
    doing them once. `facts` gives outputs that no record caused; each is written once. `assigned` gets the partitions
    when their states are ready, `dropped` is called when they are given up. `finished` is called after the commit that
    passes RunFinished on in all of them, or instead of `assigned` if that was done before. `committed` gets each
    transaction's figures, `written` what a pure stage has written in it. `heartbeat` is called at
    every turn, at least about twice a second, with how the loop stands."""

    before_commit: Callable[[Sequence[Output]], None] = _nothing
    facts: Callable[[], Sequence[Output]] = _no_facts
    assigned: Callable[[Sequence[int]], None] = _nothing
    dropped: Callable[[], None] = _nothing
    finished: Callable[[], None] = _nothing
    committed: Callable[[Committed], None] = _nothing
    written: Callable[[Sequence[Output]], None] = _nothing
    heartbeat: Callable[[Standing], None] = _nothing


class DeadLetterLimit:
    """Stops a stage that would divert most of its input: 100 unreadable records in a row, or more than half of the last
    1,000."""

    def __init__(self) -> None:
        self._seen = 0
        self._dead = 0

    def count(self, records: int, dead: int, in_a_row: int, where: str) -> None:
        """Count a taken batch; Stop beyond the limit."""
        self._seen, self._dead = self._seen + records, self._dead + dead
        if in_a_row >= IN_A_ROW or (self._seen >= WINDOW and self._dead * 2 > self._seen):
            raise Stop(
                f"{where}: {self._dead} of {self._seen} records can't be read; look at dead-letters, then restart"
            )
        if self._seen >= WINDOW:
            self._seen = self._dead = 0
