"""A run's first record, from which every process reads what decides."""

from __future__ import annotations

from pipeline.domain import events as e
from pipeline.domain.topology import Topic
from pipeline.log.client import Connection
from pipeline.log.codec import Poison, UnknownSchema
from pipeline.log.errors import Stop
from pipeline.log.reader import read_topic


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
