"""Snapshots: a stage's state in chunks, in the stage's own partition of a compacted topic. Each is a cache of a fold of
the log; one that is missing, damaged or of another shape is not used, and that costs time only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import structlog
from confluent_kafka import Consumer, TopicPartition

from pipeline.domain import events as e
from pipeline.domain.rules import Rules
from pipeline.domain.topology import READS, StageName, Topic, snapshot_partition
from pipeline.log.client import Connection
from pipeline.log.codec import Poison, UnknownSchema, decode, encode
from pipeline.log.errors import Unreachable
from pipeline.log.reader import ended, take, watermarks
from pipeline.log.state import StateCodec
from pipeline.log.topics import topic_name
from pipeline.log.transaction import Message

CHUNK_BYTES: Final = 1 << 20
WAIT_S: Final = 30
log = structlog.get_logger(__name__)


class _Unusable(Exception):
    """Why a snapshot is no snapshot."""


class Snapshots:
    """Writes and reads the snapshots of one stage."""

    def __init__(self, connection: Connection, stage: StageName, state_type: type[Any], rules: Rules) -> None:
        self._connection, self._stage, self._rules = connection, stage, rules
        self._topic = topic_name(connection.run, Topic.SNAPSHOTS)
        self._codec: StateCodec[Any] = StateCodec(state_type)

    def chunks(self, partition: int, state: Any, input_offset: int, at: int) -> list[Message]:
        """The records of a snapshot that covers all input before `input_offset`."""
        body = self._codec.encode(state)
        pieces = [body[i : i + CHUNK_BYTES] for i in range(0, max(len(body), 1), CHUNK_BYTES)]
        place = f"{self._stage.value}/{partition}"
        to = snapshot_partition(self._stage, partition, self._rules)
        return [
            Message(
                self._topic,
                to,
                f"{place}/{index}",
                encode(self._chunk(partition, input_offset, index, len(pieces), piece, at)),
                f"{self._stage.value}/{READS[self._stage].value}/{partition}/{input_offset}/{index}",
            )
            for index, piece in enumerate(pieces)
        ]

    def read(self, consumer: Consumer, partition: int, offset: int) -> tuple[Any, int] | None:
        """The state at `offset` of the stage's snapshots partition, and the input offset that it covers; None if this
        process can't use what is there."""
        try:
            return self._read(consumer, partition, offset)
        except (_Unusable, Poison, UnknownSchema) as error:
            log.warning(
                "snapshot not used", stage=self._stage.value, partition=partition, offset=offset, why=str(error)
            )
            return None

    def _read(self, consumer: Consumer, partition: int, offset: int) -> tuple[Any, int]:
        to = snapshot_partition(self._stage, partition, self._rules)
        low, high = watermarks(self._connection, self._topic, [to])[to]
        if not low <= offset < high:
            raise _Unusable(f"the partition holds {low} to {high}")
        consumer.assign([TopicPartition(self._topic, to, offset)])
        found = list(self._whole(self._values(consumer, high), partition))
        if not found or len(found) != found[0].count:
            raise _Unusable(f"{len(found)} chunks of it are there")
        if found[0].fingerprint != self._codec.fingerprint:
            raise _Unusable("its state has another shape")
        return self._codec.decode(b"".join(chunk.body for chunk in found)), found[0].input_offset

    def _chunk(
        self, partition: int, input_offset: int, index: int, count: int, body: bytes, at: int
    ) -> e.SnapshotChunk:
        return e.SnapshotChunk(
            stage=self._stage.value,
            partition=partition,
            snapshot_id=f"{self._stage.value}/{partition}/{input_offset}",
            index=index,
            count=count,
            input_offset=input_offset,
            fingerprint=self._codec.fingerprint,
            body=body,
            at=at,
        )

    def _whole(self, values: Iterator[bytes | None], partition: int) -> Iterator[e.SnapshotChunk]:
        """The chunks of one snapshot, in order; ends early where they don't go together."""
        first: e.SnapshotChunk | None = None
        for index, value in enumerate(values):
            chunk = decode(value)
            if not isinstance(chunk, e.SnapshotChunk):
                return
            first = first or chunk
            if (chunk.stage, chunk.partition, chunk.index) != (self._stage.value, partition, index):
                return
            if chunk.snapshot_id != first.snapshot_id:
                return
            yield chunk
            if index + 1 == first.count:
                return

    def _values(self, consumer: Consumer, high: int) -> Iterator[bytes | None]:
        while messages := take(consumer, WAIT_S):
            for message in messages:
                if not ended(message):
                    yield message.value()
                elif (message.offset() or 0) >= high:
                    return
        raise Unreachable(f"the snapshot in {self._topic} did not come within {WAIT_S} s")
