"""How the training comes along: batches, policies, evaluations, and the time they take. A part of the run's view."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import isfinite
from statistics import median
from typing import NamedTuple

from pipeline.domain import events as e
from pipeline.domain.grouping import mean
from pipeline.history.evaluation_filter import EvaluationFilter
from pipeline.history.group_counts import GroupCounts, count
from pipeline.history.rows import BatchRow, EvaluationRow
from pipeline.history.series import Series


class Pooled(NamedTuple):
    """An accepted group that is in no batch; `size` of its payloads, bytes."""

    domain: str
    reward: float | None
    size: int


@dataclass(slots=True)
class FormedBatch:
    """A batch that no checkpoint covers: its groups, in case they go back to the pool, and staleness."""

    groups: dict[str, Pooled]
    staleness: list[int]
    candidates: int
    trained: bool = False
    saved: bool = False


@dataclass(slots=True)
class UnderWay:
    """An evaluation that isn't finished."""

    step: int
    groups: int
    ended: int = 0


@dataclass(slots=True)
class Progress:
    """`step` counts as the scheduler does. `version`: the policy last trained, None before the trainer's first word.
    `untrained` groups, by domain, are accepted and in no batch that was trained; `held_bytes` are of the payloads of
    accepted groups that no checkpoint covers."""

    step: int = 0
    version: int | None = None
    checkpoint: int | None = None
    incarnation: int = 0
    batches: Series[BatchRow] = field(default_factory=Series)
    evaluations: Series[EvaluationRow] = field(default_factory=Series)
    skipped: dict[str, int] = field(default_factory=dict)
    returned: dict[str, int] = field(default_factory=dict)
    under_way: dict[int, UnderWay] = field(default_factory=dict)
    evaluation_filter: EvaluationFilter = field(default_factory=EvaluationFilter)
    untrained: dict[str, int] = field(default_factory=dict)
    held_bytes: int = 0
    _pool: dict[str, Pooled] = field(default_factory=dict)
    _formed: dict[int, FormedBatch] = field(default_factory=dict)
    _seconds: deque[float] = field(default_factory=lambda: deque(maxlen=15))
    _since_ms: int | None = None

    @property
    def seconds_a_step(self) -> float | None:
        """The median of the last steps, so that a pause doesn't count."""
        return median(self._seconds) if self._seconds else None

    @property
    def waiting_batches(self) -> int:
        """Batches formed and not yet trained on."""
        return len([batch for batch in self._formed.values() if not batch.trained])

    @property
    def pooled(self) -> int:
        """Accepted groups that are in no batch."""
        return len(self._pool)

    @property
    def first_evaluation(self) -> EvaluationRow | None:
        """The first that was finished and not cut."""
        return next((row for row in self.evaluations if not row.cut), None)

    @property
    def last_evaluation(self) -> EvaluationRow | None:
        """The last that was finished and not cut."""
        return next((row for row in reversed(list(self.evaluations)) if not row.cut), None)

    def note(self, at_ms: int, event: e.Event, groups: GroupCounts) -> None:
        """Fold one ledger record, after `groups` has seen it."""
        match event:
            case e.GroupOpened():
                self._since_ms = at_ms if self._since_ms is None and event.eval is None else self._since_ms
            case e.GroupAccepted():
                domain = event.prompt.domain
                self._pool[event.group_id] = Pooled(domain, event.scores.reward_mean, event.payload_bytes)
                count(self.untrained, domain)
                self.held_bytes += event.payload_bytes
            case e.GroupExpired() | e.GroupDeselected() if event.group_id in self._pool:
                group = self._pool.pop(event.group_id)
                count(self.untrained, group.domain, -1)
                self.held_bytes -= group.size
            case e.GroupEvaluated() if event.eval.id in self.under_way:
                self.under_way[event.eval.id].ended += 1
                self.evaluation_filter.note(event)
            case e.EvaluationStarted():
                self.under_way[event.eval.id] = UnderWay(event.step, event.groups)
            case e.EvaluationFinished():
                self._on_evaluated(at_ms, event)
            case e.TrainerStarted():
                self.incarnation = max(self.incarnation, event.incarnation)
                self.version = event.version if self.version is None else self.version
            case e.BatchFormed() | e.BatchSkipped() | e.BatchReturned() | e.BatchTrained() | e.CheckpointSaved():
                self._on_batch(at_ms, event, groups)
            case _:
                return

    def _on_batch(self, at_ms: int, event: e.Event, groups: GroupCounts) -> None:
        match event:
            case e.BatchFormed():
                pooled = [(g.group_id, self._pool.pop(g.group_id, None)) for g in event.groups]
                staleness = [event.follows_version - g.oldest_version for g in event.groups]
                known = {group_id: group for group_id, group in pooled if group is not None}
                self._formed[event.batch] = FormedBatch(known, staleness, event.candidates)
            case e.BatchSkipped():
                self.step += 1
                count(self.skipped, event.reason)
            case e.BatchReturned():
                self.step -= event.trained
                count(self.returned, event.reason)
                formed = self._formed.pop(event.batch, None)
                self._pool |= formed.groups if formed else {}
                if formed and formed.trained:
                    self._count_untrained(formed, 1)
            case e.BatchTrained():
                self._on_trained(at_ms, event, groups)
            case e.CheckpointSaved():
                self.checkpoint = event.version
                for number in event.batches:
                    if number in self._formed:
                        self._formed[number].saved = True
                        self._forget_if_over(number)

    def _on_trained(self, at_ms: int, event: e.BatchTrained, groups: GroupCounts) -> None:
        formed = self._formed.setdefault(event.batch, FormedBatch({}, [], 0))
        formed.trained = True
        self._count_untrained(formed, -1)
        seconds = (at_ms - (self._since_ms or at_ms)) / 1000
        self._seconds.append(seconds)
        self.step, self.version, self._since_ms = self.step + 1, event.version, at_ms
        self.batches.add(
            BatchRow(
                step=self.step,
                batch=event.batch,
                version=event.version,
                at_ms=at_ms,
                seconds=seconds,
                groups=len(formed.staleness),
                candidates=formed.candidates,
                reward=_mean([g.reward for g in formed.groups.values() if g.reward is not None]),
                sampled_reward=groups.take_sampled_reward(),
                staleness_mean=_mean(formed.staleness),
                staleness_max=max(formed.staleness, default=None),
                metrics=event.metrics,
                counts=groups.totals,
            )
        )
        self._forget_if_over(event.batch)

    def _forget_if_over(self, number: int) -> None:
        """A batch is over when it is both trained and covered by a checkpoint; the two come in either order."""
        if self._formed[number].trained and self._formed[number].saved:
            self.held_bytes -= sum([group.size for group in self._formed.pop(number).groups.values()])

    def _count_untrained(self, formed: FormedBatch, each: int) -> None:
        for group in formed.groups.values():
            count(self.untrained, group.domain, each)

    def _on_evaluated(self, at_ms: int, event: e.EvaluationFinished) -> None:
        self.under_way.pop(event.eval.id, None)
        self.evaluations.add(
            EvaluationRow(
                step=event.step,
                version=event.eval.version,
                at_ms=at_ms,
                groups=event.groups,
                graded=event.graded,
                ungraded=event.ungraded,
                failed=event.failed,
                accuracy=event.mean_reward,
                cut=event.cut,
                filtered=self.evaluation_filter.take(event.eval.id),
            )
        )


def _mean(values: list[float] | list[int]) -> float | None:
    found = mean(values)
    return found if isfinite(found) else None
