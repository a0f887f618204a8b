"""Records as lines of JSON, for people and for other programs."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator

from pipeline.domain.topology import Topic
from pipeline.log.client import Connection
from pipeline.log.codec import Poison, UnknownSchema, to_json
from pipeline.log.reader import Record, read_topic


def tail_lines(connection: Connection, topic: Topic, follow: bool, last: int, group: str | None) -> Iterator[str]:
    """The last records of a topic (all if `last` is 0), then, with `follow`, each that arrives."""
    wanted = group.encode() if group is not None else None
    ends: dict[int, int] = {}
    if not follow or last:
        kept: deque[Record] = deque(maxlen=last or None)
        for record in read_topic(connection, topic):
            ends[record.partition] = record.offset + 1
            if wanted is None or record.key == wanted:
                kept.append(record)
        yield from lines(kept)
    if follow:
        yield from lines(
            r for r in read_topic(connection, topic, start=ends, stop_at_end=False) if wanted is None or r.key == wanted
        )


def lines(records: Iterable[Record]) -> Iterator[str]:
    """One JSON object each: coordinates, cause, event. What can't be decoded says why."""
    for record in records:
        try:
            body = to_json(record.event())
        except (Poison, UnknownSchema) as error:
            body = {"undecodable": str(error)}
        where = f"{record.topic}/{record.partition}/{record.offset}"
        yield json.dumps({"record": where, "ms": record.timestamp_ms, "cause": record.cause, **body}, allow_nan=False)
