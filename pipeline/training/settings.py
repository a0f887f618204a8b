"""What a run's configuration says of the training step, in the words of the functions that do it."""

from __future__ import annotations

from dataclasses import dataclass, field

from pipeline.config import DecisionConfig
from pipeline.config.training import Correction, Loss, SampleMasks
from pipeline.training.aggregation import AggregationConfig
from pipeline.training.correction import CorrectionConfig, Filter
from pipeline.training.sample_masks import SampleMaskConfig


@dataclass(frozen=True, slots=True)
class Clip:
    """The policy ratio is held in [low, high] where that lowers the gain."""

    low: float = 0.8
    high: float = 1.28


@dataclass(frozen=True, slots=True)
class StepSettings:
    """correction: None is off. clip_low, clip_high: None is the learner's own. loss_is_set: whether the run asks for
    an aggregation, which every learner has to obey then."""

    correction: CorrectionConfig | None = None
    aggregation: AggregationConfig = field(default_factory=AggregationConfig)
    sample_masks: SampleMaskConfig = field(default_factory=SampleMaskConfig)
    clip_low: float | None = None
    clip_high: float | None = None
    loss_is_set: bool = False

    def clip(self, own: Clip) -> Clip:
        """The range of the policy ratio, given the learner's own."""
        low = own.low if self.clip_low is None else self.clip_low
        return Clip(low, own.high if self.clip_high is None else self.clip_high)


def step_settings(config: DecisionConfig) -> StepSettings:
    """Those of a run."""
    loss = config.loss or Loss()
    return StepSettings(
        correction=None if config.correction is None else _correction(config.correction),
        aggregation=AggregationConfig(loss.aggregation, loss.impl, loss.divisor),
        sample_masks=SampleMaskConfig() if config.sample_masks is None else _masks(config.sample_masks),
        clip_low=loss.clip_low,
        clip_high=loss.clip_high,
        loss_is_set=config.loss is not None,
    )


def _correction(asked: Correction) -> CorrectionConfig:
    weight = asked.weight
    filters = [
        Filter(f.level, f.ratio_enabled, f.ratio_low, f.ratio_high, f.diff_enabled, f.diff_low, f.diff_high)
        for f in asked.filters
    ]
    return CorrectionConfig(
        filters=tuple(filters),
        weight_level=weight.weight_type if weight else None,
        weight_lower=weight.lower if weight else 0.0,
        weight_upper=None if weight is None or weight.upper == "none" else weight.upper,
        catastrophic=asked.catastrophic,
        denominator=asked.denominator,
    )


def _masks(asked: SampleMasks) -> SampleMaskConfig:
    band, error = asked.difficulty_mask, asked.error_max_len_clip
    return SampleMaskConfig(
        difficulty=band is not None,
        difficulty_low=band.low if band else 0.0,
        difficulty_high=band.high if band else 1.0,
        max_len=asked.max_len_mask,
        max_tokens=asked.max_tokens,
        error_max_len=error is not None,
        error_tokens=error or 0,
    )
