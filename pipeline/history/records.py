"""Where the records of a run are read from, as often as needed: Kafka, or memory."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from pipeline.domain.topology import Topic
from pipeline.log.client import Connection
from pipeline.log.reader import Record, read_topic

SETTLED_MS = 10_000
"""Records this much older than the reading belong to transactions that are over, all of whose records can be seen."""


class RunLog(Protocol):
    """The records of one run. `settled_before_ms`: of a stage's answers written before that, all can be read."""

    settled_before_ms: int

    def read(self, topic: Topic, partition: int | None = None) -> Iterator[Record]:
        """One partition in order, or all of a topic's, each in order."""
        ...


class KafkaLog:
    """A run in Kafka, live or not. Each reading goes up to the end as it is then."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.settled_before_ms = time.time_ns() // 1_000_000 - SETTLED_MS

    def read(self, topic: Topic, partition: int | None = None) -> Iterator[Record]:
        """Raises Stop if the run doesn't exist, Unreachable if no broker answers."""
        return read_topic(self._connection, topic, None if partition is None else [partition])


class MemoryLog:
    """Records at hand."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._records: dict[tuple[Topic, int], list[Record]] = {}
        self.settled_before_ms = 0
        for record in records:
            self._records.setdefault((record.topic, record.partition), []).append(record)
            self.settled_before_ms = max(self.settled_before_ms, record.timestamp_ms + 1)
        for partition in self._records.values():
            partition.sort(key=lambda record: record.offset)

    def read(self, topic: Topic, partition: int | None = None) -> Iterator[Record]:
        """In order of partitions, if all are asked for."""
        for place in sorted(self._records):
            if place[0] is topic and partition in (None, place[1]):
                yield from self._records[place]


def in_time(log: RunLog, places: Sequence[tuple[Topic, int]]) -> Iterator[Record]:
    """Several partitions at once, merged by their records' clocks; each stays in order."""
    return heapq.merge(*(log.read(*place) for place in places), key=lambda record: record.timestamp_ms)
