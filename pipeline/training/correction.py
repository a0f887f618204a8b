"""Train-infer correction: which tokens sampler and trainer see too differently, and what the others weigh.

A sampling engine's log-probabilities differ from the trainer's for the same weights: other kernels, precision, age.
Masks only: no row is dropped, no sample asked for again. Levels and bounds are ROLL's (docs/compatibility.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from pipeline.training.ratios import LEVELS, Level, Ratios

Denominator = Literal["corrected", "original"]
Sums = dict[str, tuple[Tensor, Tensor]]
"""By metric: a sum and what to divide it by, so that those of two parts of a batch can be added."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Keep a token whose ratio and signed diff, at a level, lie within bounds (inclusive), each if enabled."""

    level: Level = "token"
    ratio: bool = True
    ratio_low: float = 0.8
    ratio_high: float = 1.2
    diff: bool = False
    diff_low: float = -0.2
    diff_high: float = 0.2


@dataclass(frozen=True, slots=True)
class CorrectionConfig:
    """filters: each judges by the original mask, all must keep a token. weight_level: of the ratio that is the weight,
    held in [weight_lower, weight_upper] (None: unbounded); None: every weight is 1. catastrophic: mask a row whose
    sequence ratio is below it, such as 1e-3. denominator: the mask whose tokens and rows the loss is divided by.
    report: the levels whose ratio and diff are measured. ValueError for an unknown level or denominator.
    """

    filters: tuple[Filter, ...] = ()
    weight_level: Level | None = None
    weight_lower: float = 0.0
    weight_upper: float | None = 1.2
    catastrophic: float | None = None
    denominator: Denominator = "corrected"
    report: tuple[Level, ...] = LEVELS

    def __post_init__(self) -> None:
        for level in (*self.report, *(f.level for f in self.filters), self.weight_level or "token"):
            if level not in LEVELS:
                raise ValueError(f"{level!r} is none of {', '.join(LEVELS)}")
        if self.denominator not in get_args(Denominator):
            raise ValueError(f"{self.denominator!r} is none of {', '.join(get_args(Denominator))}")


@dataclass(frozen=True, slots=True)
class Correction:
    """New tensors, detached, on the device of the inputs, which stay as they are."""

    mask: Tensor
    """[B, T] bool: the original mask less what a filter, the tier or a NaN took out."""
    weights: Tensor
    """[B, T] float32 (float64 if an input is): within the bounds; 0 where the ratio is NaN."""
    tokens: int
    """The loss's denominator in tokens, at least 1."""
    samples: int
    """The loss's denominator in rows that have a token, at least 1."""
    metrics: dict[str, float]
    """See `correct`."""


