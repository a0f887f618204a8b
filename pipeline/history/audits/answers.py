"""What each stage wrote in answer to which input, as the records' causes say: 16 bytes for each input that has answers.

An answer's digest covers its index, topic, partition, key and bytes; an input's is the sum of its answers' digests, so
one that is missing, doubled, altered or elsewhere changes it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, NamedTuple

from pipeline.domain.topology import StageName, Topic
from pipeline.log.cause import Cause, parse_cause
from pipeline.log.reader import Record

_CHUNK: Final = 4096
_MASK: Final = (1 << 64) - 1


class Lane(NamedTuple):
    """A stage's work on one partition of its input."""

    stage: str
    topic: str
    partition: int


class Sparse:
    """Unsigned 64-bit numbers by offset, 0 where nothing was set."""

    def __init__(self) -> None:
        self._chunks: dict[int, array[int]] = {}

    def __getitem__(self, offset: int) -> int:
        chunk = self._chunks.get(offset // _CHUNK)
        return 0 if chunk is None else chunk[offset % _CHUNK]

    def __setitem__(self, offset: int, value: int) -> None:
        chunk = self._chunks.get(offset // _CHUNK)
        if chunk is None:
            if not value:
                return
            chunk = self._chunks[offset // _CHUNK] = array("Q", bytes(8 * _CHUNK))
        chunk[offset % _CHUNK] = value

    def used(self) -> Iterator[int]:
        """The offsets whose number is not 0."""
        for number, chunk in sorted(self._chunks.items()):
            yield from (number * _CHUNK + i for i, value in enumerate(chunk) if value)


@dataclass(slots=True)
class LaneAnswers:
    """`digests` and `indexes` (a bitmap) by input offset. `last` input that has an answer, `settled` the last of which
    all answers can be seen."""

    digests: Sparse = field(default_factory=Sparse)
    indexes: Sparse = field(default_factory=Sparse)
    high_indexes: set[tuple[int, int]] = field(default_factory=set)
    last: int = -1
    settled: int = -1

    def claim(self, offset: int, index: int) -> bool:
        """Take an index of an input's answers; False if another record has it."""
        if index >= 64:
            free = (offset, index) not in self.high_indexes
            self.high_indexes.add((offset, index))
            return free
        taken = self.indexes[offset]
        self.indexes[offset] = taken | 1 << index
        return not taken >> index & 1


class Answers:
    """All causes of a run. `note` every record, save those of the snapshots topic."""

    def __init__(self, settled_before_ms: int) -> None:
        self.lanes: dict[Lane, LaneAnswers] = {}
        self.causes = 0
        self._facts: set[str] = set()
        self._settled_before_ms = settled_before_ms

    def note(self, record: Record) -> str | None:
        """Count a record in; what is wrong with its cause, if anything."""
        text = record.cause
        where = record.where
        if text is None:
            return f"cause: {where} has none"
        self.causes += 1
        cause = parse_cause(text)
        if cause is None:
            known = text in self._facts
            self._facts.add(text)
            return f"cause: {where} has the same as another record: {text}" if known else None
        lane = self.lanes.setdefault(Lane(cause.stage, cause.topic, cause.partition), LaneAnswers())
        answer = digest(cause.index, record.topic, record.partition, record.key, record.value or b"")
        lane.digests[cause.offset] = lane.digests[cause.offset] + answer & _MASK
        lane.last = max(lane.last, cause.offset)
        if record.timestamp_ms < self._settled_before_ms:
            lane.settled = max(lane.settled, cause.offset)
        free = lane.claim(cause.offset, cause.index) or _may_come_again(cause, record)
        return None if free else f"cause: {where} has the same as another record: {text}"


def _may_come_again(cause: Cause, record: Record) -> bool:
    """After a crash a generator does the slots of a prompt again that was not done: these are other facts, and one of
    them is discarded."""
    return cause.stage == StageName.GENERATOR and record.key is not None


def digest(index: int, topic: Topic, partition: int, key: bytes | None, value: bytes) -> int:
    """64 bits that stand for one answer."""
    head = b"%d/%b/%d/%d/%b/" % (index, topic.encode(), partition, -1 if key is None else len(key), key or b"")
    return int.from_bytes(blake2b(head + value, digest_size=8).digest(), "big")


def total(digests: list[int]) -> int:
    """The digest of all answers to one input."""
    return sum(digests) & _MASK
