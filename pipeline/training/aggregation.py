"""From a loss for each token to one number, by the conventions of ROLL and of verl."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

Mode = Literal["token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"]
Impl = Literal["roll", "verl"]


@dataclass(frozen=True, slots=True)
class AggregationConfig:
    """token-mean: over the tokens. seq-mean-token-sum, -mean: rows are summed or averaged, then averaged over all rows
    (roll) or over those that have a token (verl). seq-mean-token-sum-norm: the sum over the row length T, or over
    `norm`. ranks: the value is multiplied by it, where gradients are averaged over so many (verl's dp_size).
    """

    mode: Mode = "token-mean"
    impl: Impl = "verl"
    norm: float | None = None
    ranks: int = 1

    def __post_init__(self) -> None:
        for word, known in ((self.mode, Mode), (self.impl, Impl)):
            if word not in get_args(known):
                raise ValueError(f"{word!r} is none of {', '.join(get_args(known))}")


def aggregate(
    losses: Tensor,
    mask: Tensor,
    config: AggregationConfig,
    *,
    tokens: int | None = None,
    rows: int | None = None,
    row_weights: Tensor | None = None,
) -> tuple[Tensor, dict[str, float]]:
    """The loss, and `divisor_<what>`: what it was divided by. losses: [B, T]; mask: [B, T], 1 on what counts.

    What stands outside the mask never counts, NaN included, in the value and in the gradient. tokens, rows: of the
    whole batch of which this may be a part, instead of those found here. row_weights: [B], a factor for each row. With
    nothing to divide by the loss is NaN: such a step is to be skipped.
    """
    total = summed(losses, mask, config, row_weights)
    what, by = divisor(mask.bool().sum(1), mask.shape[1], config, tokens, rows)
    return total * (config.ranks / by if by else torch.nan), {f"divisor_{what}": by}


def summed(losses: Tensor, mask: Tensor, config: AggregationConfig, row_weights: Tensor | None = None) -> Tensor:
    """What is to be divided by `divisor`: those of the parts of a batch add up to that of the whole."""
    losses = torch.where(mask.bool(), losses, 0.0)
    if row_weights is not None:
        losses = losses * row_weights.unsqueeze(1)
    sums = losses.sum(1)
    if config.mode == "seq-mean-token-mean":
        sums = sums / mask.bool().sum(1).clamp(min=1)
    return sums.sum()


def divisor(
    counts: Tensor, width: int, config: AggregationConfig, tokens: int | None = None, rows: int | None = None
) -> tuple[str, float]:
    """What the sum is divided by, and how many that are. counts: [B], the mask's tokens of each row; width: the T of
    which seq-mean-token-sum-norm takes the place of a norm."""
    match config.mode:
        case "token-mean":
            return "tokens", float(counts.sum() if tokens is None else tokens)
        case "seq-mean-token-sum-norm":
            return "norm", float(width) if config.norm is None else config.norm
    if rows is not None:
        return "rows_given", float(rows)
    if config.impl == "roll":
        return "all_rows", float(len(counts))
    return "rows_with_tokens", float(counts.count_nonzero())
