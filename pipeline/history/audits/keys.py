"""I4: every payload that was written is dropped once the run is drained, and by what ended it.

A pass over `responses`, `discards` and `drops`, partition by partition, merged by clocks, so that only the keys that
live at a moment are remembered. What a drop names as its cause is checked against the ledger's endings.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from pipeline.domain import events as e
from pipeline.domain.ids import parse_group_id
from pipeline.domain.topology import StageName, Topic
from pipeline.domain.vocabulary import DropReason
from pipeline.history.records import RunLog, in_time
from pipeline.log.cause import Cause, parse_cause
from pipeline.log.codec import Poison
from pipeline.log.reader import Record

_BY_DISCARD: Final = f"{StageName.DISCARD_REAPER.value}/"
_REAPERS: Final = (f"{StageName.REAPER.value}/", _BY_DISCARD)


class Endings:
    """The ledger offset at which each group ended, by its number: that of its own last event, or of the CheckpointSaved
    that covers its batch."""

    def __init__(self) -> None:
        self._offsets = array("q")
        self._batches: dict[int, tuple[str, ...]] = {}
        self.read_to = -1

    def note(self, offset: int, event: e.Event) -> None:
        """Fold one ledger record."""
        self.read_to = offset
        match event:
            case e.GroupRejected() | e.GroupDeselected() | e.GroupExpired() | e.GroupEvaluated():
                self._end(event.group_id, offset)
            case e.BatchFormed():
                self._batches[event.batch] = tuple(group.group_id for group in event.groups)
            case e.BatchReturned():
                self._batches.pop(event.batch, None)
            case e.CheckpointSaved():
                for batch in event.batches:
                    for group in self._batches.pop(batch, ()):
                        self._end(group, offset)
            case _:
                return

    def of(self, group: str) -> int:
        """The offset of a group's end, -1 if it has none."""
        found = parse_group_id(group)
        return self._offsets[found.n] if found and found.n < len(self._offsets) else -1

    def _end(self, group: str, offset: int) -> None:
        found = parse_group_id(group)
        if found is None:
            return
        while len(self._offsets) <= found.n:
            self._offsets.append(-1)
        if self._offsets[found.n] < 0:
            self._offsets[found.n] = offset


@dataclass(slots=True)
class Keys:
    """One partition's payloads. `live` keys are generated and not dropped; `early` ones are dropped and not (yet)
    generated, `swept` those that a sweep dropped. `unproven` drops name a cause that was not read (yet)."""

    endings: Endings
    live: dict[str, None] = field(default_factory=dict)
    early: dict[str, str] = field(default_factory=dict)
    swept: set[str] = field(default_factory=set)
    _discards: dict[int, str] = field(default_factory=dict)
    unproven: list[str] = field(default_factory=list)
    _ahead: dict[int, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    generated: int = 0
    dropped: int = 0

    def note(self, record: Record) -> Iterator[str]:
        """Fold one record of the partition; what is wrong with it."""
        try:
            event = record.event()
        except Poison:
            return
        match event:
            case e.ResponseGenerated(payload_key=str() as key):
                self.generated += 1
                if key not in self.swept and self.early.pop(key, None) is None:
                    self.live[key] = None
            case e.ResponseDiscarded(payload_key=str() as key):
                where, dropped = self._ahead.pop(record.offset, ("", ()))
                if not where:
                    self._discards[record.offset] = key
                elif dropped != (key,):
                    yield f"I4 {where} drops {', '.join(dropped)}, and its cause discards {key}"
            case e.PayloadsDropped():
                yield from self._on_dropped(record, event)
            case _:
                return

    def _on_dropped(self, record: Record, event: e.PayloadsDropped) -> Iterator[str]:
        where = record.where
        self.dropped += len(event.keys)
        for key in event.keys:
            if key in self.live:
                del self.live[key]
            elif event.reason is not DropReason.SWEPT and key not in self.swept:
                if key in self.early:
                    yield f"I4 key {key} is dropped again at {where}, after {self.early[key]}"
                self.early[key] = where
            if event.reason is DropReason.SWEPT:
                self.swept.add(key)
        problem = self._problem(record, event, where)
        if problem:
            yield f"I4 {where} drops keys of group {event.group_id}, and its cause {record.cause} {problem}"

    def debts(self) -> Iterator[str]:
        """What is missing after the last record."""
        yield from (f"I4 key {key} was generated, and never dropped" for key in self.live)
        yield from (f"I4 key {key} is dropped at {at}, and was never generated" for key, at in self.early.items())
        yield from (f"I4 {where} has a cause that is not there" for where, _ in self._ahead.values())
        yield from self.unproven

    def _problem(self, record: Record, event: e.PayloadsDropped, where: str) -> str | None:
        """What is wrong with a drop's cause."""
        cause = parse_cause(record.cause)
        if cause is None:
            swept = event.reason is DropReason.SWEPT and (record.cause or "").startswith(_REAPERS)
            return None if swept else "is neither its group's end nor a sweep"
        if (cause.stage, cause.topic) == (StageName.DISCARD_REAPER, Topic.DISCARDS):
            return self._problem_of_discard(cause, event, where)
        if (cause.stage, cause.topic) != (StageName.REAPER, Topic.LEDGER):
            return "is no reaper's"
        end = self.endings.of(event.group_id or "")
        if cause.offset > self.endings.read_to:
            self.unproven.append(f"I4 {where} has a cause that is not there")
            return None
        if end == cause.offset:
            return None
        return f"is not the group's end, which is ledger/0/{end}" if end >= 0 else "is not its end: it has none"

    def _problem_of_discard(self, cause: Cause, event: e.PayloadsDropped, where: str) -> str | None:
        named = self._discards.pop(cause.offset, None)
        if named is None:
            self._ahead[cause.offset] = (where, event.keys)
            return None
        return None if event.keys == (named,) else f"discards {named}"


def audit_keys(log: RunLog, partition: int, endings: Endings) -> tuple[Keys, list[str]]:
    """Fold one partition's payloads; whether its `debts` may be is for the caller to judge."""
    keys = Keys(endings)
    places = [(topic, partition) for topic in (Topic.RESPONSES, Topic.DISCARDS, Topic.DROPS)]
    return keys, [problem for record in in_time(log, places) for problem in keys.note(record)]
