"""A log in memory: topics of partitions of records, each with its cause. Appending several records is atomic."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from pipeline.domain import events as e
from pipeline.domain.rules import Rules
from pipeline.domain.topology import ON_TOPIC, Output, Topic, partitions
from pipeline.log.codec import decode, encode


class Cause(NamedTuple):
    """The input that a record answers. `index` counts all outputs of that step."""

    stage: str
    topic: Topic
    partition: int
    offset: int
    index: int


@dataclass(frozen=True, slots=True)
class Damaged(e.Event):
    """A record whose value can't be read. Its key and its cause can."""

    group_id: str | None


class Record(NamedTuple):
    """`intact` is the event that was written, also where readers find it damaged."""

    event: e.Event
    cause: Cause | str
    intact: e.Event


class Log:
    """`wire`: every event goes through the real codec. `damage` may say that a record is damaged on its way."""

    def __init__(self, rules: Rules, wire: bool, damage: Callable[[Topic, e.Event], bool]) -> None:
        self.topics = {t: [list[Record]() for _ in range(partitions(t, rules))] for t in Topic}
        self.wire = wire
        self.damage = damage
        self.watchers: list[Callable[[Topic, int, Record], None]] = []

    def append(self, output: Output, cause: Cause | str) -> None:
        topic, partition, event = output.topic, output.partition, output.event
        if type(event) not in ON_TOPIC[topic]:
            raise AssertionError(f"{type(event).__name__} may not stand on {topic}")
        read = decode(encode(event)) if self.wire else event
        if self.damage(topic, event):
            read = Damaged(e.key_of(event))
        record = Record(read, cause, event)
        self.topics[topic][partition].append(record)
        for watcher in self.watchers:
            watcher(topic, partition, record)

    def facts(self, topic: Topic, partition: int, events: Iterable[e.Event], producer: str) -> None:
        for event in events:
            self.append(Output(topic, partition, event), producer)

    def count(self) -> int:
        return sum(len(records) for topic in self.topics.values() for records in topic)
