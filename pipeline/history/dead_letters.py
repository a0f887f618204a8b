"""Records that a stage couldn't read: what they are, and which of them can be sent again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pipeline.domain import events as e
from pipeline.domain.ids import parse_group_id
from pipeline.domain.rules import Rules
from pipeline.domain.topology import Output, Topic
from pipeline.history.records import RunLog
from pipeline.log.codec import Poison, UnknownSchema, decode

HARMLESS: Final[dict[type[e.Event], Topic]] = {
    e.PromptIssued: Topic.PROMPTS,
    e.ResponsesRequested: Topic.PROMPTS,
    e.GroupClosed: Topic.PROMPTS,
    e.ResponseGenerated: Topic.RESPONSES,
    e.ResponseScored: Topic.ROLLOUTS,
    e.ResponseDiscarded: Topic.DISCARDS,
}
"""What may come twice or late, since the assembler discards what nobody waits for; and where it belongs. Anything else
has been answered when its record couldn't be read: its group has ended."""


class NotReplayable(ValueError):
    """A dead letter that can't be sent again, and why."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter. `number` is its offset on the topic `dead-letters`: its name for a person."""

    number: int
    written_ms: int
    event: e.DeadLettered

    @property
    def where(self) -> str:
        """The coordinates of the record that couldn't be read."""
        return f"{self.event.topic}/{self.event.partition}/{self.event.offset}"

    @property
    def group(self) -> str | None:
        """The group that the record's key names."""
        key = (self.event.key or b"").decode("utf-8", "replace")
        return key if parse_group_id(key) else None


def letters(log: RunLog) -> Iterator[Letter]:
    """All dead letters of a run, oldest first."""
    for record in log.read(Topic.DEAD_LETTERS):
        event = record.event()
        if isinstance(event, e.DeadLettered):
            yield Letter(record.offset, record.timestamp_ms, event)


def again(letter: Letter, rules: Rules) -> Output:
    """The record to send: the same event, where it belongs. NotReplayable if it still can't be read, or would be an
    answer to what has been answered."""
    try:
        event = decode(letter.event.value)
    except (Poison, UnknownSchema) as error:
        raise NotReplayable(
            f"dead letter {letter.number} ({letter.where}) still can't be read: {error}; "
            "a release that knows its schema may, and what its group lacked was asked for again"
        ) from error
    topic = HARMLESS.get(type(event))
    if topic is None:
        known = ", ".join(sorted(kind.__name__ for kind in HARMLESS))
        raise NotReplayable(
            f"dead letter {letter.number} is a {type(event).__name__}: its group ended when it couldn't be read, and "
            f"would end twice; only these can be sent again: {known}"
        )
    where = parse_group_id(e.key_of(event) or "")
    if where is None or where.partition >= rules.partitions:
        raise NotReplayable(f"dead letter {letter.number} names no group of this run: {e.key_of(event)!r:.100}")
    return Output(topic, where.partition, event)
