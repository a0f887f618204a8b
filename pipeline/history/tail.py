"""Records as lines of JSON, for people and for other programs."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pipeline.domain import vocabulary as v
from pipeline.domain.topology import Topic
from pipeline.log.client import Connection
from pipeline.log.codec import Poison, UnknownSchema, to_json
from pipeline.log.reader import Record, read_topic

_REASONS = (
    v.Reason, v.ExpiryReason, v.WaiverReason, v.SkipReason, v.ReturnReason, v.DropReason, v.DiscardReason,
    v.SkippedPrompt, v.DeadLetterReason,
)  # fmt: skip
REASONS = sorted({reason.value for kind in _REASONS for reason in kind})
"""Whatever an event can name as its reason."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which records are shown: those of a group, with a reason, about a domain, of an event's name. None: of any."""

    group: str | None = None
    reason: str | None = None
    domain: str | None = None
    event: str | None = None

    def shows(self, record: Record) -> bool:
        """Whether a record is to be shown. One that can't be decoded has its key alone."""
        if self.group is not None and record.key != self.group.encode():
            return False
        if self.reason is None and self.domain is None and self.event is None:
            return True
        body = body_of(record)
        prompt = body.get("prompt") or {}
        found = (body.get("reason"), body.get("domain", prompt.get("domain")), body.get("event"))
        asked = (self.reason, self.domain, self.event)
        return all(want is None or have == want for have, want in zip(found, asked, strict=True))


def tail_lines(connection: Connection, topic: Topic, follow: bool, last: int, wanted: Wanted) -> Iterator[str]:
    """The last wanted records of a topic (all if `last` is 0), then, with `follow`, each that arrives."""
    ends: dict[int, int] = {}
    if not follow or last:
        kept: deque[Record] = deque(maxlen=last or None)
        for record in read_topic(connection, topic):
            ends[record.partition] = record.offset + 1
            if wanted.shows(record):
                kept.append(record)
        yield from lines(kept)
    if follow:
        yield from lines(r for r in read_topic(connection, topic, start=ends, stop_at_end=False) if wanted.shows(r))


def lines(records: Iterable[Record]) -> Iterator[str]:
    """One JSON object each: coordinates, cause, event. What can't be decoded says why."""
    for record in records:
        where = f"{record.topic}/{record.partition}/{record.offset}"
        head = {"record": where, "ms": record.timestamp_ms, "cause": record.cause}
        yield json.dumps({**head, **body_of(record)}, allow_nan=False)


def body_of(record: Record) -> dict[str, Any]:
    """The event as JSON, or why it can't be read."""
    try:
        return to_json(record.event())
    except (Poison, UnknownSchema) as error:
        return {"undecodable": str(error)}
