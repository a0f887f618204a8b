"""What must hold within the settings of the training step."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.config.errors import Path, Problem
from pipeline.config.models import DecisionConfig


def _correction(config: DecisionConfig) -> Iterator[Problem]:
    if config.correction is None:
        return
    for place, rule in enumerate(config.correction.filters):
        at: Path = ("correction", "filters", place)
        yield from _ordered(at, ("ratio_low", rule.ratio_low), ("ratio_high", rule.ratio_high))
        yield from _ordered(at, ("diff_low", rule.diff_low), ("diff_high", rule.diff_high))
    weight = config.correction.weight
    if weight is not None and weight.upper != "none":
        yield from _ordered(("correction", "weight"), ("lower", weight.lower), ("upper", weight.upper))


def _loss(config: DecisionConfig) -> Iterator[Problem]:
    loss = config.loss
    if loss is None:
        return
    normed, at = loss.aggregation == "seq-mean-token-sum-norm", ("loss", "divisor")
    if normed and loss.divisor is None:
        message = (
            "is missing; seq-mean-token-sum-norm divides by it: write a number of tokens, such as the longest answer"
        )
        yield Problem("no_divisor", at, message)
    if loss.divisor is not None and not normed:
        message = (
            f"is {loss.divisor:g}, but {loss.aggregation} divides by what it counts: remove it, or write "
            "aggregation: seq-mean-token-sum-norm"
        )
        yield Problem("divisor_unused", at, message)


def _sample_masks(config: DecisionConfig) -> Iterator[Problem]:
    masks = config.sample_masks
    if masks is None:
        return
    if (band := masks.difficulty_mask) is not None and not band.low < band.high:
        message = (
            f"is {band.low:g}; expected less than high, {band.high:g}: no mean lies between them; swap or widen them"
        )
        yield Problem("bounds_reversed", ("sample_masks", "difficulty_mask", "low"), message)
    if masks.max_tokens is not None and not masks.max_len_mask:
        message = f"is {masks.max_tokens}, but nothing asks for it: write max_len_mask: true, or remove it"
        yield Problem("max_tokens_unused", ("sample_masks", "max_tokens"), message)


def _ordered(at: Path, low: tuple[str, float], high: tuple[str, float]) -> Iterator[Problem]:
    """Bounds of which both are kept."""
    if low[1] > high[1]:
        message = f"is {low[1]:g}; expected at most {high[0]}, {high[1]:g}: swap the two, or raise {high[0]}"
        yield Problem("bounds_reversed", (*at, low[0]), message)


def does_nothing(config: DecisionConfig) -> Iterator[Problem]:
    """Correction filters with both parts off: a caution."""
    for place, rule in enumerate(config.correction.filters if config.correction else ()):
        if not (rule.ratio_enabled or rule.diff_enabled):
            message = "it masks no token: ratio_enabled and diff_enabled are false; set one to true, or remove it"
            yield Problem("never_rejects", ("correction", "filters", place), message)


TRAINING_CHECKS = (_correction, _loss, _sample_masks)
