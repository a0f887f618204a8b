"""The life of one group, from its prompt to its last payload, in sentences with times; and the line it stands in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pipeline.domain import events as e
from pipeline.domain.ids import parse_group_id
from pipeline.domain.rules import Rules, rules_of
from pipeline.domain.topology import MembersCodec, Topic
from pipeline.history import reasons as why
from pipeline.history import sentences as say
from pipeline.history.records import RunLog
from pipeline.log.codec import Members, Poison, UnknownSchema
from pipeline.log.reader import Record

_TOPICS: Final = (
    Topic.LEDGER, Topic.PROMPTS, Topic.RESPONSES, Topic.ROLLOUTS, Topic.GROUPS, Topic.DISCARDS, Topic.DROPS,
)  # fmt: skip


class Line(NamedTuple):
    """Something that happened. `after_s` since the group was opened; `where` is the record's topic/partition/offset."""

    at_ms: int
    after_s: float
    text: str
    where: str


def trace_run(log: RunLog, group_id: str) -> list[Line]:
    """The life of a group, read from its own partition and the ledger. ValueError if that is no group's id."""
    where = parse_group_id(group_id)
    if where is None:
        raise ValueError(f"{group_id!r} is not a group's id; expected number@partition, such as 12@0")
    return trace(group_id, (r for topic in _TOPICS for r in log.read(topic, _partition(topic, where.partition))))


def trace(group_id: str, records: Iterable[Record], members: MembersCodec | None = None) -> list[Line]:
    """The life of a group from any records of its run, in the order of time; empty if they don't know it. Each
    partition's records must be in order, the ledger's whole."""
    life = Life(group_id, members or Members())
    found = [line for record in records if record.topic in _TOPICS for line in life.note(record)]
    start = min([line.at_ms for line in found], default=0)
    found.sort(key=lambda line: (line.at_ms, _rank(line, start)))
    lines = [line._replace(after_s=(line.at_ms - start) / 1000) for line in found]
    lineage = life.lineage()
    return [Line(start, 0.0, lineage, ""), *lines] if lineage and lines else lines


@dataclass(slots=True)
class Life:
    """One group under the glass. `parents` holds who replaces whom, for all groups. `left_out`: it was deselected, and
    no batch was formed since. `scored`: what was said first of each slot and round."""

    group_id: str
    members: MembersCodec
    parents: dict[str, str] = field(default_factory=dict)
    batches: set[int] = field(default_factory=set)
    opened_ms: int | None = None
    opened: e.GroupOpened | None = None
    rules: Rules | None = None
    left_out: bool = False
    scored: dict[tuple[int, int], e.ResponseScored] = field(default_factory=dict)

    def note(self, record: Record) -> Iterator[Line]:
        """What a record says of the group."""
        about = record.key == self.group_id.encode()
        if not about and record.topic is not Topic.LEDGER:
            return
        try:
            event = record.event()
        except (Poison, UnknownSchema) as error:
            texts = [f"unreadable record: {error}"] if about else []
        else:
            texts = list(
                self._of_ledger(record, event) if record.topic is Topic.LEDGER else self._of_others(record, event)
            )
        yield from (Line(record.timestamp_ms, 0.0, text, record.where) for text in texts)

    def lineage(self) -> str:
        """The groups before and after this one, if any."""
        line = [self.group_id]
        while line[0] in self.parents:
            line.insert(0, self.parents[line[0]])
        children = {parent: child for child, parent in self.parents.items()}
        while line[-1] in children:
            line.append(children[line[-1]])
        return f"lineage: {' → '.join(line)}" if len(line) > 1 else ""

    def _of_ledger(self, record: Record, event: e.Event) -> Iterator[str]:
        match event:
            case e.RunStarted():
                self.rules = rules_of(event.config)
            case e.GroupOpened():
                yield from self._opened(record, event)
            case e.BatchSkipped() if self.left_out:
                yield why.skipped(event)
            case e.BatchFormed():
                self.left_out = False
                for group in event.groups:
                    if group.group_id == self.group_id:
                        self.batches.add(event.batch)
                        yield say.formed(event, group)
            case e.BatchTrained() if event.batch in self.batches:
                yield f"batch {event.batch} trained: policy {event.version}"
            case e.BatchReturned() if event.batch in self.batches:
                lost = ", its payloads are lost" if self.group_id in event.lost else ""
                self.batches.discard(event.batch)
                yield f"batch {event.batch} returned: {event.reason}{lost}"
            case e.CheckpointSaved() if self.batches & set(event.batches):
                yield f"checkpoint of policy {event.version} covers batch {', '.join(map(str, sorted(self.batches)))}"
            case _:
                if e.key_of(event) == self.group_id:
                    yield from self._ended(event)

    def _opened(self, record: Record, event: e.GroupOpened) -> Iterator[str]:
        if event.replaces is not None:
            self.parents[event.group_id] = event.replaces
        if event.group_id == self.group_id:
            self.opened_ms, self.opened = record.timestamp_ms, event
            yield say.opening(event)
        elif event.replaces == self.group_id:
            yield f"answered by group {event.group_id}, prompt {event.prompt.id}"

    def _ended(self, event: e.Event) -> Iterator[str]:
        match event:
            case e.GroupAccepted():
                yield why.accepted(event)
            case e.GroupRejected():
                members = self.members.decode(event.members) if event.members else ()
                yield why.rejected(event, members, self.opened.group_size if self.opened else None)
            case e.GroupExpired():
                yield why.expired(event, self.rules)
            case e.GroupEvaluated():
                yield say.evaluated(event)
            case e.GroupDeselected():
                self.left_out = True
                score = f", score {event.score:.4g}" if event.score is not None else ""
                yield f"deselected from window {event.window}{score}"
            case e.ReplacementWaived():
                yield why.waived(event, self.opened, self.rules)
            case e.StageFailed():
                yield f"{event.stage} failed: {event.detail}"
            case _:
                return

    def _of_others(self, record: Record, event: e.Event) -> Iterator[str]:
        match event:
            case e.ResponsesRequested():
                yield say.request(event)
            case e.GroupClosed():
                yield "closed: generators stop what is still under way"
            case e.GroupCancelled():
                yield "cancelled: the run is closing"
            case e.ResponseGenerated():
                yield say.generated(event)
            case e.ResponseScored():
                self.scored.setdefault((event.slot, event.round), event)
                yield say.scored(event)
            case e.ResponseDiscarded():
                yield say.discarded(event, self.scored.get((event.slot, event.round)))
            case e.GroupAssembled():
                after_s = None if self.opened_ms is None else (record.timestamp_ms - self.opened_ms) / 1000
                yield say.assembled(event, self.members, after_s)
            case e.PayloadsDropped():
                yield say.dropped(event)
            case _:
                return


def _partition(topic: Topic, own: int) -> int | None:
    """A group's partition; `groups` may have one only, and the ledger has."""
    return None if topic in (Topic.LEDGER, Topic.GROUPS) else own


def _rank(line: Line, start: int) -> int:
    """Of lines with the same clock, which comes first: the ledger's opening, but its verdicts behind `groups`."""
    topic = Topic(line.where.partition("/")[0])
    if topic is Topic.LEDGER:
        return 0 if line.at_ms == start else 2 * _TOPICS.index(Topic.GROUPS) + 1
    return 2 * _TOPICS.index(topic)
