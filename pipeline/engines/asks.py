"""What generators are asked for: the slots of each record, queued, under way, or done."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pipeline.domain.events import PromptIssued, ResponsesRequested
from pipeline.domain.vocabulary import Purpose
from pipeline.engines.door import token_array
from pipeline.log.work import Answer, Job
from pipeline.prompts import task
from pipeline.store.format import Array

FIRST_ROUND: Final = 1


class Question(NamedTuple):
    """A task as the engine gets it, and as it goes into payloads."""

    text: str
    token_ids: tuple[int, ...]
    metadata: Mapping[str, Any]
    grading: bytes
    prompt_ids: Array


@dataclass(slots=True, eq=False)
class Ask:
    """A record that asks for responses. `wanted`: (place, slot, round), the place being the one in the record's own
    list, so that a slot that is done again has the same cause. `owed` are not done; the first `begun` are begun.
    `closed`: nobody waits for them any more."""

    job: Job
    event: PromptIssued | ResponsesRequested
    wanted: list[tuple[int, int, int]]
    owed: int
    begun: int = 0
    closed: bool = False
    _question: Question | None = None

    @property
    def slots(self) -> int:
        """Slots in the record's own list."""
        event = self.event
        return len(event.slots) if isinstance(event, ResponsesRequested) else event.group_size + event.redundancy

    def question(self) -> Question:
        """The task. Raises task.BadTask or Refused."""
        if self._question is None:
            found = task.decode(self.event.task)
            prompt_ids = token_array(found.token_ids, f"token_ids of task {found.id!r:.100}")
            self._question = Question(
                found.text, found.token_ids, found.metadata, task.grading_bytes(found), prompt_ids
            )
        return self._question


class Slot(NamedTuple):
    """One response to make."""

    ask: Ask
    place: int
    slot: int
    round: int


@dataclass(slots=True)
class _Group:
    asks: list[Ask] = field(default_factory=list)
    slots: set[tuple[int, int]] = field(default_factory=set)


class Backlog:
    """All that is asked for and not done. Evaluation has a queue of its own: it goes first."""

    def __init__(self) -> None:
        self.evals: deque[Ask] = deque()
        self.trains: deque[Ask] = deque()
        self._groups: dict[str, _Group] = {}

    def add(self, job: Job, event: PromptIssued | ResponsesRequested) -> Answer | None:
        """Queue what isn't held already; the answer if nothing is left to do."""
        group = self._groups.get(event.group_id) or _Group()
        wanted = [item for item in _wanted(event) if item[1:] not in group.slots]
        if not wanted:
            return Answer(job, (), True)
        self._groups[event.group_id] = group
        ask = Ask(job, event, wanted, len(wanted))
        group.asks.append(ask)
        group.slots.update(item[1:] for item in wanted)
        (self.evals if event.purpose is Purpose.EVAL else self.trains).append(ask)
        return None

    def close(self, group_id: str) -> list[Answer]:
        """Nobody waits for this group: its asks are done."""
        group = self._groups.pop(group_id, None)
        open_asks = [ask for ask in group.asks if ask.owed] if group else []
        for ask in open_asks:
            ask.closed, ask.owed, ask.begun = True, 0, len(ask.wanted)
        return [Answer(ask.job, (), True) for ask in open_asks]

    def take(self, queue: deque[Ask], most: int) -> list[Slot]:
        """Begin up to `most` slots from the head of a queue."""
        slots: list[Slot] = []
        while len(slots) < most and (ask := self.head(queue)) is not None:
            begin = ask.begun
            ask.begun = min(len(ask.wanted), begin + most - len(slots))
            slots += [Slot(ask, *item) for item in ask.wanted[begin : ask.begun]]
        return slots

    def take_all(self, queue: deque[Ask], fits: Callable[[Ask], bool]) -> list[Slot]:
        """Begin all slots of the asks that fit, wherever they are in a queue."""
        slots: list[Slot] = []
        for ask in queue:
            if fits(ask):
                slots += [Slot(ask, *item) for item in ask.wanted[ask.begun :]]
                ask.begun = len(ask.wanted)
        return slots

    def head(self, queue: deque[Ask]) -> Ask | None:
        """The first ask with slots to begin, unless it has to wait until a restart could tell that it is done."""
        while queue and queue[0].begun == len(queue[0].wanted):
            queue.popleft()
        return queue[0] if queue and queue[0].job.may_start else None

    def done(self, slot: Slot) -> bool:
        """Note that a slot is done; whether its record is."""
        group_id, ask = slot.ask.event.group_id, slot.ask
        ask.owed -= 1
        group = self._groups[group_id]
        group.slots.discard((slot.slot, slot.round))
        if not group.slots:
            del self._groups[group_id]
        return ask.owed == 0

    def clear(self) -> None:
        """Forget everything; nobody waits for any of it."""
        for group in self._groups.values():
            for ask in group.asks:
                ask.closed = True
        self.evals.clear()
        self.trains.clear()
        self._groups.clear()


def _wanted(event: PromptIssued | ResponsesRequested) -> Iterator[tuple[int, int, int]]:
    if isinstance(event, ResponsesRequested):
        yield from ((place, wanted.slot, wanted.round) for place, wanted in enumerate(event.slots))
    else:
        yield from ((slot, slot, FIRST_ROUND) for slot in range(event.group_size + event.redundancy))