def correct(
    train: Tensor | None,
    sampler: Tensor | None,
    mask: Tensor,
    config: CorrectionConfig | None,
    *,
    tokens_at_once: int = 1 << 20,
) -> Correction:
    """Judge and weigh each token. train, sampler: log-probabilities [B, T], float; mask [B, T]: 1 on response tokens.
    config: None is off, which needs no log-probabilities: the mask stays, every weight is 1.

    Rows are taken `tokens_at_once` (padding counts), to bound the memory; that changes no token's verdict. Metrics, as
    means over the original mask and over finite values: `ratio_<level>` and `diff_<level>` (over a row, then over the
    rows), `kept`, `kept_<i>_<level>_<ratio|diff>` for filter i, `kept_catastrophic`, `weight`, `weight_clipped`.
    `unweighable_tokens` counts those of the mask without a finite log-ratio. `denominator_*` repeat what to divide by.
    Raises ValueError when log-probabilities are missing: a silent weight of 1 would hide it.
    """
    if config is None:
        return _result(mask.bool(), mask.bool().clone(), torch.ones(mask.shape, device=mask.device), {}, "original")
    if train is None or sampler is None:
        raise ValueError(f"the correction needs log-probabilities of the {'trainer' if train is None else 'sampler'}")
    if mask.ndim != 2 or not train.shape == sampler.shape == mask.shape:
        raise ValueError(f"shapes differ: {tuple(train.shape)}, {tuple(sampler.shape)}, mask {tuple(mask.shape)}")
    rows, kept, weights, sums = max(1, tokens_at_once // max(mask.shape[1], 1)), [], [], Sums()
    with torch.no_grad():
        for first in range(0, max(len(mask), 1), rows):
            part = slice(first, first + rows)
            ratios = Ratios(train[part], sampler[part], mask[part].bool())
            weights.append(_weights(ratios, config))
            kept.append(ratios.mask & ~ratios.log.isnan() & ~weights[-1].isnan())
            for name, keeps in _verdicts(ratios, config):
                _add(sums, name, _over(ratios.mask, keeps))
                kept[-1] &= keeps
            _measure(sums, ratios, weights[-1], kept[-1], config)
    final_weights = torch.cat(weights).nan_to_num_(nan=0.0, posinf=torch.inf)
    return _result(mask.bool(), torch.cat(kept), final_weights, sums, config.denominator)


def _weights(ratios: Ratios, config: CorrectionConfig) -> Tensor:
    """[B, T]; NaN where the ratio is."""
    if config.weight_level is None:
        return torch.ones_like(ratios.log)
    ratio = ratios.ratio(config.weight_level).clamp(config.weight_lower, config.weight_upper)
    return ratio.expand_as(ratios.log)


def _verdicts(ratios: Ratios, config: CorrectionConfig) -> Iterator[tuple[str, Tensor]]:
    """Each comparison, [B, T] or [B, 1] bool, by its metric's name. A NaN is never kept."""
    for index, rule in enumerate(config.filters):
        if rule.ratio:
            ratio = ratios.ratio(rule.level)
            yield f"kept_{index}_{rule.level}_ratio", (ratio >= rule.ratio_low) & (ratio <= rule.ratio_high)
        if rule.diff:
            diff = ratios.diff(rule.level)
            yield f"kept_{index}_{rule.level}_diff", (diff >= rule.diff_low) & (diff <= rule.diff_high)
    if config.catastrophic is not None:
        yield "kept_catastrophic", ratios.ratio("sequence") >= config.catastrophic


def _measure(sums: Sums, ratios: Ratios, weights: Tensor, kept: Tensor, config: CorrectionConfig) -> None:
    """Add what some rows contribute to the metrics."""
    for level in config.report:
        _add(sums, f"ratio_{level}", _row_means(ratios.mask, ratios.ratio(level)))
        _add(sums, f"diff_{level}", _row_means(ratios.mask, ratios.diff(level)))
    if config.weight_level is not None:
        ratio = ratios.ratio(config.weight_level)
        _add(sums, "weight", _over(ratios.mask & weights.isfinite(), weights))
        _add(sums, "weight_clipped", _over(ratios.mask & ~ratio.isnan(), ratio != weights))
    _add(sums, "kept", _over(ratios.mask, kept))
    _add(sums, "unweighable", _over(ratios.mask, ~ratios.log.isfinite()))


def _add(sums: Sums, name: str, more: tuple[Tensor, Tensor]) -> None:
    before = sums.get(name)
    sums[name] = more if before is None else (before[0] + more[0], before[1] + more[1])


def _over(mask: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """The sum of values over a mask, and the mask's."""
    if values.dtype == torch.bool:
        return (mask & values).count_nonzero(), mask.count_nonzero()
    return torch.where(mask, values, 0.0).sum(dtype=torch.float64), mask.count_nonzero()


def _row_means(mask: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """The sum over the rows of a row's mean, and the number of rows that have one."""
    counted = (mask if values.shape == mask.shape else mask.any(1, keepdim=True)) & values.isfinite()
    n = counted.sum(1)
    totals = torch.where(counted, values, 0.0).sum(1, dtype=torch.float64)
    return (totals / n.clamp(min=1)).sum(), n.count_nonzero()


def _result(mask: Tensor, kept: Tensor, weights: Tensor, sums: Sums, denominator: Denominator) -> Correction:
    counted = kept if denominator == "corrected" else mask
    tokens, samples = max(int(counted.count_nonzero()), 1), max(int(counted.any(1).sum()), 1)
    metrics = {name: float(total) / max(float(n), 1.0) for name, (total, n) in sums.items()}
    if "unweighable" in sums:
        metrics["unweighable_tokens"] = float(sums["unweighable"][0])
    metrics[f"denominator_{denominator}_tokens"] = float(tokens)
    metrics[f"denominator_{denominator}_samples"] = float(samples)
    return Correction(kept, weights, tokens, samples, metrics)
