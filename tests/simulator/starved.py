"""When a run is said to starve, and what follows. The scheduler's own records count from the input that they answer."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.domain import events as e
from pipeline.domain.topology import Output, StageName, Topic
from pipeline.domain.vocabulary import (
    Category,
    Grading,
    Outcome,
    Purpose,
    ShortReason,
    StarvationCause,
    StarvationPolicy,
)

from .world import World


def _is_last_call(event: e.Event) -> bool:
    return isinstance(event, e.StarvationRaised) and event.cause is StarvationCause.SOURCE_EXHAUSTED


ByOffset = dict[int, list[tuple[int, Output]]]


def outages(world: World) -> Iterator[str]:
    """What nobody judged is no lack of signal."""
    for record in world.log.topics[Topic.LEDGER][0]:
        event = record.event
        if isinstance(event, e.GroupRejected) and event.category is Category.LOW_INFORMATION:
            judged = [m for m in world.members.decode(event.members) if m.grading is not Grading.UNGRADED]
            if len(judged) < 2:
                yield f"group {event.group_id} is rejected as {event.reason}, with {len(judged)} members judged"


class Starving:
    """Counts filter rejections in a row while the trainer could wait for a domain."""

    def __init__(self, world: World, scheduler: ByOffset, batcher: ByOffset) -> None:
        self.rules, self.scheduler, self.batcher = world.rules, scheduler, batcher
        self.ledger = world.log.topics[Topic.LEDGER][0]
        self.purposes = {g: life.opened.purpose for g, life in world.ledger.groups.items()}
        self.domains = {g: life.opened.prompt.domain for g, life in world.ledger.groups.items()}
        self.row = {d.name: 0 for d in self.rules.domains}
        self.pool: dict[str, str] = {}
        self.batches: dict[int, tuple[str, ...]] = {}
        self.untrained: dict[int, None] = {}
        self.steps, self.asked, self.over = 0, False, False

    def problems(self) -> Iterator[str]:
        """Whatever is wrong with a StarvationRaised, or with its absence."""
        for offset, record in enumerate(self.ledger):
            self._fold(record.event)
            events = [o.event for _, o in sorted(self.scheduler.get(offset, []), key=lambda pair: pair[0])]
            raised = [event for event in events if isinstance(event, e.StarvationRaised)]
            for event in raised:
                yield from self._on_raised(event, events)
            ending = [o for o in events if isinstance(o, e.RunClosing) or _is_last_call(o)]
            self.over = self.over or ending != []
            most = self.rules.starvation.rejections_in_a_row
            if most and not (self.over or self.asked or self.steps >= self.rules.steps):
                late = [d for d, many in self.row.items() if many >= most]
                if late:
                    yield f"domain {late[0]} isn't said to starve after {self.row[late[0]]} rejections in a row"
            if isinstance(record.event, e.StarvationRaised) and record.event.policy is StarvationPolicy.SHORT_BATCH:
                yield from self._one_batch(offset)

    def _on_raised(self, event: e.StarvationRaised, events: list[e.Event]) -> Iterator[str]:
        most, row = self.rules.starvation.rejections_in_a_row, self.row[event.domain]
        if event.cause is StarvationCause.REJECTIONS_IN_A_ROW and row != most:
            yield f"domain {event.domain} is said to starve after {row} rejections in a row, expected {most}"
        ends = any(isinstance(o, e.RunClosing) and o.outcome is Outcome.STARVED for o in events)
        if ends is not (event.policy is StarvationPolicy.RAISE):
            yield f"the run {'ends' if ends else 'goes on'} after {event}"
        self.row[event.domain] = 0
        self.asked = self.asked or event.policy is StarvationPolicy.SHORT_BATCH

    def _one_batch(self, offset: int) -> Iterator[str]:
        """A short batch is asked for once: it, or a skipped step."""
        events = [o.event for _, o in self.batcher.get(offset, [])]
        short = [o for o in events if isinstance(o, e.BatchFormed) and o.short is ShortReason.STARVATION]
        skipped = [o for o in events if isinstance(o, e.BatchSkipped)]
        if len(short) + len(skipped) > 1:
            yield f"one short batch was asked for at {offset}, the batcher answers {events}"

    def _fold(self, event: e.Event) -> None:
        match event:
            case e.GroupAccepted(group_id=gid):
                if self._hungry(self.domains[gid]):
                    self.row[self.domains[gid]] = 0
                self.pool[gid] = self.domains[gid]
            case e.GroupRejected(group_id=gid) if self.purposes[gid] is Purpose.TRAIN:
                by_filter = event.category is not Category.SYSTEM and event.filter != StageName.ASSEMBLER
                self.row[self.domains[gid]] += by_filter and self._hungry(self.domains[gid])
            case e.GroupExpired(group_id=gid) | e.GroupDeselected(group_id=gid):
                self.pool.pop(gid, None)
            case e.BatchFormed():
                self.batches[event.batch] = tuple(g.group_id for g in event.groups)
                self.untrained[event.batch] = None
                for gid in self.batches[event.batch]:
                    del self.pool[gid]
                self._progress()
            case e.BatchSkipped():
                self.steps += 1
                self._progress()
            case e.BatchTrained():
                del self.untrained[event.batch]
                self.steps += 1
                self._progress(answered=False)
            case e.BatchReturned():
                self.untrained.pop(event.batch, None)
                self.steps -= event.trained
                self.pool |= {gid: self.domains[gid] for gid in self.batches[event.batch]}
            case _:
                return

    def _progress(self, answered: bool = True) -> None:
        self.asked = self.asked and not answered
        self.row = dict.fromkeys(self.row, 0)

    def _hungry(self, domain: str) -> bool:
        accepted = list(self.pool.values()).count(domain)
        return not self.untrained and accepted < self.rules.ready(self.rules.domain(domain))
