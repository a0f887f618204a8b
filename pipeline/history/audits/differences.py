"""Differences between a replay and the record, for people: which input, what was expected, what is there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from pipeline.domain import events as e
from pipeline.domain.topology import Output, Topic
from pipeline.history.audits.answers import Lane
from pipeline.history.records import RunLog
from pipeline.log.cause import parse_cause
from pipeline.log.codec import Poison, UnknownSchema, encode
from pipeline.log.reader import Record

_LONG = 60


def explain(log: RunLog, lane: Lane, expected: dict[int, list[Output]]) -> Iterator[str]:
    """One line for each answer that is not as the replay gave it, by input offset. Reads the whole log again."""
    found = recorded_answers(log, lane, set(expected))
    for offset, outputs in expected.items():
        where = f"I6 {lane.stage} at {lane.topic}/{lane.partition}/{offset}"
        there = found.get(offset, {})
        for index in range(max([len(outputs), *(i + 1 for i in there)])):
            output = outputs[index] if index < len(outputs) else None
            line = _compare(output, there.get(index, []))
            if line:
                yield f"{where}, output {index}: {line}"


def recorded_answers(log: RunLog, lane: Lane, offsets: set[int]) -> dict[int, dict[int, list[Record]]]:
    """The records that answer these inputs, by offset and index."""
    found: dict[int, dict[int, list[Record]]] = {}
    for topic in Topic:
        if topic is Topic.SNAPSHOTS:
            continue
        for record in log.read(topic):
            cause = parse_cause(record.cause)
            if cause and (cause.stage, cause.topic, cause.partition) == lane and cause.offset in offsets:
                found.setdefault(cause.offset, {}).setdefault(cause.index, []).append(record)
    return found


def _compare(expected: Output | None, there: list[Record]) -> str | None:
    got = " and ".join(f"{r.where} {_shown(r)}" for r in there) or "nothing"
    if expected is None:
        return f"expected nothing, got {got}"
    wanted = f"{type(expected.event).__name__} {e.key_of(expected.event) or ''}".strip()
    place = f"{expected.topic}/{expected.partition}"
    if len(there) != 1:
        return f"expected {wanted} on {place}, got {got}"
    record = there[0]
    event = _event(record)
    if (record.topic, record.partition) != (expected.topic, expected.partition) or type(event) is not type(
        expected.event
    ):
        return f"expected {wanted} on {place}, got {got}"
    parts = list(_fields(expected.event, event))
    key = e.key_of(expected.event)
    if record.key != (None if key is None else key.encode()):
        parts.append(f"key: expected {key!r}, got {record.key!r}")
    if not parts and record.value != encode(expected.event):
        parts.append("the same fields in other bytes")
    return f"{wanted} at {place}/{record.offset}: {'; '.join(parts)}" if parts else None


def _fields(expected: e.Event, got: e.Event | None) -> Iterator[str]:
    for field in fields(expected):  # type: ignore[arg-type]
        one, other = getattr(expected, field.name), getattr(got, field.name)
        if repr(one) != repr(other):
            yield f"{field.name}: expected {_short(one)}, got {_short(other)}"


def _event(record: Record) -> e.Event | None:
    try:
        return record.event()
    except (Poison, UnknownSchema):
        return None


def _shown(record: Record) -> str:
    event = _event(record)
    return f"{type(event).__name__} {e.key_of(event) or ''}".strip() if event else "an unreadable record"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONG else f"{text[:_LONG]}…"
