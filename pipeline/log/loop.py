"""The one loop of every pure stage: take records → decode → step → encode → produce → send offsets → commit.

It knows no rule of the domain. A decision is taken before its transaction begins, so that a transaction is open for
milliseconds. Whatever goes wrong between, the states are thrown away and rebuilt from the log. Input that leads to
nothing costs no transaction of its own: its offsets follow within a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import structlog
from confluent_kafka import Message as KafkaMessage
from confluent_kafka import TopicPartition

from pipeline.domain.rules import Rules
from pipeline.domain.topology import READS, Output, Stage
from pipeline.log.cause import FactCauses
from pipeline.log.client import Connection
from pipeline.log.crash import crash_point
from pipeline.log.errors import Aborted, Fatal, LogError
from pipeline.log.facts import Facts
from pipeline.log.hooks import Committed, DeadLetterLimit, Hooks, tell_dead
from pipeline.log.lane import Lane, Writer
from pipeline.log.membership import Membership
from pipeline.log.restore import Interrupted, Restorer, committed_positions
from pipeline.log.snapshots import Snapshots
from pipeline.log.topics import topic_name
from pipeline.log.transaction import Message, Sink
from pipeline.metrics import own

POLL_S: Final = 0.1
LAZY_S: Final = 1.0
"""How old progress without outputs may get before it is committed."""
ABORTS_IN_A_ROW: Final = 10
SNAPSHOT_EVERY: Final = 50_000
log = structlog.get_logger(__name__)


class Loop:
    """One pure stage in this process."""

    def __init__(self, connection: Connection, stage: Stage[Any], rules: Rules, hooks: Hooks | None = None) -> None:
        self._connection, self._stage = connection, stage
        self._hooks = hooks or Hooks()
        self._topic = topic_name(connection.run, READS[stage.name])
        self._lanes: dict[int, Lane] = {}
        self._behind_since: float | None = None
        self._aborts = 0
        self._passed_on = False
        self._writer = Writer(connection.run, stage.name)
        self._facts = Facts(self._hooks.facts, self._writer, FactCauses(stage.name.value, connection.slot))
        self._limit = DeadLetterLimit()
        self._crash = crash_point(stage.name.value)
        self._restorer = Restorer(connection, stage, rules)
        state_type = stage.state_type
        self._snapshots = Snapshots(connection, stage.name, state_type, rules) if state_type else None
        self._sink = Sink(connection, stage.name)
        self._membership = Membership(connection, stage.name)

    def run(self, until: Callable[[], bool], until_finished: bool = False) -> int:
        """Work until `until()` says so, or with `until_finished` until RunFinished has been passed on in every
        partition that this process has. Returns 0; raises LogError (`exit_code`) for all else that ends a stage."""
        try:
            while not until() and not (until_finished and self._passed_on):
                self._hooks.heartbeat(self._membership.standing(self._stage.name, self._behind_since))
                self._turn()
            self._stop()
            return 0
        except LogError as error:
            log.error("stage ends", stage=self._stage.name.value, why=str(error))
            raise
        finally:
            self._drop()
            self._sink.close()
            self._membership.close()

    def _turn(self) -> None:
        records = self._membership.take(POLL_S if self._lanes else POLL_S / 2)
        if self._membership.changed:
            self._membership.changed = False
            self._drop()
            records = []
        if self._membership.waiting is not None:
            self._restore(self._membership.waiting)
            return
        try:
            self._handle(records)
            self._aborts = 0
        except Aborted as error:
            self._start_over(error)

    def _handle(self, records: Sequence[KafkaMessage]) -> None:
        started = time.perf_counter()
        outputs, messages = self._decide(records)
        if self._lanes:
            self._facts.ask()
        if outputs or self._facts.messages or self._is_late() or self._has_finished():
            self._commit(len(records), [*outputs, *self._facts.outputs], [*messages, *self._facts.messages], started)

    def _decide(self, records: Sequence[KafkaMessage]) -> tuple[list[Output], list[Message]]:
        outputs: list[Output] = []
        messages: list[Message] = []
        if not records:
            return outputs, messages
        self._crash("taken")
        self._behind_since = self._behind_since or time.monotonic()
        for record in records:
            lane = self._lanes[record.partition() or 0]
            if found := lane.step(record):
                outputs += found
                messages += self._writer.answers(lane.partition, record.offset() or 0, found)
        lanes = self._lanes.values()
        dead, in_a_row = sum(len(lane.dead) for lane in lanes), max(lane.dead_in_a_row for lane in lanes)
        self._limit.count(len(records), dead, in_a_row, f"{self._stage.name} on {self._topic}")
        self._crash("decided")
        return outputs, messages

    def _is_late(self) -> bool:
        return self._behind_since is not None and time.monotonic() - self._behind_since > LAZY_S

    def _has_finished(self) -> bool:
        """Whether RunFinished has been passed on in all partitions, and this is not yet committed."""
        return not self._passed_on and self._is_over()

    def _is_over(self) -> bool:
        return bool(self._lanes) and all(lane.is_over for lane in self._lanes.values())

    def _commit(self, records: int, outputs: list[Output], messages: list[Message], started: float) -> None:
        if outputs:
            self._hooks.before_commit(outputs)
        due = [lane for lane in self._lanes.values() if self._snapshot_due(lane)]
        self._transact(messages, due)
        self._facts.clear()
        self._behind_since = None
        self._report(records, len(messages), len(due), started)
        self._hooks.written(outputs)
        if self._has_finished():
            self._passed_on = True
            self._hooks.finished()

    def _snapshot_due(self, lane: Lane) -> bool:
        if self._snapshots is None or lane.since <= SNAPSHOT_EVERY:
            return False
        return lane.since > 2 * self._stage.entries(lane.state)

    def _transact(self, messages: Sequence[Message], due: Sequence[Lane]) -> None:
        """One transaction: outputs, snapshots, and the position of every partition, moved or not: that is the fence."""
        now = time.time_ns() // 1_000_000
        snapshots = [
            (lane, self._snapshots.chunks(lane.partition, lane.state, lane.position, now))
            for lane in due
            if self._snapshots is not None
        ]
        with self._sink.transaction():
            self._sink.produce(messages)
            for lane, chunks in snapshots:
                lane.snap, lane.since = self._sink.produce_flushed(chunks), 0
            positions = [
                TopicPartition(self._topic, lane.partition, lane.position, lane.metadata().format())
                for lane in self._lanes.values()
            ]
            self._sink.send_offsets(positions, self._membership.metadata())

    def _report(self, records: int, outputs: int, snapshots: int, started: float) -> None:
        dead = tuple(where for lane in self._lanes.values() for where in lane.dead)
        tell_dead(self._stage.name, dead)
        if snapshots:
            log.info("snapshots written", stage=self._stage.name.value, snapshots=snapshots)
        for lane in self._lanes.values():
            lane.forget_dead()
        positions = {lane.partition: lane.position for lane in self._lanes.values()}
        own.handled(self._stage.name.value, records, outputs)
        self._hooks.committed(Committed(records, outputs, dead, snapshots, time.perf_counter() - started, positions))

    def _restore(self, partitions: Sequence[int]) -> None:
        """Rebuild the states of the partitions that were assigned, then read on from the committed offsets."""
        started = time.perf_counter()
        try:
            found = committed_positions(
                self._membership.consumer, self._connection, self._stage.name, partitions, self._keep_alive
            )
            self._lanes = {p.partition: self._restorer.lane(p, self._keep_alive) for p in found}
        except Interrupted:
            self._lanes = {}
            return
        self._membership.start({lane.partition: lane.position for lane in self._lanes.values()})
        self._passed_on = self._is_over()
        own.restored(self._stage.name.value, time.perf_counter() - started)
        log.info(
            "restored",
            stage=self._stage.name.value,
            positions={lane.partition: lane.position for lane in self._lanes.values()},
            seconds=round(time.perf_counter() - started, 3),
        )
        if self._passed_on:
            self._hooks.finished()
        elif self._lanes:
            self._hooks.assigned(sorted(self._lanes))

    def _keep_alive(self) -> None:
        self._hooks.heartbeat(self._membership.standing(self._stage.name, self._behind_since))
        self._membership.stay()
        if self._membership.changed:
            raise Interrupted

    def _start_over(self, error: Aborted) -> None:
        self._aborts += 1
        log.warning("aborted", stage=self._stage.name.value, why=str(error), in_a_row=self._aborts)
        if self._aborts >= ABORTS_IN_A_ROW:
            raise Fatal(f"{self._aborts} transactions in a row were aborted, the last: {error}") from error
        self._drop()
        self._membership.restart()

    def _drop(self) -> None:
        if self._lanes:
            self._hooks.dropped()
        self._lanes = {}
        self._behind_since = None
        self._passed_on = False

    def _stop(self) -> None:
        """A clean stop: commit what was handled, with a snapshot of each state that has changed."""
        changed = [lane for lane in self._lanes.values() if lane.since and self._snapshots is not None]
        if self._lanes and (changed or self._facts.messages or self._behind_since is not None):
            self._transact(self._facts.messages, changed)
