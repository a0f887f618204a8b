"""A run's first record, and facts that a person or a tool adds to the ledger."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError
from confluent_kafka import Message as KafkaMessage

from pipeline.domain import events as e
from pipeline.domain.topology import Topic
from pipeline.log.cause import CAUSE
from pipeline.log.client import Connection, fact_producer
from pipeline.log.codec import Poison, UnknownSchema, encode
from pipeline.log.errors import Stop, Unreachable
from pipeline.log.reader import read_topic
from pipeline.log.topics import topic_name

TIMEOUT_S: Final = 30.0


def read_run_started(connection: Connection) -> e.RunStarted:
    """What fixes the run's decisions. Stop if the run doesn't exist or doesn't begin with it."""
    for record in read_topic(connection, Topic.LEDGER, start=0):
        if record.offset > 0:
            break
        try:
            event = record.event()
        except (Poison, UnknownSchema) as error:
            raise Stop(f"ledger/0/0 of run {connection.run}: {error}") from error
        if isinstance(event, e.RunStarted):
            return event
        break
    raise Stop(
        f"run {connection.run} has no RunStarted at ledger/0/0: it was never started (tamis init), its creation was "
        f"cut short (tamis delete {connection.run}), or its beginning is gone (restore it from an archive)"
    )


def write_fact(connection: Connection, event: e.Event, cause: str) -> None:
    """Write one event to the ledger, on its own. Unreachable if the broker doesn't take it."""
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: KafkaMessage) -> None:
        if error is not None:
            failures.append(error)

    producer = fact_producer(connection)
    producer.produce(
        topic_name(connection.run, Topic.LEDGER),
        encode(event),
        e.key_of(event),
        0,
        delivered,
        headers=[(CAUSE, cause.encode())],
    )
    if producer.flush(TIMEOUT_S) or failures:
        why = failures[0].str() if failures else f"no answer within {TIMEOUT_S:g} s"
        raise Unreachable(f"{type(event).__name__} could not be written to the ledger of {connection.run}: {why}")
