"""What a configuration can say of the training step: train-infer correction, loss, masks on whole samples.

A section that is absent changes nothing, and isn't recorded. docs/training.md has the exact rules.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pipeline.config.values import Many, Section

Level = Literal["token", "segment", "geometric", "sequence"]


class CorrectionFilter(Section):
    """Keeps a token whose ratio, and whose signed diff, at `level` lie within bounds (inclusive), each if enabled."""

    level: Level = "token"
    ratio_enabled: bool = True
    ratio_low: float = Field(0.8, ge=0)
    ratio_high: float = Field(1.2, ge=0)
    diff_enabled: bool = False
    diff_low: float = -0.2
    diff_high: float = 0.2


class ImportanceWeight(Section):
    """Each token's loss is multiplied by the ratio at `weight_type`, held in [lower, upper] (`none`: no bound)."""

    weight_type: Level = "token"
    lower: float = Field(0.0, ge=0)
    upper: float | Literal["none"] = 1.2


class Correction(Section):
    """Where trainer and sampler see a token too differently it leaves the loss; the others may be weighed. Rows whose
    sequence ratio is below `catastrophic` (such as 1e-3) leave it whole. `denominator`: the mask whose tokens and rows
    the loss is divided by. Without any it measures."""

    filters: Many[CorrectionFilter] = ()
    weight: ImportanceWeight | None = None
    catastrophic: float | None = Field(None, gt=0, lt=1)
    denominator: Literal["corrected", "original"] = "corrected"


class Loss(Section):
    """`aggregation` by the convention of `impl`; `divisor`: of seq-mean-token-sum-norm, in tokens. `clip_low`,
    `clip_high`: the range of the policy ratio; absent: the learner's own."""

    aggregation: Literal["token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"] = (
        "token-mean"
    )
    impl: Literal["roll", "verl"] = "verl"
    divisor: float | None = Field(None, gt=0)
    clip_low: float | None = Field(None, ge=0, le=1)
    clip_high: float | None = Field(None, ge=1)


class DifficultyMask(Section):
    """Keeps the groups with low < mean reward < high."""

    low: float = 0.0
    high: float = 1.0


class SampleMasks(Section):
    """Samples whose tokens leave the loss, while their rewards stay in the group's baseline. `max_len_mask`: those cut
    off at their length limit, and those of at least `max_tokens`, if given. `error_max_len_clip`: those with a reward
    under 1 and at least so many tokens."""

    difficulty_mask: DifficultyMask | None = None
    max_len_mask: bool = False
    max_tokens: int | None = Field(None, ge=1, le=10**10)
    error_max_len_clip: int | None = Field(None, ge=1, le=10**10)
