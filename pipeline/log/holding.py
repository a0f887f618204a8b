"""The partitions that a serving loop holds: what arrived, what is finished, what waits for the next transaction."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Final

from confluent_kafka import Message as KafkaMessage
from confluent_kafka import TopicPartition

from pipeline.domain import events as e
from pipeline.domain.rules import Rules
from pipeline.domain.topology import READS, Output
from pipeline.log.client import Connection
from pipeline.log.hooks import DeadLetterLimit
from pipeline.log.intake import Intake
from pipeline.log.lane import Writer
from pipeline.log.topics import topic_name
from pipeline.log.tracker import Tracker
from pipeline.log.transaction import Message
from pipeline.log.work import Answer, Job, Work

LAZY_S: Final = 1.0
"""How old progress without outputs may get before it is committed."""


class Holding:
    """Trackers by partition, and the outbox. `records` counts what arrived since the last commit; `behind_since`: when
    the oldest record was finished that isn't committed, seconds of the monotonic clock."""

    def __init__(self, connection: Connection, work: Work, rules: Rules) -> None:
        self._topic = topic_name(connection.run, READS[work.name])
        self._causes = f"{work.name.value}/{READS[work.name].value}"
        self._work = work
        self._writer = Writer(connection.run)
        self._limit = DeadLetterLimit()
        self.behind_since: float | None = None
        self.intake = Intake(work.name, rules)
        self.trackers: dict[int, Tracker] = {}
        self.outbox: list[Message] = []
        self.records = 0

    @property
    def unfinished(self) -> int:
        """Records that arrived and aren't finished."""
        return sum(tracker.unfinished for tracker in self.trackers.values())

    @property
    def is_over(self) -> bool:
        """Whether RunFinished has been copied on, and that committed, in all partitions that this process has."""
        return bool(self.trackers) and not self.outbox and all(t.ends for t in self.trackers.values())

    @property
    def is_behind(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self.outbox) or self.behind_since is not None

    @property
    def is_due(self) -> bool:
        """Whether to commit now: outputs at once, mere progress within a second."""
        late = self.behind_since is not None and time.monotonic() - self.behind_since > LAZY_S
        return bool(self.outbox) or late

    def hold(self, trackers: Iterable[Tracker]) -> None:
        """These partitions, and no others."""
        self.trackers = {tracker.partition: tracker for tracker in trackers}

    def lose(self) -> None:
        """Give all up: another may have them, and its answers count."""
        for tracker in self.trackers.values():
            tracker.lost = True
        self.trackers, self.outbox, self.behind_since, self.records = {}, [], None, 0

    def arrivals(self, records: Sequence[KafkaMessage]) -> list[Job]:
        """The jobs among new records. Stop beyond the limit of dead letters."""
        jobs: list[Job] = []
        dead = 0
        for record in records:
            home, offset = self.trackers[record.partition() or 0], record.offset() or 0
            if not home.arrive(offset):
                continue
            event, letters = self.intake.read(record)
            if event is None:
                dead += 1
                self._finish(home, offset, enumerate(letters))
            elif type(event) is e.RunFinished:
                home.end_at = offset
            else:
                if type(event) is self._work.pins:
                    home.pinned = offset
                jobs.append(Job(home, offset, event))
        self.records += len(records)
        self._limit.count(len(records), dead, self.intake.dead_in_a_row, f"{self._work.name} on {self._topic}")
        return jobs

    def accept(self, answers: Iterable[Answer]) -> None:
        """Put answers into the outbox, but those of partitions that were lost."""
        for (home, offset, _), outputs, last in answers:
            if home.lost:
                continue
            if last:
                self._finish(home, offset, outputs)
            else:
                self._add(home, offset, outputs)

    def advance(self) -> bool:
        """Move positions up, and copy RunFinished where it is next; whether jobs that had to wait may start now."""
        freed = False
        for home in self.trackers.values():
            was_full, before = home.is_full, home.position
            if home.advance() == home.end_at:
                copy = Output(self._work.copies_to, home.partition, self.intake.end(home.partition))
                self._finish(home, home.end_at, [(0, copy)])
                home.advance()
                home.ends, home.end_at = home.ends + 1, None
            freed = freed or (was_full and home.position != before)
        return freed

    def positions(self) -> list[TopicPartition]:
        """The position of every partition with its metadata, moved or not: sending it is the fence."""
        return [TopicPartition(self._topic, t.partition, t.position, t.metadata()) for t in self.trackers.values()]

    def committed(self) -> None:
        """All of it is in the log now."""
        self.outbox, self.behind_since, self.records = [], None, 0

    def _finish(self, home: Tracker, offset: int, outputs: Iterable[tuple[int, Output]]) -> None:
        self._add(home, offset, outputs)
        home.finish(offset)
        self.behind_since = self.behind_since or time.monotonic()

    def _add(self, home: Tracker, offset: int, outputs: Iterable[tuple[int, Output]]) -> None:
        cause = f"{self._causes}/{home.partition}/{offset}/"
        self.outbox += [self._writer.record(output, f"{cause}{index}") for index, output in outputs]
