"""The trainer's place on the ledger: one member at a time has it, the others stand by. Each transaction sends the
offset with the group's metadata: that fences a member that was frozen while another took over."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import TopicPartition

from pipeline.domain import events as e
from pipeline.domain.topology import StageName, Topic
from pipeline.health import Standing
from pipeline.log.client import Connection
from pipeline.log.codec import Poison, UnknownSchema, decode, encode
from pipeline.log.errors import Stop
from pipeline.log.membership import Membership
from pipeline.log.metadata import OffsetMetadata, parse_metadata
from pipeline.log.reader import read_topic
from pipeline.log.restore import Interrupted, committed_positions
from pipeline.log.topics import topic_name
from pipeline.log.transaction import Message, Sink
from pipeline.metrics import own


@dataclass(frozen=True, slots=True)
class Entry:
    """A ledger record."""

    offset: int
    event: e.Event


@dataclass(frozen=True, slots=True)
class Fact:
    """An event to write, and its cause."""

    event: e.Event
    cause: str


@dataclass(frozen=True, slots=True)
class Position:
    """What is committed: an offset, and numbers from before it that a restart needs."""

    offset: int
    notes: dict[str, int]


class Seat:
    """A member of a stage that works alone on the ledger, in facts of its own making."""

    def __init__(self, connection: Connection, stage: StageName, heartbeat: Callable[[Standing], None]) -> None:
        self._connection, self._stage, self._heartbeat = connection, stage, heartbeat
        self._topic = topic_name(connection.run, Topic.LEDGER)
        self._sink = Sink(connection, stage)
        self._membership = Membership(connection, stage)
        self._turn = 0
        self._turns = 0
        self._taken = 0

    @property
    def turn(self) -> int:
        """0 while another member has the ledger; else a number that is new each time it is given to this one."""
        return self._turn

    def poll(self, timeout_s: float) -> list[Entry]:
        """New records, in order; none while another member is active, or when the seat has just changed hands."""
        messages = self._membership.take(timeout_s)
        if self._membership.changed:
            self._turn = self._taken = 0
            self._membership.changed = False
            messages = []
        if self._membership.waiting:
            self._turns += 1
            self._turn = self._turns
        elif self._membership.waiting is not None:
            self._membership.start({})
        self._taken += len(messages)
        return [self._entry(m.offset() or 0, m.value()) for m in messages]

    def restore(self) -> tuple[Position, list[Entry]] | None:
        """Where the last member stood, and all records since; None if the seat was lost meanwhile. Reading goes on
        after them."""
        started = time.perf_counter()
        try:
            found = committed_positions(
                self._membership.consumer, self._connection, self._stage, [0], self._keep_alive
            )[0]
            entries = [
                self._entry(r.offset, r.value)
                for r in read_topic(self._connection, Topic.LEDGER, start=found.offset)
                if r.offset >= found.offset
            ]
            self._keep_alive()
        except Interrupted:
            return None
        self._membership.start({0: entries[-1].offset + 1 if entries else found.offset})
        own.restored(self._stage.value, time.perf_counter() - started)
        notes = {name: int(value) for name, value in parse_metadata(found.metadata).extra}
        return Position(found.offset, notes), entries

    def at(self, offset: int) -> e.Event:
        """The event at an offset of the ledger. Stop if it isn't there."""
        for record in read_topic(self._connection, Topic.LEDGER, start=offset):
            if record.offset == offset:
                return self._entry(offset, record.value).event
            break
        raise Stop(f"{self._topic}/0/{offset} is gone, but {self._stage} needs it: restore the topic from an archive")

    def commit(self, facts: Sequence[Fact], position: Position) -> None:
        """Write facts and position in one transaction. Fenced if another member has taken over."""
        metadata = OffsetMetadata(extra=tuple((k, str(v)) for k, v in position.notes.items())).format()
        messages = [Message(self._topic, 0, e.key_of(f.event), encode(f.event), f.cause) for f in facts]
        with self._sink.transaction():
            self._sink.produce(messages)
            offsets = [TopicPartition(self._topic, 0, position.offset, metadata)]
            self._sink.send_offsets(offsets, self._membership.metadata())
        own.handled(self._stage.value, self._taken, len(messages))
        self._taken = 0

    def standing(self, behind_since: float | None = None) -> Standing:
        """How this process stands in its stage; `behind_since`: when what isn't committed could first have been."""
        return self._membership.standing(self._stage, behind_since)

    def now_ms(self) -> int:
        """The wall clock, which facts are stamped with."""
        return time.time_ns() // 1_000_000

    def close(self) -> None:
        """Leave the group."""
        self._sink.close()
        self._membership.close()

    def _keep_alive(self) -> None:
        self._heartbeat(self.standing())
        self._membership.stay()
        if self._membership.changed:
            raise Interrupted

    def _entry(self, offset: int, value: Any) -> Entry:
        try:
            return Entry(offset, decode(value))
        except (Poison, UnknownSchema) as error:
            raise Stop(f"{self._stage} at ledger/0/{offset}: {error}; nothing on the ledger can be skipped") from error
