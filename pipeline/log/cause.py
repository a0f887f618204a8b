"""The header that says what caused a record: `stage/topic/partition/offset/index` for the answer to an input, the index
over all outputs of that step; `producer/slot/counter` for a fact from outside."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

CAUSE: Final = "cause"

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Cause:
    """What a record answers: the `index`-th output of `stage` for one record of its input."""

    stage: str
    topic: str
    partition: int
    offset: int
    index: int


def parse_cause(text: str | None) -> Cause | None:
    """The parts of an answer's cause; None for a fact's, and for anything else."""
    parts = text.split("/") if text else []
    if len(parts) != 5 or not all(part.isdecimal() for part in parts[2:]):
        return None
    return Cause(parts[0], parts[1], int(parts[2]), int(parts[3]), int(parts[4]))


def cause_of(headers: Headers | None) -> str | None:
    """The text of a record's cause, None if it has none that can be read."""
    for name, value in headers or ():
        if name == CAUSE and value is not None:
            return value.decode("ascii", "replace")
    return None


class FactCauses:
    """Causes for the facts of one process. The counter starts at the clock's microseconds: no restart repeats one."""

    def __init__(self, producer: str, slot: str) -> None:
        self._prefix = f"{producer}/{slot.replace('/', '-')}/"
        self._next = time.time_ns() // 1000

    def next(self) -> str:
        """A cause that was never given before."""
        self._next += 1
        return f"{self._prefix}{self._next}"
