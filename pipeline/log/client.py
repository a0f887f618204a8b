"""Kafka clients with the one set of settings that this pipeline relies on (docs/architecture.md says why).

Time limits: a transaction that its owner doesn't end is ended by the broker after 5 s; a member that is silent for 6 s
loses its partitions.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from pipeline.domain.topology import READS, StageName
from pipeline.log.errors import Stop
from pipeline.log.topics import MAX_RECORD_BYTES, PREFIX, check_run_name, group_name, topic_name

TRANSACTION_TIMEOUT_MS: Final = 5_000
SESSION_TIMEOUT_MS: Final = 6_000
GONE: Final = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)  # noqa: SLF001
"""Errors that say: a broker has gone."""
READERS: Final = f"{PREFIX}.readers"
"""The group that readers outside any group give as theirs; nothing is committed for it."""
QUIET_S: Final = 10.0
CLOSE_S: Final = 5.0
HEAR_S: Final = 1.0
log = structlog.get_logger(__name__)

warnings.filterwarnings("ignore", "Producer .* failed during close", RuntimeWarning)
_silent = logging.getLogger("tamis.kafka")  # what librdkafka would print between our lines; _log_error has it too
_silent.addHandler(logging.NullHandler())
_silent.propagate = False

Client = TypeVar("Client")
Open = TypeVar("Open", Consumer, Producer, AdminClient)
Settings = dict[str, Any]
OnChange = Callable[[Consumer, list[Any]], None]


def own_slot() -> str:
    """This process's slot: TAMIS_SLOT, else the host name, which a container keeps when it is restarted in place."""
    return os.environ.get("TAMIS_SLOT") or socket.gethostname()


@dataclass(frozen=True, slots=True)
class Connection:
    """Where the log is, which run, and who asks. `security` goes to every client as it is (`security.protocol`,
    `sasl.*`, `ssl.*`). Two live processes of one stage must not have the same slot: they would fence each other."""

    bootstrap: str
    run: str
    slot: str = field(default_factory=own_slot)
    security: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_run_name(self.run)


def base_settings(connection: Connection) -> Settings:
    """What all clients have in common."""
    return {
        "bootstrap.servers": connection.bootstrap,
        "error_cb": _log_error,
        "log_level": 2,
        "logger": _silent,
        "reconnect.backoff.max.ms": 1_000,
        "topic.metadata.propagation.max.ms": 5_000,
        **connection.security,
    }


def make_client(kind: Callable[[Settings], Client], connection: Connection, settings: Settings) -> Client:
    """A client of this kind. Stop if the options that are passed on to it are none that it takes."""
    try:
        return kind(settings)
    except KafkaException as error:
        reason = error.args[0]
        if reason.code() != KafkaError._INVALID_ARG or not connection.security:  # noqa: SLF001
            raise
        raise Stop(
            f"TAMIS_KAFKA: {reason.str()}; expected options of librdkafka that fit each other (its CONFIGURATION.md): "
            "correct or remove it"
        ) from error


def give_up(client: Consumer | Producer | AdminClient) -> None:
    """End a client; what a producer has not delivered is dropped. Waits for at most 5 s. For a group's member: `leave`.

    librdkafka 2.16 has been seen never to return from closing a client whose broker had gone. Such a client is left to
    its thread, which keeps no process alive. One that nobody gives up is closed by whoever happens to collect garbage:
    that may be any thread, or the end of the process.
    """
    thread = threading.Thread(target=_close, args=(client,), name="give up", daemon=True)
    thread.start()
    thread.join(CLOSE_S)
    if thread.is_alive():
        log.warning("a client of Kafka doesn't close, it is left", client=type(client).__name__, seconds=CLOSE_S)


def leave(member: Consumer) -> None:
    """End a member of a group, after it has heard what its group had to say to it.

    Closing calls a member back with what it has not heard. It answers by assigning partitions, to a client that listens
    no more: librdkafka 2.16 may never return from that, and confluent-kafka holds the interpreter's lock meanwhile, so
    that no thread of the process goes on, nor any signal is heard (docs/decisions/0008).
    """
    until = time.monotonic() + HEAR_S
    with suppress(KafkaException, RuntimeError):
        while member.poll(0.01) is not None and time.monotonic() < until:
            member.consume(10_000, 0)  # what is unread stands before what it has to hear
    give_up(member)


