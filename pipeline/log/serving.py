"""The loop of generator and scorer: take records → serve → collect answers → produce → send offsets → commit.

Serving goes on in another thread and takes as long as it takes; a transaction holds what is finished by then, so it is
open for milliseconds. Records finish in any order (`Tracker`). An aborted transaction is written again as it was: its
answers are facts, and nobody could make the same ones twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

import structlog
from confluent_kafka import Message as KafkaMessage
from confluent_kafka import TopicPartition

from pipeline.domain.rules import Rules
from pipeline.domain.topology import READS, InvariantBroken
from pipeline.log.background import Background
from pipeline.log.client import Connection
from pipeline.log.crash import crash_point
from pipeline.log.errors import Aborted, Fatal, LogError, Stop, fork_of
from pipeline.log.holding import Holding
from pipeline.log.hooks import Committed, Hooks, tell_dead
from pipeline.log.membership import Membership
from pipeline.log.metadata import parse_metadata
from pipeline.log.restore import Interrupted, committed_positions
from pipeline.log.topics import topic_name
from pipeline.log.tracker import Tracker
from pipeline.log.transaction import Sink
from pipeline.log.work import Job, Work
from pipeline.metrics import own

IDLE_S: Final = 0.1
BUSY_S: Final = 0.005
"""How long answers are waited for before new records are looked for: a new record waits that long at most."""
MOST_OUTPUTS: Final = 4_096
"""In one transaction, about."""
ABORTS_IN_A_ROW: Final = 10
log = structlog.get_logger(__name__)


class ServingLoop:
    """One stage of facts in this process."""

    def __init__(self, connection: Connection, work: Work, rules: Rules, hooks: Hooks | None = None) -> None:
        self._connection, self._work, self._hooks = connection, work, hooks or Hooks()
        self._topic = topic_name(connection.run, READS[work.name])
        self._holding = Holding(connection, work, rules)
        self._aborts = 0
        self._paused = False
        self._crash = crash_point(work.name.value)
        self._sink = Sink(connection, work.name)
        self._membership = Membership(connection, work.name)
        self._background = Background(work)

    def run(self, until: Callable[[], bool], until_finished: bool = False) -> int:
        """Serve until `until()` says so, or with `until_finished` until RunFinished has been copied on in every
        partition that this process has. Returns 0; raises LogError (`exit_code`) for what ends a stage otherwise."""
        try:
            while not until() and not (until_finished and self._holding.is_over):
                self._hooks.heartbeat(self._membership.standing(self._work.name, self._holding.behind_since))
                self._turn()
            self._stop()
            return 0
        except LogError as error:
            log.error("stage ends", stage=self._work.name.value, why=str(error))
            raise
        except InvariantBroken as error:
            run = self._connection.run
            advice = f"the log contradicts itself: tamis audit {run}, then {fork_of(run)}"
            raise Stop(f"{self._work.name}: {error}; {advice}") from error
        finally:
            self._close()

    def _turn(self) -> None:
        records = self._receive()
        if self._membership.changed:
            self._membership.changed = False
            self._lose()
            records = []
        if self._membership.waiting is not None:
            self._assign(self._membership.waiting)
            return
        if records:
            self._crash("taken")
            self._background.call(self._work.take, self._holding.arrivals(records))
        self._collect()
        try:
            if self._holding.is_due:
                self._commit()
            self._aborts = 0
        except Aborted as error:
            self._again(error)

    def _receive(self) -> list[KafkaMessage]:
        """New records, as soon as there are any, or none as soon as there are answers."""
        unfinished = self._holding.unfinished
        self._throttle(unfinished)
        if unfinished:
            self._background.wait(0 if self._holding.outbox else BUSY_S)
        return self._membership.take(0 if unfinished else IDLE_S)

    def _throttle(self, unfinished: int) -> None:
        """Read no more while there is enough to do. Pausing throws prefetched records away, so it must be rare."""
        pause = unfinished > (self._work.most_unfinished // 2 if self._paused else self._work.most_unfinished)
        if pause != self._paused:
            parts = [TopicPartition(self._topic, partition) for partition in self._holding.trackers]
            consumer = self._membership.consumer
            (consumer.pause if pause else consumer.resume)(parts)
            self._paused = pause

    def _collect(self) -> None:
        holding = self._holding
        while len(holding.outbox) < MOST_OUTPUTS and (answers := self._background.answers()) is not None:
            holding.accept(answers)
        if holding.advance():
            self._background.call(self._work.take, ())

    def _commit(self) -> None:
        """One transaction: outputs and positions."""
        started, holding = time.perf_counter(), self._holding
        self._crash("decided")
        positions = holding.positions()
        with self._sink.transaction():
            self._sink.produce(holding.outbox)
            self._sink.send_offsets(positions, self._membership.metadata())
        records, outputs, dead = holding.records, len(holding.outbox), holding.intake.forget_dead()
        holding.committed()
        tell_dead(self._work.name, dead)
        where = {position.partition: position.offset for position in positions}
        own.handled(self._work.name.value, records, outputs)
        self._hooks.committed(Committed(records, outputs, dead, 0, time.perf_counter() - started, where))
        if holding.is_over:
            self._hooks.finished()

    def _again(self, error: Aborted) -> None:
        self._aborts += 1
        log.warning("aborted", stage=self._work.name.value, why=str(error), in_a_row=self._aborts)
        if self._aborts >= ABORTS_IN_A_ROW:
            raise Fatal(f"{self._aborts} transactions in a row were aborted, the last: {error}") from error

    def _assign(self, partitions: Sequence[int]) -> None:
        """Go on in new partitions from what is committed; pinned records come first."""
        consumer, stage, intake = self._membership.consumer, self._work.name, self._holding.intake
        started = time.perf_counter()
        try:
            found = committed_positions(consumer, self._connection, stage, partitions, self._keep_alive)
            trackers = [Tracker(p.partition, p.offset, parse_metadata(p.metadata)) for p in found]
            pinned = [Job(t, t.pinned, intake.pinned(self._connection, t)) for t in trackers if t.pinned is not None]
            self._keep_alive()
        except Interrupted:
            return
        self._holding.hold(trackers)
        self._membership.start({t.partition: t.position for t in trackers})
        self._paused = False
        own.restored(stage.value, time.perf_counter() - started)
        self._background.call(self._work.take, pinned)
        log.info("assigned", stage=stage.value, positions={t.partition: t.position for t in trackers})
        self._hooks.assigned(sorted(self._holding.trackers))
        if self._holding.is_over:
            self._hooks.finished()

    def _keep_alive(self) -> None:
        self._hooks.heartbeat(self._membership.standing(self._work.name, self._holding.behind_since))
        self._membership.stay()
        if self._membership.changed:
            raise Interrupted

    def _lose(self) -> None:
        """Drop all that is under way."""
        if self._holding.trackers:
            self._hooks.dropped()
            self._holding.lose()
            self._background.call(self._work.drop)

    def _stop(self) -> None:
        """A clean stop: commit what is finished."""
        self._collect()
        if self._holding.is_behind:
            self._commit()

    def _close(self) -> None:
        """Leave; what is unfinished is delivered again."""
        self._lose()
        if not self._background.close():
            log.warning("a call that can't be stopped is left behind", stage=self._work.name.value)
        self._sink.close()
        self._membership.close()
