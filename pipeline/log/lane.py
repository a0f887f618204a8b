"""A stage's hold of one partition: the state, how far it has read, and what each record leads to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

from pipeline.domain import events as e
from pipeline.domain.ids import parse_group_id
from pipeline.domain.rules import Rules
from pipeline.domain.topology import ON_TOPIC, READS, InvariantBroken, Output, Stage, StageName, Topic
from pipeline.domain.vocabulary import DeadLetterReason
from pipeline.log.cause import cause_of
from pipeline.log.codec import Poison, UnknownSchema, decode, encode
from pipeline.log.errors import Stop, fork_of
from pipeline.log.metadata import OffsetMetadata
from pipeline.log.topics import topic_name
from pipeline.log.transaction import Message

ENDS_BROKEN_GROUPS: Final = (StageName.ASSEMBLER, StageName.FILTER)


class Incoming(Protocol):
    """The part of a Kafka message that is looked at."""

    def offset(self) -> int | None: ...
    def key(self) -> Any: ...
    def value(self) -> Any: ...
    def headers(self) -> Any: ...
    def timestamp(self) -> tuple[int, int]: ...


class Lane:
    """One partition of a pure stage. `position` is the next offset, `since` the records since the last snapshot, `ends`
    how many RunFinished it has handled or written."""

    def __init__(self, stage: Stage[Any], rules: Rules, partition: int) -> None:
        self.partition = partition
        self.topic = READS[stage.name]
        self.state = stage.initial(partition)
        self.position = 0
        self.since = 0
        self.snap: int | None = None
        self.ends = 0
        self.dead: list[str] = []
        self.dead_in_a_row = 0
        # a filter that alone reads what several assemblers write gets a RunFinished from each
        self._last_end = rules.partitions // rules.filter_partitions if stage.name is StageName.FILTER else 1
        self._stage, self._run = stage, rules.run
        self._allowed = frozenset(ON_TOPIC[self.topic])
        self._on_ledger = self.topic is Topic.LEDGER
        self._placed = self.topic is Topic.ROLLOUTS or (
            self.topic is Topic.GROUPS and rules.filter_partitions == rules.partitions
        )

    def step(self, record: Incoming) -> list[Output]:
        """What this record leads to; the state has changed. Stop, with coordinates, for what can't be skipped."""
        offset = record.offset() or 0
        self.position = offset + 1
        self.since += 1
        if self._on_ledger and self._own(record):
            return []
        try:
            event = decode(record.value())
        except Poison as poison:
            return self._poisoned(record, poison)
        except UnknownSchema as error:
            raise Stop(f"{self.where(offset)}: {error}") from error
        if type(event) not in self._allowed:
            return self._refused(record, DeadLetterReason.WRONG_TOPIC, f"a {type(event).__name__} is not written here")
        if self._placed and not self._at_home(event):
            return self._refused(record, DeadLetterReason.WRONG_PARTITION, f"group {e.key_of(event)!r:.100}")
        self.dead_in_a_row = 0
        outputs = self._advance(event, offset)
        if type(event) is e.RunFinished or (self._on_ledger and any(type(o.event) is e.RunFinished for o in outputs)):
            self.ends += 1
        return outputs

    def where(self, offset: int) -> str:
        """Coordinates, as a person looks them up."""
        return f"{self._stage.name} at {self.topic}/{self.partition}/{offset}"

    @property
    def is_over(self) -> bool:
        """Whether RunFinished has been handled for good: nothing more will come."""
        return self.ends >= self._last_end

    def forget_dead(self) -> None:
        """What was counted as unreadable has been reported, or was so at its time."""
        self.dead.clear()

    def metadata(self) -> OffsetMetadata:
        """What goes with the committed position."""
        return OffsetMetadata(snap=self.snap, end=self.ends)

    def _advance(self, event: e.Event, offset: int) -> list[Output]:
        try:
            return list(self._stage.step(self.state, event))
        except InvariantBroken as error:
            raise Stop(
                f"{self.where(offset)}: {error}; the log contradicts itself: run "
                f"tamis audit {self._run}, then {fork_of(self._run)}"
            ) from error
        except Exception as error:
            error.add_note(f"{self.where(offset)}, a {type(event).__name__}")
            raise

    def _own(self, record: Incoming) -> bool:
        cause = cause_of(record.headers())
        return cause is not None and cause.startswith(f"{self._stage.name.value}/")

    def _at_home(self, event: e.Event) -> bool:
        """Whether the group that it is about lives in this partition. A foreign ResponseScored has its own answer."""
        group = e.key_of(event)
        if group is None or type(event) is e.ResponseScored:
            return True
        where = parse_group_id(group)
        return where is not None and where.partition == self.partition

    def _poisoned(self, record: Incoming, poison: Poison) -> list[Output]:
        offset, key = record.offset() or 0, record.key()
        letter = self._refused(record, poison.reason, poison.detail)
        group = key.decode("ascii", "replace") if isinstance(key, bytes) else ""
        if self._stage.name not in ENDS_BROKEN_GROUPS or parse_group_id(group) is None:
            return letter
        by_assembler = (cause_of(record.headers()) or "").startswith(f"{StageName.ASSEMBLER.value}/")
        return self._advance(e.Undecodable(group, by_assembler, record.timestamp()[1]), offset) + letter

    def _refused(self, record: Incoming, reason: DeadLetterReason, detail: str) -> list[Output]:
        """A dead letter; on the ledger a stop, for there is no skipping in a total order."""
        offset = record.offset() or 0
        if self._on_ledger:
            advice = f"nothing on the ledger can be skipped: {fork_of(self._run)}"
            raise Stop(f"{self.where(offset)}: {reason}: {detail}; {advice}")
        self.dead.append(f"{self.topic}/{self.partition}/{offset}: {reason}")
        self.dead_in_a_row += 1
        key = record.key()
        headers = tuple(e.Header(str(name), value) for name, value in record.headers() or ())
        letter = e.DeadLettered(
            stage=self._stage.name.value,
            topic=self.topic.value,
            partition=self.partition,
            offset=offset,
            key=key.encode() if isinstance(key, str) else key,
            value=record.value(),
            headers=headers,
            reason=reason,
            detail=detail,
            at=record.timestamp()[1],
        )
        return [Output(Topic.DEAD_LETTERS, 0, letter)]


class Writer:
    """Makes Kafka records of a stage's outputs."""

    def __init__(self, run: str, stage: StageName | None = None) -> None:
        self._prefix = f"{stage.value}/{READS[stage].value}" if stage else ""
        self._topics = {topic: topic_name(run, topic) for topic in Topic}

    def answers(self, partition: int, offset: int, outputs: Sequence[Output]) -> Iterator[Message]:
        """The records that one input leads to; the index in their cause counts over all of them."""
        for index, output in enumerate(outputs):
            yield self.record(output, f"{self._prefix}/{partition}/{offset}/{index}")

    def record(self, output: Output, cause: str) -> Message:
        """One record, with the key of the group that it is about."""
        event = output.event
        return Message(self._topics[output.topic], output.partition, e.key_of(event), encode(event), cause)
