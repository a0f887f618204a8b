"""The recorded log: one record a line, and what the stages are given of it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pipeline.domain import events as e
from pipeline.domain.rules import rules_of
from pipeline.domain.topology import READS, Output, Topic, partitions
from pipeline.history.audits.prompts import PromptsSeen
from pipeline.history.audits.replay import Incoming, stages
from pipeline.history.records import MemoryLog
from pipeline.log.codec import Members, Poison
from pipeline.log.lane import Lane
from pipeline.log.reader import Record
from pipeline.log.state import StateCodec
from tests.golden.plain import to_plain

FOLDER = Path(__file__).parent
LOG, PINS = FOLDER / "log.jsonl", FOLDER / "pins.json"


def line(record: Record) -> str:
    """A record as one line."""
    return json.dumps(
        {
            "topic": record.topic.value,
            "partition": record.partition,
            "offset": record.offset,
            "ms": record.timestamp_ms,
            "key": record.key.decode() if record.key is not None else None,
            "headers": [[name, value.decode() if value is not None else None] for name, value in record.headers],
            "value": base64.b64encode(record.value).decode() if record.value is not None else None,
        },
        separators=(",", ":"),
    )


def read() -> list[Record]:
    """The recorded log."""
    return [_record(json.loads(text)) for text in LOG.read_text().splitlines()]


def _record(fields: dict[str, Any]) -> Record:
    return Record(
        Topic(fields["topic"]),
        fields["partition"],
        fields["offset"],
        fields["ms"],
        fields["key"].encode() if fields["key"] is not None else None,
        [(name, value.encode() if value is not None else None) for name, value in fields["headers"]],
        base64.b64decode(fields["value"]) if fields["value"] is not None else None,
    )


def started(records: Iterable[Record]) -> e.RunStarted:
    """Its first record."""
    found = next(r for r in records if r.topic is Topic.LEDGER and r.offset == 0).event()
    assert isinstance(found, e.RunStarted)
    return found


class _Listening:
    """A stage that keeps what it was given."""

    def __init__(self, stage: Any) -> None:
        self._stage = stage
        self.name, self.state_type = stage.name, stage.state_type
        self.initial, self.entries = stage.initial, stage.entries
        self.given: list[e.Event] = []

    def step(self, state: Any, event: e.Event) -> list[Output]:
        self.given.append(event)
        return list(self._stage.step(state, event))


def given(records: list[Record]) -> tuple[dict[str, Any], dict[str, str]]:
    """What the stages are given (for `fold`), and the bytes of the states that they end in, in hexadecimal."""
    first, log, members, seen = started(records), MemoryLog(records), Members(), PromptsSeen()
    rules = rules_of(first.config)
    prompts = [event for event in map(_event, records) if isinstance(event, _OF_PROMPTS)]
    for event in prompts:
        seen.note(event)
    lanes, states = dict[str, Any](), dict[str, str]()
    for stage in stages(rules, members, seen, None):
        for partition in range(partitions(READS[stage.name], rules)):
            listening = _Listening(stage)
            lane = Lane(listening, rules, partition)
            for record in log.read(READS[stage.name], partition):
                lane.step(Incoming(record))
            name = f"{stage.name.value}/{partition}"
            lanes[name] = [to_plain(event) for event in listening.given]
            if stage.state_type is not None:
                states[name] = StateCodec(stage.state_type).encode(lane.state).hex()
    encoded = {event.members for event in map(_event, records) if getattr(event, "members", b"")}
    table = [to_plain((body, members.decode(body))) for body in sorted(encoded)]
    plain = {"config": first.config, "members": table, "prompts": [to_plain(event) for event in prompts]}
    return plain | {"lanes": lanes}, states


_OF_PROMPTS = (e.RunStarted, e.PromptIssued, e.PromptSkipped, e.EvaluationStarted, e.RunClosing)


def _event(record: Record) -> e.Event | None:
    if record.topic is Topic.SNAPSHOTS:
        return None
    try:
        return record.event()
    except Poison:
        return None
