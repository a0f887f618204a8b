"""A run as people watch it: one cheap fold of its records, for the live view and the report.

Records may come topic by topic or interleaved, but in the log's order within a partition, and from the run's start.
Memory doesn't grow with the run: curves are thinned, and of groups only those under way are remembered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.domain import events as e
from pipeline.domain.rules import Rules, rules_of
from pipeline.domain.topology import Topic
from pipeline.domain.vocabulary import Outcome
from pipeline.history.group_counts import GroupCounts, count
from pipeline.history.progress import Progress
from pipeline.history.rows import Gap, Moment, Note, Phase, RedisPoint
from pipeline.history.series import Series, Spread
from pipeline.history.snapshots_seen import SnapshotsSeen

MOMENT_MS: Final = 1_000
GAP_MS: Final = 10_000
"""The ledger has a Tick every second while a scheduler runs; silence this long is a pause."""
NOTES: Final = 20


@dataclass(slots=True)
class RunView:
    """`note` every record, then read. Times are those of the Kafka records, in milliseconds since the epoch. Notes are
    the first NOTES of each kind; a run that was stopped and resumed is one run, with `gaps`. `started_ms`: when it was
    made, `begun_ms`: when something first happened in it. `start`: where it goes on from, if it was forked."""

    run: str = ""
    rules: Rules | None = None
    start: Mapping[str, Any] | None = None
    outcome: Outcome | None = None
    closing: str | None = None
    started_ms: int | None = None
    begun_ms: int | None = None
    last_ms: int = 0
    groups: GroupCounts = field(default_factory=GroupCounts)
    progress: Progress = field(default_factory=Progress)
    discarded: dict[str, int] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    dead_letters: dict[str, int] = field(default_factory=dict)
    drained_copies: int = 0
    moments: Series[Moment] = field(default_factory=Series)
    redis: Series[RedisPoint] = field(default_factory=Series)
    failures: list[Note] = field(default_factory=list)
    starvation: list[Note] = field(default_factory=list)
    starved: dict[tuple[str, str], int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    snapshots: SnapshotsSeen = field(default_factory=SnapshotsSeen)
    lags: dict[str, int] = field(default_factory=dict)
    takeovers: list[Note] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    _ledger_ms: int | None = None

    def note(self, record_timestamp_ms: int, topic: Topic, event: e.Event) -> None:
        """Fold one record of any topic; those that say nothing of interest are ignored."""
        match topic:
            case Topic.LEDGER:
                self._on_ledger(record_timestamp_ms, event)
            case Topic.GROUPS if isinstance(event, e.GroupAssembled):
                self.groups.on_assembled(record_timestamp_ms, event.group_id)
            case Topic.DISCARDS if isinstance(event, e.ResponseDiscarded):
                count(self.discarded, event.reason)
                self.groups.on_discarded(event)
            case Topic.DROPS if isinstance(event, e.PayloadsDropped):
                count(self.dropped, event.reason, len(event.keys))
            case Topic.DROPS if isinstance(event, e.RunFinished):
                self.drained_copies += 1
            case Topic.SNAPSHOTS if isinstance(event, e.SnapshotChunk):
                self.snapshots.note(record_timestamp_ms, event)
                return
            case Topic.DEAD_LETTERS if isinstance(event, e.DeadLettered):
                count(self.dead_letters, event.reason)
            case _:
                return
        self.last_ms = max(self.last_ms, record_timestamp_ms)

    def sample_redis(self, at_ms: int, used_bytes: int, keys: int) -> None:
        """Take down what Redis says of the payloads at a moment."""
        self.redis.add(RedisPoint(at_ms, used_bytes, keys))

    # -------------------------------------------------------------------------------------------------------- reading

    @property
    def seed(self) -> int | None:
        """The run's seed, None before RunStarted."""
        return self.rules.seed if self.rules else None

    @property
    def steps(self) -> int:
        """Steps that the run is to take, 0 before RunStarted."""
        return self.rules.steps if self.rules else 0

    @property
    def step(self) -> int:
        """Steps done."""
        return self.progress.step

    @property
    def phase(self) -> Phase:
        """What the run is doing. An evaluation beside training counts as training."""
        if self.outcome is not None:
            return Phase.FINISHED
        if self.closing is not None:
            return Phase.CLOSING
        if self.progress.version is None:
            return Phase.WAITING
        return Phase.EVALUATING if self.progress.under_way and not self.groups.open_train else Phase.TRAINING

    @property
    def drained(self) -> bool:
        """Whether every reaper has copied RunFinished: nothing is left to happen."""
        return self.rules is not None and self.drained_copies == self.rules.partitions + 1

    @property
    def seconds_left(self) -> float | None:
        """An estimate of the time to the last step."""
        each = self.progress.seconds_a_step
        return None if each is None or self.closing is not None else max(self.steps - self.step, 0) * each

    @property
    def active_s(self) -> float:
        """How long the run has run, from its first process on, pauses left out."""
        if self.begun_ms is None:
            return 0.0
        return (self.last_ms - self.begun_ms - sum(g.end_ms - g.start_ms for g in self.gaps)) / 1000

    def groups_per_s(self, now_ms: int | None = None) -> float:
        """Groups ended a second, lately; up to now, or to the last record."""
        return self.groups.rate.at(self.last_ms if now_ms is None else now_ms)

    # -------------------------------------------------------------------------------------------------------- folding

    def _on_ledger(self, at_ms: int, event: e.Event) -> None:
        if self._ledger_ms is not None and at_ms - self._ledger_ms >= GAP_MS:
            self.gaps.append(Gap(self._ledger_ms, at_ms))
        if not isinstance(event, e.RunStarted):  # a run that was made and not yet begun isn't paused
            self._ledger_ms = max(at_ms, self._ledger_ms or 0)
            self.begun_ms = at_ms if self.begun_ms is None else self.begun_ms
        match event:
            case e.RunStarted():
                self.run, self.rules, self.started_ms = event.run, rules_of(event.config), at_ms
                self.start = json.loads(event.config).get("start")
                self.groups.begin(self.rules)
                self.progress.evaluation_filter.begin(event.config)
            case e.StageFailed():
                count(self.failed, event.stage)
                self._take_down(self.failures, at_ms, f"{event.stage}: {event.detail}")
            case e.StarvationRaised():
                self._take_down(self.starvation, at_ms, f"{event.domain}: {event.cause} ({event.advice})")
                self.starved[event.domain, str(event.cause)] = self.starved.get((event.domain, str(event.cause)), 0) + 1
            case e.TrainerStarted():
                self.progress.note(at_ms, event, self.groups)
                if event.incarnation > 1:
                    self._take_down(self.takeovers, at_ms, f"trainer {event.incarnation} took over")
            case e.RunClosing():
                self.closing = event.detail
            case e.RunFinished():
                self.outcome = event.outcome
            case _:
                self.groups.note(at_ms, event)
                self.progress.note(at_ms, event, self.groups)
        self._sample(at_ms)

    def _sample(self, at_ms: int) -> None:
        """A point for the curves, once a second of the records' time, and at the end."""
        last = self.moments.last
        if last is not None and at_ms - last.at_ms < MOMENT_MS and self.outcome is None:
            return
        groups = self.groups
        median, slow = groups.recent_assembly.quantile(0.5), groups.recent_assembly.quantile(0.9)
        rate = groups.rate.at(at_ms)
        self.moments.add(
            Moment(at_ms, self.step, groups.open_train, groups.open_eval, groups.totals, median, slow, rate)
        )
        groups.recent_assembly = Spread()

    def _take_down(self, notes: list[Note], at_ms: int, text: str) -> None:
        if len(notes) < NOTES:
            notes.append(Note(at_ms, text))
