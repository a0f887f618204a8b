"""Reading topics outside any group: for audit, history, monitor, command line, restoring. Committed records only."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from pipeline.domain.events import Event
from pipeline.domain.frozen import frozen
from pipeline.domain.topology import Topic
from pipeline.log.cause import Headers, cause_of
from pipeline.log.client import READERS, Connection, make_client, plain_consumer, reader_settings, using
from pipeline.log.codec import decode
from pipeline.log.errors import Fatal, Stop, Unreachable, no_answer
from pipeline.log.topics import PREFIX, topic_name

TIMEOUT_S: Final = 30.0
ENDS_S: Final = 5.0
BATCH: Final = 4_000
LEADERLESS: Final = frozenset(
    {
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
    }
)


@frozen
class Record:
    """A record as it stands in the log. `timestamp_ms` is the wall clock of its writer."""

    topic: Topic
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    headers: Headers
    value: bytes | None

    @property
    def cause(self) -> str | None:
        """What caused it, as its header says."""
        return cause_of(self.headers)

    @property
    def where(self) -> str:
        """Its coordinates: topic/partition/offset."""
        return f"{self.topic}/{self.partition}/{self.offset}"

    def event(self) -> Event:
        """The event in it; raises codec.Poison or codec.UnknownSchema."""
        return decode(self.value)


def record_of(topic: Topic, message: Message) -> Record:
    """A record from the client's message."""
    return Record(
        topic,
        message.partition() or 0,
        message.offset() or 0,
        message.timestamp()[1],
        message.key(),
        message.headers() or (),  # type: ignore[arg-type]
        message.value(),
    )


def read_topic(
    connection: Connection,
    topic: Topic,
    partitions: Sequence[int] | None = None,
    start: int | Mapping[int, int] = 0,
    stop_at_end: bool = True,
    until: Callable[[], bool] = lambda: False,
    poll_s: float = 0.5,
    turn: Callable[[bool], None] = lambda caught_up: None,
) -> Iterator[Record]:
    """The records of a topic, in order within each partition, from `start` (an offset, or one per partition) or the
    first there is. With `stop_at_end`, up to the end as it is now, waiting for transactions that are open there;
    else for ever, until `until()`, which is asked every `poll_s` at least. As often, `turn` is told whether all records
    up to that end have been read. Stop if the topic doesn't exist."""
    with using(plain_consumer(connection)) as consumer:
        ends = _assign(consumer, connection, topic_name(connection.run, topic), partitions, start)
        while (ends or not stop_at_end) and not until():
            turn(not ends)
            for message in take(consumer, poll_s):
                partition, offset = message.partition() or 0, message.offset() or 0
                at_end = ended(message)
                if not at_end:
                    yield record_of(topic, message)
                if offset + (not at_end) >= ends.get(partition, offset + 2):
                    del ends[partition]


def ended(message: Message) -> bool:
    """Whether this is the report of a partition's end, at `message.offset()`; raises for any other error."""
    error = message.error()
    if error is None:
        return False
    if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
        raise Fatal(f"reading {message.topic()}/{message.partition()}: {error.str()} ({error.name()})")
    return True


def take(consumer: Consumer, timeout_s: float) -> list[Message]:
    """What has arrived, at once; waits for the first record only."""
    first = consumer.poll(timeout_s)
    return [] if first is None else [first, *consumer.consume(BATCH - 1, 0)]


def watermarks(connection: Connection, topic: str, partitions: Sequence[int]) -> dict[int, tuple[int, int]]:
    """The first offset that is there, and the one after the last, of partitions of a Kafka topic. What is in an open
    transaction counts: a consumer of committed records would be told where the first of these begins."""
    settings = {**reader_settings(connection), "group.id": READERS, "isolation.level": "read_uncommitted"}
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        with using(make_client(Consumer, connection, settings)) as consumer:
            try:
                return {partition: _ends(consumer, TopicPartition(topic, partition)) for partition in partitions}
            except KafkaException as error:
                reason = error.args[0]
                if reason.code() not in LEADERLESS or time.monotonic() > deadline:
                    raise Unreachable(f"the ends of {topic}: {reason.str()}") from error
        time.sleep(0.05)


def _ends(consumer: Consumer, place: TopicPartition) -> tuple[int, int]:
    """The caller asks again while the partition has no leader: it was made a moment ago, or its broker has just
    started. It asks by a new client: one has been seen not to find a partition for 30 s that others found."""
    ends = consumer.get_watermark_offsets(place, timeout=ENDS_S)
    if ends is None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001
    return ends


def _assign(
    consumer: Consumer,
    connection: Connection,
    topic: str,
    partitions: Sequence[int] | None,
    start: int | Mapping[int, int],
) -> dict[int, int]:
    """Start reading; returns the end of each partition that isn't empty from there on."""
    there = _topics(consumer, connection, topic)[topic]
    if there.error is not None:
        raise _missing(consumer, connection, topic, there.error)
    chosen = sorted(there.partitions) if partitions is None else list(partitions)
    positions, ends = [], {}
    for partition, (low, high) in watermarks(connection, topic, chosen).items():
        wanted = start if isinstance(start, int) else start.get(partition, 0)
        positions.append(TopicPartition(topic, partition, min(max(wanted, low), high)))
        if positions[-1].offset < high:
            ends[partition] = high
    consumer.assign(positions)
    return ends


def _topics(consumer: Consumer, connection: Connection, topic: str | None = None) -> dict[str, Any]:
    """What the broker knows of a topic, or of all."""
    try:
        topics: dict[str, Any] = consumer.list_topics(topic, timeout=TIMEOUT_S).topics
    except KafkaException as error:
        raise no_answer(connection.bootstrap, TIMEOUT_S, error.args[0]) from error
    return topics


def _missing(consumer: Consumer, connection: Connection, topic: str, error: KafkaError) -> Stop:
    """Why a topic can't be read: most often there is no such run."""
    run = connection.run
    if error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
        return Stop(f"topic {topic}: {error.str()}; see that this user may read it")
    if any(name.startswith(f"{PREFIX}.{run}.") for name in _topics(consumer, connection)):
        return Stop(f"topic {topic} is gone, though run {run} has others: restore it from an archive")
    return Stop(f"there is no run {run}; `tamis runs` lists those that there are")


def end_offsets(connection: Connection, topic: Topic, partitions: int) -> dict[int, int]:
    """The offset after the last record of each partition; the marker of a transaction counts as a record."""
    found = watermarks(connection, topic_name(connection.run, topic), range(partitions))
    return {partition: high for partition, (_, high) in found.items()}
