"""One producer and its transactions, short and one at a time: decide first, then

    with sink.transaction():                               # begin
        sink.produce(messages)                             # produce
        first = sink.produce_flushed(chunks)               # a snapshot's chunks: their offset is known after a flush
        sink.send_offsets(positions, consumer.consumer_group_metadata())
                                                           # commit, on leaving; any exception aborts

What an error means is decided in one place (`_call`), in this order: fenced or fatal → end the process; the transaction
is lost → abort, `Aborted`; retriable → the same call again, within one deadline; anything else is a bug → end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeVar

import structlog
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka import Message as KafkaMessage

from pipeline.domain.topology import StageName
from pipeline.log.cause import CAUSE
from pipeline.log.client import Connection, give_up, transactional_producer
from pipeline.log.crash import crash_point
from pipeline.log.errors import FENCING, REFUSED, Aborted, Fatal, Fenced
from pipeline.log.watchdog import Watchdog
from pipeline.metrics import own

DEADLINE_S: Final = 10.0
"""For one transaction's calls together; longer than the broker lets a transaction live."""
INIT_DEADLINE_S: Final = 60.0
GRACE_S: Final = 10.0
"""How much longer a call may take than it was given before it counts as one that never returns."""

log = structlog.get_logger(__name__)
T = TypeVar("T")


class Message(NamedTuple):
    """A record to write. `topic` is the Kafka topic's whole name."""

    topic: str
    partition: int
    key: str | bytes | None
    value: bytes
    cause: str


class Sink:
    """The transactional producer of a stage's slot. Creating it ends what a predecessor of the same slot left open."""

    def __init__(self, connection: Connection, stage: StageName) -> None:
        self._connection, self._stage = connection, stage
        own.start(stage.value)
        self._crash = crash_point(stage.value)
        self._watchdog = Watchdog(stage.value)
        self._deadline = time.monotonic() + INIT_DEADLINE_S
        self._open()

    def _open(self) -> None:
        self._outage = outage = threading.Event()
        self._producer: Producer = transactional_producer(self._connection, self._stage, outage.set)
        try:
            self._call("init_transactions", self._producer.init_transactions)
        except BaseException:
            give_up(self._producer)
            raise

    def _renew_after_outage(self) -> None:
        """A producer whose broker was away may look for the group's coordinator where it was, and wait there for ever
        (github.com/confluentinc/librdkafka/issues/5456 and 5511, open in 2.16): a new one doesn't."""
        self._producer.poll(0)
        if self._outage.is_set():
            log.info("new producer after an outage", stage=self._stage.value)
            give_up(self._producer)
            self._open()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Begin now, commit on leaving. Raises Aborted (rebuild the state), Fenced or Fatal (end the process)."""
        self._deadline = time.monotonic() + DEADLINE_S
        self._renew_after_outage()
        self._call("begin_transaction", lambda _: self._producer.begin_transaction())
        begun = time.perf_counter()
        try:
            self._crash("begun")
            yield
            self._call("commit_transaction", self._producer.commit_transaction)
            own.committed(self._stage.value, time.perf_counter() - begun)
        except (Aborted, Fenced, Fatal):
            raise
        except BaseException:
            self.abort()
            raise
        self._crash("committed")

    def produce(self, messages: Iterable[Message]) -> None:
        """Hand records over. One that can't be delivered aborts the transaction at its commit."""
        for message in messages:
            self._enqueue(message)
        self._crash("produced")

    def produce_flushed(self, messages: Sequence[Message]) -> int:
        """Write records to one partition and return the offset of the first, inside the open transaction."""
        offsets: list[int] = []

        def delivered(error: KafkaError | None, message: KafkaMessage) -> None:
            if error is None:
                offsets.append(message.offset() or 0)

        for message in messages:
            self._enqueue(message, delivered)
        self._producer.flush(self._left())
        if len(offsets) != len(messages):
            self.abort()
            raise Aborted(f"{len(messages) - len(offsets)} of {len(messages)} records were not delivered")
        return min(offsets)

    def send_offsets(self, positions: Sequence[TopicPartition], membership: Any) -> None:
        """Commit input offsets with this transaction: last handled + 1, metadata included. `membership` is the
        consumer's group metadata of this moment. Fenced: this process isn't in the group any more."""
        self._call(
            "send_offsets_to_transaction",
            lambda left: self._producer.send_offsets_to_transaction(list(positions), membership, left),
        )
        self._crash("offsets_sent")

    def abort(self) -> None:
        """Undo the open transaction."""
        own.aborted(self._stage.value)
        self._deadline = max(self._deadline, time.monotonic() + DEADLINE_S / 2)
        self._call("abort_transaction", self._producer.abort_transaction)

    def close(self) -> None:
        """Give the client up; nothing is open at this point unless an error ended the loop."""
        give_up(self._producer)
        self._watchdog.close()

    def _enqueue(self, message: Message, on_delivery: Callable[..., None] | None = None) -> None:
        while True:
            try:
                self._producer.produce(
                    message.topic,
                    message.value,
                    message.key,
                    message.partition,
                    on_delivery,
                    headers=[(CAUSE, message.cause.encode())],
                )
                return
            except BufferError:
                if self._left() <= 0:
                    raise Fatal(f"the producer's queue stayed full for {DEADLINE_S} s") from None
                self._producer.poll(0.01)
            except KafkaException as error:
                self._judge("produce", error.args[0], error)

    def _left(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    def _call(self, name: str, function: Callable[[float], T]) -> T:
        while True:
            try:
                left = max(self._left(), 0.1)
                with self._watchdog.over(name, left + GRACE_S):
                    return function(left)
            except KafkaException as error:
                self._judge(name, error.args[0], error)

    def _judge(self, name: str, error: KafkaError, cause: BaseException) -> None:
        """Return to have the call made again; raise otherwise."""
        what = f"{name}: {error.str()} ({error.name()})"
        if error.code() in FENCING:
            raise Fenced(f"{what}; another process has this slot; give each its own (--slot)") from cause
        if error.fatal():
            raise Fatal(what) from cause
        if error.txn_requires_abort():
            if name != "abort_transaction":
                self.abort()
            if name == "send_offsets_to_transaction" and error.code() in REFUSED:
                raise Fenced(f"{what}; another process has taken over the partitions") from cause
            raise Aborted(what) from cause
        if not error.retriable() or self._left() <= 0:
            raise Fatal(what) from cause
