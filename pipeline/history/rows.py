"""The rows of a run's view: what a curve, a table or a card shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pipeline.history.evaluation_filter import Filtered
from pipeline.history.lengths import NO_LENGTHS, LengthTotals


class Phase(StrEnum):
    """What a run is doing."""

    WAITING = "waiting for the trainer"
    EVALUATING = "evaluating"
    TRAINING = "training"
    CLOSING = "closing"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Counts:
    """Training groups judged up to now: running totals. `rejected` by reason, constant groups by their class;
    `domains` has accepted and judged."""

    accepted: int
    rejected: Mapping[str, int]
    kept_by_guard: int = 0
    categories: Mapping[str, int] = field(default_factory=dict)
    lengths: LengthTotals = NO_LENGTHS
    domains: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def judged(self) -> int:
        """Accepted and rejected."""
        return self.accepted + sum(self.rejected.values())


@dataclass(frozen=True, slots=True)
class BatchRow:
    """One optimizer step. `reward`: mean over the groups trained on; `sampled_reward`: over all training groups judged
    since the batch before, rejected ones included. `seconds` since the batch before. Staleness in policy versions.
    `candidates` stood for selection."""

    step: int
    batch: int
    version: int
    at_ms: int
    seconds: float
    groups: int
    candidates: int
    reward: float | None
    sampled_reward: float | None
    staleness_mean: float | None
    staleness_max: int | None
    metrics: Mapping[str, float]
    counts: Counts


@dataclass(frozen=True, slots=True)
class EvaluationRow:
    """One finished evaluation; `accuracy` is its mean reward, `filtered` what its domains' filters say of it."""

    step: int
    version: int
    at_ms: int
    groups: int
    graded: int
    ungraded: int
    failed: int
    accuracy: float | None
    cut: bool
    filtered: Filtered | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """How things stood: a point of the curves over time. Assembly times are of the groups since the moment before."""

    at_ms: int
    step: int
    open_train: int
    open_eval: int
    counts: Counts
    assembly_p50_ms: float | None
    assembly_p90_ms: float | None
    groups_per_s: float


@dataclass(frozen=True, slots=True)
class RedisPoint:
    """What payloads take, as Redis said."""

    at_ms: int
    used_bytes: int
    keys: int


@dataclass(frozen=True, slots=True)
class Note:
    """Something that a person should see: a failure, a starvation, a takeover."""

    at_ms: int
    text: str


@dataclass(frozen=True, slots=True)
class Gap:
    """A time in which nothing ran."""

    start_ms: int
    end_ms: int