@contextmanager
def using(client: Open) -> Iterator[Open]:
    """A client for as long as the block lasts."""
    try:
        yield client
    finally:
        give_up(client)


def _close(client: Consumer | Producer | AdminClient) -> None:
    with suppress(KafkaException, RuntimeError):  # one that was fenced says so again
        if isinstance(client, Producer):
            client.purge()  # closing would wait for ever until all is delivered
        if isinstance(client, AdminClient):
            client.__exit__(None, None, None)
        else:
            client.close()


def reader_settings(connection: Connection) -> Settings:
    """Settings of every consumer: committed records only, no automatic commits, never from where nobody asked for.
    Memory: at most 64 MB of prefetched records."""
    return {
        **base_settings(connection),
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "allow.auto.create.topics": False,
        "fetch.wait.max.ms": 100,
        "fetch.queue.backoff.ms": 10,
        "fetch.message.max.bytes": 4 << 20,
        "fetch.max.bytes": 32 << 20,
        "receive.message.max.bytes": 100 << 20,
        "queued.min.messages": 20_000,
        "queued.max.messages.kbytes": 64 << 10,
    }


def stage_consumer(
    connection: Connection, stage: StageName, on_assign: OnChange, on_revoke: OnChange, on_lost: OnChange
) -> Consumer:
    """A member of the stage's group, subscribed to the stage's one input topic."""
    consumer = make_client(
        Consumer,
        connection,
        {
            **reader_settings(connection),
            "group.id": group_name(connection.run, stage),
            "group.protocol": "classic",
            "group.instance.id": f"{stage.value}-{connection.slot}",
            "partition.assignment.strategy": "range",
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": 1_000,
            "max.poll.interval.ms": 300_000,
        },
    )
    consumer.subscribe(
        [topic_name(connection.run, READS[stage])], on_assign=on_assign, on_revoke=on_revoke, on_lost=on_lost
    )
    return consumer


def plain_consumer(connection: Connection) -> Consumer:
    """A reader in no group: for `assign()`. It reports the end of a partition, and commits nothing."""
    settings = {**reader_settings(connection), "group.id": READERS, "enable.partition.eof": True}
    return make_client(Consumer, connection, settings)


def producer_settings(connection: Connection) -> Settings:
    """Settings of every producer: idempotent, all replicas; records gather for 5 ms unless a commit is waiting."""
    return {
        **base_settings(connection),
        "enable.idempotence": True,
        "acks": "all",
        "linger.ms": 5,
        "batch.size": 1 << 20,
        "compression.type": "lz4",
        "message.max.bytes": MAX_RECORD_BYTES,
        "message.timeout.ms": TRANSACTION_TIMEOUT_MS,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 256 << 10,
    }


def transactional_producer(connection: Connection, stage: StageName, on_outage: Callable[[], None]) -> Producer:
    """The producer of a stage's slot. Its `transactional.id` is stable: a restart ends what was left open. `on_outage`
    is called from its calls when a broker has gone."""

    def on_error(error: KafkaError) -> None:
        if error.code() in GONE:
            on_outage()
        _log_error(error)

    return make_client(
        Producer,
        connection,
        {
            **producer_settings(connection),
            "error_cb": on_error,
            "transactional.id": f"{group_name(connection.run, stage)}.{connection.slot}",
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            "retry.backoff.ms": 1,
            "retry.backoff.max.ms": 5,
        },
    )


def fact_producer(connection: Connection) -> Producer:
    """A producer for facts from outside: idempotent, without transactions."""
    return make_client(Producer, connection, {**producer_settings(connection), "message.timeout.ms": 30_000})


def admin_client(connection: Connection) -> AdminClient:
    """For topics, groups and offsets."""
    return make_client(AdminClient, connection, base_settings(connection))


_logged: dict[str, float] = {}


def _log_error(error: KafkaError) -> None:
    """Errors of the client as a whole; those that matter come back from the call that they break. While a broker is
    away they come many times a second: each kind is logged once in QUIET_S."""
    now = time.monotonic()
    if now - _logged.get(error.name(), -QUIET_S) >= QUIET_S:
        _logged[error.name()] = now
        log.warning("kafka", error=error.str(), code=error.name())
