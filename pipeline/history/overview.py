"""Which runs there are, since when, and how each stands: from the two ends of their ledgers."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final, NamedTuple

from pipeline.domain import events as e
from pipeline.domain.topology import Topic
from pipeline.log.admin import list_runs
from pipeline.log.client import Connection
from pipeline.log.codec import Poison, UnknownSchema
from pipeline.log.errors import Stop, Unreachable
from pipeline.log.members import at_work
from pipeline.log.reader import read_topic, watermarks
from pipeline.log.start import read_run_started
from pipeline.log.topics import topic_name

TAIL: Final = 200
"""Offsets of the ledger's end that are looked at: what ends a run is among the last that are written."""
AT_ONCE: Final = 8


class Overview(NamedTuple):
    """`state`: how it ended (completed, stopped, starved, failed), `closing`; else whether a scheduler serves it
    (`running`) or none does (`idle`). `not started` where its creation was cut short: its ledger is empty; `unreadable`
    where its beginning is gone, or another release's. `started_ms`: when it was made, in milliseconds since 1970."""

    run: str
    state: str
    started_ms: int | None


def overview(connection: Connection) -> list[Overview]:
    """The runs on this Kafka, sorted by name; the connection's own run plays no part. Unreachable if it doesn't say."""
    names = list_runs(connection)
    served = at_work(connection, names)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(lambda name: _one(replace(connection, run=name), name in served), names)
        return [one for one in found if one is not None]


def _one(connection: Connection, served: bool) -> Overview | None:
    """None for a run that was deleted a moment ago."""
    try:
        started = read_run_started(connection)
        return Overview(connection.run, _ended(connection) or ("running" if served else "idle"), started.at)
    except (Stop, Unreachable) as error:
        if connection.run not in list_runs(connection):
            return None
        if isinstance(error, Stop):
            return Overview(connection.run, "not started" if _is_empty(connection) else "unreadable", None)
        raise


def _is_empty(connection: Connection) -> bool:
    """Whether the ledger has no record, or isn't there."""
    try:
        return next(read_topic(connection, Topic.LEDGER), None) is None
    except Stop:
        return True


def _ended(connection: Connection) -> str | None:
    state = None
    for event in _last(connection):
        match event:
            case e.RunClosing():
                state = "closing"
            case e.RunFinished():
                return str(event.outcome)
    return state


def _last(connection: Connection) -> Iterator[e.Event]:
    low, high = watermarks(connection, topic_name(connection.run, Topic.LEDGER), [0])[0]
    for record in read_topic(connection, Topic.LEDGER, start=max(low, high - TAIL)):
        try:
            yield record.event()
        except (Poison, UnknownSchema):
            continue  # nothing that ends a run
