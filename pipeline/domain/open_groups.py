"""The assembler's table: open groups of one partition, their slots, and when each has to be looked at again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from pipeline.domain import events as e
from pipeline.domain.advice import FILTERED, SILENT, UNGRADED
from pipeline.domain.vocabulary import DiscardReason, Purpose

_BUCKET_MS = 1000
MOST_DETAIL = 200
"""Characters of a response's detail that are kept."""


class SlotState(StrEnum):
    """`waiting` for its current round, `silent` when its lease ran out twice, `answered` by its first response."""

    WAITING = "waiting"
    SILENT = "silent"
    ANSWERED = "answered"


@dataclass(slots=True)
class Slot:
    """One place for a response in its current round. `due` is when its lease ends, on the group's clock."""

    round: int
    due: int
    state: SlotState
    asked_again: bool


@dataclass(slots=True)
class OpenGroup:
    """Siblings of one prompt. `deadline` and `due` (the next moment to look at it) are on the group's clock. `lost`
    counts the responses that were discarded, by what they came to; `last_lost` says why of the last one."""

    opened: e.GroupOpened
    opened_run_ms: int
    deadline: int
    due: int
    slots: list[Slot]
    members: list[e.Member]
    lost: dict[str, int] = field(default_factory=dict)
    last_lost: str = ""

    def waiting(self) -> int:
        """Slots whose answer is still expected."""
        return len([s for s in self.slots if s.state is SlotState.WAITING])

    def unanswered(self) -> list[int]:
        """Slots whose current round has no answer."""
        return [i for i, s in enumerate(self.slots) if s.state is not SlotState.ANSWERED]

    def asked_again(self) -> bool:
        """Whether a lease ran out: then a request for a slot may still wait at a generator, answered or not."""
        return any(s.asked_again for s in self.slots)

    def has_silent(self) -> bool:
        """Whether a slot's lease ran out twice."""
        return any(s.state is SlotState.SILENT for s in self.slots)

    def without_shared_payload(self, copy: e.ResponseScored) -> e.ResponseScored:
        """The copy of a response that is a member: their payload is one, and stays."""
        if copy.payload_key is None or all(m.payload_key != copy.payload_key for m in self.members):
            return copy
        return replace(copy, payload_key=None, payload_bytes=0)

    def lose(self, scored: e.ResponseScored) -> None:
        """Count a response that failed, that nobody judged, or that the response filter refused."""
        filtered = scored.discard is DiscardReason.FILTERED
        what: str = FILTERED if filtered else scored.failure or UNGRADED
        self.lost[what] = self.lost.get(what, 0) + 1
        self.last_lost = (scored.detail or what)[:MOST_DETAIL]

    def setbacks(self, late: bool) -> dict[str, int]:
        """What kept the group from being whole: lost responses by what they came to, and slots that nobody answered in
        their time, which is over for all when the group is late."""
        silent = len([s for s in self.slots if s.state is SlotState.SILENT or (late and s.state is SlotState.WAITING)])
        return self.lost | ({SILENT: silent} if silent else {})

    def missing(self) -> int:
        """Responses that the group lacks although nobody is asked for them."""
        return self.opened.group_size - len(self.members) - self.waiting()

    def refillable(self, rounds: int) -> list[int]:
        """Slots whose response failed and that may be asked again in a next round: lowest round first, then slot. A
        silent slot is not among them, since who holds it doesn't answer."""
        filled = {m.slot for m in self.members}
        free = [
            i
            for i, s in enumerate(self.slots)
            if i not in filled and s.state is SlotState.ANSWERED and s.round < rounds
        ]
        return sorted(free, key=lambda i: (self.slots[i].round, i))


@dataclass(slots=True)
class Assembly:
    """One partition's open groups by number. `run_ms` is the run's time; `train_ms`, the training groups' clock, stands
    still while an evaluation group is open here. `highest` is the highest number opened, -1 before the first."""

    partition: int
    highest: int = -1
    run_ms: int = 0
    train_ms: int = 0
    evals_open: int = 0
    open: dict[int, OpenGroup] = field(default_factory=dict)
    timers: dict[Purpose, dict[int, dict[int, None]]] = field(init=False, metadata={"derived": True})

    def __post_init__(self) -> None:
        self.timers = {purpose: {} for purpose in Purpose}
        for n, group in self.open.items():
            self._set_timer(n, group)

    def clock(self, purpose: Purpose) -> int:
        """The time that leases and deadlines of such groups count."""
        return self.run_ms if purpose is Purpose.EVAL else self.train_ms

    def add(self, n: int, group: OpenGroup) -> None:
        """Take a group into the table."""
        self.open[n] = group
        self.evals_open += group.opened.purpose is Purpose.EVAL
        self.reschedule(n, group, known=False)

    def remove(self, n: int) -> None:
        """Forget a group."""
        group = self.open.pop(n)
        self.evals_open -= group.opened.purpose is Purpose.EVAL
        self._clear_timer(n, group)

    def reschedule(self, n: int, group: OpenGroup, known: bool = True) -> None:
        """Look at the group again when its next lease or its deadline ends."""
        if known:
            self._clear_timer(n, group)
        group.due = min([group.deadline, *(s.due for s in group.slots if s.state is SlotState.WAITING)])
        self._set_timer(n, group)

    def advance(self, run_ms: int) -> list[int]:
        """Move the clocks; the numbers of the groups whose time has come, in a fixed order."""
        if self.evals_open == 0:
            self.train_ms += run_ms - self.run_ms
        self.run_ms = run_ms
        ready: list[int] = []
        for purpose, buckets in self.timers.items():
            now = self.clock(purpose)
            for bucket in sorted([b for b in buckets if b <= now // _BUCKET_MS]):
                ready += sorted([n for n in buckets[bucket] if self.open[n].due <= now])
        return ready

    def _set_timer(self, n: int, group: OpenGroup) -> None:
        self.timers[group.opened.purpose].setdefault(group.due // _BUCKET_MS, {})[n] = None

    def _clear_timer(self, n: int, group: OpenGroup) -> None:
        buckets = self.timers[group.opened.purpose]
        bucket = buckets[group.due // _BUCKET_MS]
        del bucket[n]
        if not bucket:
            del buckets[group.due // _BUCKET_MS]
