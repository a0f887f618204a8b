"""Records as lines: of text for people, of JSON for other programs."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pipeline.domain import events as e
from pipeline.domain import vocabulary as v
from pipeline.domain.topology import Topic
from pipeline.log.client import Connection
from pipeline.log.codec import Members, Poison, UnknownSchema, as_json, kind_of, to_json
from pipeline.log.reader import Record, read_topic

_REASONS = (
    v.Reason, v.ExpiryReason, v.WaiverReason, v.SkipReason, v.ReturnReason, v.DropReason, v.DiscardReason,
    v.SkippedPrompt, v.DeadLetterReason,
)  # fmt: skip
REASONS = sorted({reason.value for kind in _REASONS for reason in kind})
"""Whatever an event can name as its reason."""
TICK = e.Tick.__name__
LONGEST = 48
"""Characters of a text that a line for people has."""
_MEMBERS = Members()


@dataclass(slots=True)
class Domains:
    """Which domain a group is of, read from the ledger as far as it is needed: most records name their group alone."""

    connection: Connection
    _known: dict[str, str] = field(default_factory=dict)
    _read: int = 0

    def of(self, group: str) -> str | None:
        """The group's domain, None if the ledger doesn't know the group."""
        if group not in self._known:
            for record in read_topic(self.connection, Topic.LEDGER, start=self._read):
                self._read = record.offset + 1
                event = record.event()
                if isinstance(event, e.GroupOpened):
                    self._known[event.group_id] = event.prompt.domain
        return self._known.get(group)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which records are shown: those of a group, with a reason, about a domain, of an event's name. None: of any, but
    for the ticks of the run's clock, which are shown by name only: a run that waits has nothing else."""

    group: str | None = None
    reason: str | None = None
    domain: str | None = None
    event: str | None = None
    domains: Domains | None = None

    def shows(self, record: Record) -> bool:
        """Whether a record is to be shown. One that can't be decoded has its key alone."""
        if self.event is None and kind_of(record.value) == TICK:
            return False
        if self.group is not None and record.key != self.group.encode():
            return False
        if self.reason is None and self.domain is None and self.event is None:
            return True
        body = body_of(record)
        if self.event not in (None, body.get("event")) or self.reason not in (None, body.get("reason")):
            return False
        return self.domain in (None, self._domain_of(body))

    def _domain_of(self, body: dict[str, Any]) -> str | None:
        own: str | None = body.get("domain") or (body.get("prompt") or {}).get("domain")
        group = body.get("group_id")
        return self.domains.of(group) if own is None and group is not None and self.domains is not None else own


def tail_records(connection: Connection, topic: Topic, follow: bool, last: int, wanted: Wanted) -> Iterator[Record]:
    """The last wanted records of a topic (all if `last` is 0), then, with `follow`, each that arrives."""
    ends: dict[int, int] = {}
    if not follow or last:
        kept: deque[Record] = deque(maxlen=last or None)
        for record in read_topic(connection, topic):
            ends[record.partition] = record.offset + 1
            if wanted.shows(record):
                kept.append(record)
        yield from kept
    if follow:
        yield from (r for r in read_topic(connection, topic, start=ends, stop_at_end=False) if wanted.shows(r))


def json_line(record: Record) -> str:
    """A JSON object: coordinates, cause, event. What can't be decoded says why."""
    head = {"record": record.where, "ms": record.timestamp_ms, "cause": record.cause}
    return json.dumps({**head, **body_of(record)}, allow_nan=False)


def text_line(record: Record) -> str:
    """When (UTC), where, which event of which group; then its fields that say something, in short."""
    body = body_of(record)
    clock = datetime.fromtimestamp(record.timestamp_ms / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
    event, group = body.pop("event", ""), body.pop("group_id", None)
    head = f"{clock}  {record.where:<16} {event}{f' {_text(group)}' if group else ''}"
    return "  ".join((head, *filter(None, [" ".join(_told(body))])))


def _told(body: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Fields as name=value; a list by how many it has, and nothing of what is absent, empty or false."""
    for name, value in body.items():
        if name == "at" or value is None or value is False or value in ("", [], {}):
            continue
        match value:
            case dict():
                yield from _told(value, f"{prefix}{name}.")
            case list():
                yield f"{prefix}{name}=[{len(value)}]"
            case float():
                yield f"{prefix}{name}={value:.6g}"
            case _:
                yield f"{prefix}{name}={_text(str(value))}"


def _text(value: str) -> str:
    """Quoted where it isn't one printable word."""
    short = value if len(value) <= LONGEST else f"{value[: LONGEST - 1]}…"
    return short if short.isprintable() and " " not in short else repr(short)


def body_of(record: Record) -> dict[str, Any]:
    """The event as JSON, the members of its groups decoded, or why it can't be read."""
    try:
        event = record.event()
    except (Poison, UnknownSchema) as error:
        return {"undecodable": str(error)}
    body = to_json(event)
    if isinstance(members := getattr(event, "members", None), bytes):
        body["members"] = _decoded(members)
    if isinstance(event, e.BatchFormed):
        for group, shown in zip(event.groups, body["groups"], strict=True):
            shown["members"] = _decoded(group.members)
    return body


def _decoded(members: bytes) -> list[dict[str, Any]] | str:
    try:
        return [as_json(member) for member in _MEMBERS.decode(members)]
    except (Poison, UnknownSchema) as error:
        return f"undecodable: {error}"
