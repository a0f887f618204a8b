"""Where a stage goes on: the committed offset, and the state as the fold of all input before it.

`committed()` answers `_TIMED_OUT` while a predecessor's transaction is open; an offset of −1001 means that the group's
offsets are gone, which nobody may take for "from the beginning".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, TopicPartition

from pipeline.domain.rules import Rules
from pipeline.domain.topology import READS, Stage, StageName, Topic
from pipeline.log.client import Connection, plain_consumer, using
from pipeline.log.errors import FENCING, PASSING, Fatal, Fenced, Stop, Unreachable, fork_of
from pipeline.log.lane import Lane
from pipeline.log.metadata import parse_metadata
from pipeline.log.reader import ended, take, watermarks
from pipeline.log.snapshots import Snapshots
from pipeline.log.topics import group_name, topic_name

DEADLINE_S: Final = 60.0


class Interrupted(Exception):
    """The partitions changed hands while their states were being rebuilt."""


def committed_positions(
    consumer: Consumer,
    connection: Connection,
    stage: StageName,
    partitions: Sequence[int],
    keep_alive: Callable[[], None],
) -> list[TopicPartition]:
    """The committed offset and metadata of each partition. Stop if one is gone."""
    topic = topic_name(connection.run, READS[stage])
    if not partitions:
        return []
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            found = consumer.committed([TopicPartition(topic, p) for p in partitions], timeout=1.0)
            if errors := [position.error for position in found if position.error is not None]:
                raise KafkaException(errors[0])
            break
        except KafkaException as error:
            reason = error.args[0]
            if reason.code() in FENCING:
                raise Fenced(f"{reason.str()}; another process has this slot; give each its own (--slot)") from error
            if reason.code() not in PASSING:
                raise Fatal(f"committed: {reason.str()} ({reason.name()})") from error
            if time.monotonic() > deadline:
                raise Unreachable(f"the offsets of {stage} did not come within {DEADLINE_S} s") from error
        keep_alive()
    for position in found:
        if position.offset == OFFSET_INVALID:
            group = group_name(connection.run, stage)
            raise Stop(f"offsets of group {group} are gone; run tamis recover {connection.run}")
    return found


class Restorer:
    """Rebuilds the lanes of a pure stage."""

    def __init__(self, connection: Connection, stage: Stage[Any], rules: Rules) -> None:
        self._connection, self._stage, self._rules = connection, stage, rules
        self._topic = topic_name(connection.run, READS[stage.name])
        state_type = stage.state_type
        self._snapshots = Snapshots(connection, stage.name, state_type, rules) if state_type else None

    def lane(self, position: TopicPartition, keep_alive: Callable[[], None]) -> Lane:
        """The state before the committed offset: a snapshot and the records since, or all records. Stop if some of
        them are no longer there."""
        lane, metadata = Lane(self._stage, self._rules, position.partition), parse_metadata(position.metadata)
        with using(plain_consumer(self._connection)) as reader:
            low, high = watermarks(self._connection, self._topic, [position.partition])[position.partition]
            self._check_committed(position, low, high)
            if self._snapshots is not None:
                if metadata.snap is not None:
                    self._load(lane, reader, metadata.snap)
                self._check_fold(lane.position, position, low)
                self._replay(lane, reader, position.offset, keep_alive)
        lane.position, lane.ends = position.offset, max(lane.ends, metadata.end)
        lane.forget_dead()
        return lane

    def _load(self, lane: Lane, reader: Consumer, snap: int) -> None:
        found = self._snapshots.read(reader, lane.partition, snap) if self._snapshots else None
        if found is not None:
            lane.state, lane.position = found
            lane.snap = snap

    def _replay(self, lane: Lane, reader: Consumer, stop_at: int, keep_alive: Callable[[], None]) -> None:
        """Fold what stands between the lane's position and `stop_at`; what it leads to was written long ago."""
        if lane.position >= stop_at:
            return
        reader.assign([TopicPartition(self._topic, lane.partition, lane.position)])
        quiet_since = time.monotonic()
        while True:
            keep_alive()
            messages = take(reader, 0.5)
            for message in messages:
                if (message.offset() or 0) >= stop_at:
                    return
                if not ended(message):
                    lane.step(message)
            if lane.position >= stop_at:
                return
            if messages:
                quiet_since = time.monotonic()
            elif time.monotonic() - quiet_since > DEADLINE_S:
                raise Unreachable(f"{lane.where(lane.position)}: no record came within {DEADLINE_S} s while restoring")

    def _check_committed(self, position: TopicPartition, low: int, high: int) -> None:
        where = f"{self._topic}/{position.partition}"
        if position.offset < low:
            raise Stop(
                f"{self._stage.name} has handled {where} up to {position.offset}, but the first record there is {low}: "
                f"{low - position.offset} records are gone; {self._advice(low)}"
            )
        if position.offset > high:
            raise Stop(
                f"{self._stage.name} has handled {where} up to {position.offset}, but it ends at {high}: "
                f"the topic was made anew; {self._advice(low)}"
            )

    def _check_fold(self, start: int, position: TopicPartition, low: int) -> None:
        if start < low and start < position.offset:
            raise Stop(
                f"the state of {self._stage.name} can't be rebuilt: {self._topic}/{position.partition} begins at "
                f"{low}, and nothing covers {start} to {low - 1}; {self._advice(low)}"
            )

    def _advice(self, low: int) -> str:
        restore = "restore the topic from an archive"
        if READS[self._stage.name] is Topic.LEDGER and low:  # RunStarted is gone, and with it what a fork needs
            return restore
        return f"{restore}, or go on in a new run: {fork_of(self._connection.run)}"
