"""The loop of generator and scorer: take records → serve → collect answers → produce → send offsets → commit.

Serving goes on in another thread and takes as long as it takes; a transaction holds what is finished by then, so it is
open for milliseconds. Records finish in any order (`Tracker`). An aborted transaction is written again as it was: its
answers are facts, and nobody could make the same ones twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import structlog
from confluent_kafka import Message as KafkaMessage
from confluent_kafka import TopicPartition

from pipeline.domain import events as e
from pipeline.domain.rules import Rules
from pipeline.domain.topology import READS, Output
from pipeline.log.background import Background
from pipeline.log.client import Connection
from pipeline.log.crash import crash_point
from pipeline.log.errors import Aborted, Fatal, LogError
from pipeline.log.hooks import Committed, DeadLetterLimit, Hooks
from pipeline.log.intake import Intake
from pipeline.log.lane import Writer
from pipeline.log.membership import Membership
from pipeline.log.metadata import parse_metadata
from pipeline.log.restore import Interrupted, committed_positions
from pipeline.log.topics import topic_name
from pipeline.log.tracker import Tracker
from pipeline.log.transaction import Message, Sink
from pipeline.log.work import Answer, Job, Work

IDLE_S: Final = 0.1
BUSY_S: Final = 0.005
"""How long answers are waited for before new records are looked for: a new record waits that long at most."""
LAZY_S: Final = 1.0
"""How old progress without outputs may get before it is committed."""
MOST_OUTPUTS: Final = 4_096
"""In one transaction, about."""
ABORTS_IN_A_ROW: Final = 10
log = structlog.get_logger(__name__)


class ServingLoop:
    """One stage of facts in this process."""

    def __init__(self, connection: Connection, work: Work, rules: Rules, hooks: Hooks | None = None) -> None:
        self._connection, self._work, self._hooks = connection, work, hooks or Hooks()
        self._topic = topic_name(connection.run, READS[work.name])
        self._causes = f"{work.name.value}/{READS[work.name].value}"
        self._trackers: dict[int, Tracker] = {}
        self._outbox: list[Message] = []
        self._behind_since: float | None = None
        self._aborts = 0
        self._paused = False
        self._writer = Writer(connection.run)
        self._crash = crash_point(work.name.value)
        self._intake = Intake(work.name, rules)
        self._limit = DeadLetterLimit()
        self._sink = Sink(connection, work.name)
        self._membership = Membership(connection, work.name)
        self._background = Background(work)

    def run(self, until: Callable[[], bool], until_finished: bool = False) -> int:
        """Serve until `until()` says so, or with `until_finished` until RunFinished has been copied on in every
        partition that this process has. Returns 0; raises LogError (`exit_code`) for what ends a stage otherwise."""
        try:
            while not until() and not (until_finished and self._has_finished()):
                self._hooks.heartbeat()
                self._turn()
            self._stop()
            return 0
        except LogError as error:
            log.error("stage ends", stage=self._work.name.value, why=str(error))
            raise
        finally:
            self.close()

    def close(self) -> None:
        """Leave; what is unfinished is delivered again."""
        self._lose()
        if not self._background.close():
            log.warning("a call that can't be stopped is left behind", stage=self._work.name.value)
        self._sink.close()
        self._membership.close()

    def _turn(self) -> None:
        records = self._receive()
        if self._membership.changed:
            self._membership.changed = False
            self._lose()
            records = []
        if self._membership.waiting is not None:
            self._assign(self._membership.waiting)
            return
        self._hand_over(records)
        self._collect()
        try:
            if self._outbox or self._is_late():
                self._commit()
            self._aborts = 0
        except Aborted as error:
            self._again(error)

    def _receive(self) -> list[KafkaMessage]:
        """New records, as soon as there are any, or none as soon as there are answers."""
        unfinished = sum(tracker.unfinished for tracker in self._trackers.values())
        self._throttle(unfinished)
        if unfinished:
            self._background.wait(0 if self._outbox else BUSY_S)
        return self._membership.take(0 if unfinished else IDLE_S)

    def _throttle(self, unfinished: int) -> None:
        """Read no more while there is enough to do. Pausing throws prefetched records away, so it must be rare."""
        pause = unfinished > (self._work.most_unfinished // 2 if self._paused else self._work.most_unfinished)
        if pause != self._paused:
            parts = [TopicPartition(self._topic, p) for p in self._trackers]
            consumer = self._membership.consumer
            (consumer.pause if pause else consumer.resume)(parts)
            self._paused = pause

    def _hand_over(self, records: Sequence[KafkaMessage]) -> None:
        if not records:
            return
        self._crash("taken")
        jobs: list[Job] = []
        dead = 0
        for record in records:
            home, offset = self._trackers[record.partition() or 0], record.offset() or 0
            if not home.arrive(offset):
                continue
            event, letters = self._intake.read(record)
            if event is None:
                dead += 1
                self._add(home, offset, enumerate(letters))
                home.finish(offset)
            elif type(event) is e.RunFinished:
                home.end_at = offset
            else:
                if type(event) is self._work.pins:
                    home.pinned = offset
                jobs.append(Job(home, offset, event))
        self._limit.count(len(records), dead, self._intake.dead_in_a_row, f"{self._work.name} on {self._topic}")
        self._background.call(self._work.take, jobs)

    def _collect(self) -> None:
        while len(self._outbox) < MOST_OUTPUTS and (answers := self._background.answers()) is not None:
            for answer in answers:
                self._accept(answer)
        for home in self._trackers.values():
            was_full, before = home.is_full, home.position
            if home.advance() == home.end_at:
                self._copy_end(home)
            if was_full and home.position != before:
                self._background.call(self._work.take, ())

    def _accept(self, answer: Answer) -> None:
        home = answer.job.home
        if home.lost:
            return
        self._add(home, answer.job.offset, answer.outputs)
        if answer.last:
            home.finish(answer.job.offset)
            self._behind_since = self._behind_since or time.monotonic()

    def _add(self, home: Tracker, offset: int, outputs: Iterable[tuple[int, Output]]) -> None:
        cause = f"{self._causes}/{home.partition}/{offset}/"
        self._outbox += [self._writer.record(output, f"{cause}{index}") for index, output in outputs]

    def _copy_end(self, home: Tracker) -> None:
        """All before RunFinished is done: pass it on."""
        copy = Output(self._work.copies_to, home.partition, self._intake.end(home.partition))
        self._add(home, home.position, [(0, copy)])
        home.finish(home.position)
        home.advance()
        home.end_at = None
        home.ends += 1

    def _is_late(self) -> bool:
        return self._behind_since is not None and time.monotonic() - self._behind_since > LAZY_S

    def _commit(self) -> None:
        """One transaction: outputs, and the position of every partition, moved or not: that is the fence."""
        started = time.perf_counter()
        self._crash("decided")
        positions = [
            TopicPartition(self._topic, t.partition, t.position, t.metadata()) for t in self._trackers.values()
        ]
        with self._sink.transaction():
            self._sink.produce(self._outbox)
            self._sink.send_offsets(positions, self._membership.metadata())
        outputs, self._outbox, self._behind_since = len(self._outbox), [], None
        where = {position.partition: position.offset for position in positions}
        seconds = time.perf_counter() - started
        self._hooks.committed(Committed(0, outputs, self._intake.forget_dead(), 0, seconds, where))
        if self._has_finished():
            self._hooks.finished()

    def _again(self, error: Aborted) -> None:
        self._aborts += 1
        log.warning("aborted", stage=self._work.name.value, why=str(error), in_a_row=self._aborts)
        if self._aborts >= ABORTS_IN_A_ROW:
            raise Fatal(f"{self._aborts} transactions in a row were aborted, the last: {error}") from error

    def _has_finished(self) -> bool:
        """Whether RunFinished has been copied on, and that committed, in all partitions that this process has."""
        return bool(self._trackers) and not self._outbox and all(t.ends for t in self._trackers.values())

    def _assign(self, partitions: Sequence[int]) -> None:
        """Go on in new partitions from what is committed; pinned records come first."""
        consumer, stage = self._membership.consumer, self._work.name
        try:
            found = committed_positions(consumer, self._connection, stage, partitions, self._keep_alive)
            trackers = [Tracker(p.partition, p.offset, parse_metadata(p.metadata)) for p in found]
            pinned = [
                Job(t, t.pinned, self._intake.pinned(self._connection, t)) for t in trackers if t.pinned is not None
            ]
            self._keep_alive()
        except Interrupted:
            return
        self._trackers = {t.partition: t for t in trackers}
        self._membership.start({t.partition: t.position for t in trackers})
        self._paused = False
        self._background.call(self._work.take, pinned)
        log.info("assigned", stage=stage.value, positions={t.partition: t.position for t in trackers})
        self._hooks.assigned(sorted(self._trackers))
        if self._has_finished():
            self._hooks.finished()

    def _keep_alive(self) -> None:
        self._hooks.heartbeat()
        self._membership.stay()
        if self._membership.changed:
            raise Interrupted

    def _lose(self) -> None:
        """Drop all that is under way: another may have the partitions, and its answers count."""
        if self._trackers:
            self._hooks.dropped()
            for tracker in self._trackers.values():
                tracker.lost = True
            self._background.call(self._work.drop)
        self._trackers, self._outbox, self._behind_since = {}, [], None

    def _stop(self) -> None:
        """A clean stop: commit what is finished."""
        self._collect()
        if self._outbox or self._behind_since is not None:
            self._commit()
