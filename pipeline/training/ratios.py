"""How far the trainer's log-probabilities are from the sampler's, by token, by segment and by row.

With m the mask, l the trainer's and q the sampler's log-probability, d = l − q and p = exp(l) − exp(q):

| level | ratio | diff |
|---|---|---|
| token | exp(d) | p |
| segment: a maximal run of ones in m | exp(mean of d over the run) | mean of p over the run |
| geometric | exp(Σmd / Σm) of the row | Σmp / Σm |
| sequence | exp(Σmd) of the row | Σmp |
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

Level = Literal["token", "segment", "geometric", "sequence"]
LEVELS: tuple[Level, ...] = ("token", "segment", "geometric", "sequence")


class Ratios:
    """Ratios and diffs of some rows at every level: [B, T], or [B, 1] where the whole row has one.

    Computed in float32, or float64 if an input is. Outside the mask, and in a row without a token, ratio is 1 and diff
    is 0, whatever the inputs hold there. A NaN inside the mask reaches its token, its segment and its row.
    """

    def __init__(self, train: Tensor, sampler: Tensor, mask: Tensor) -> None:
        dtype = torch.promote_types(torch.promote_types(train.dtype, sampler.dtype), torch.float32)
        zero = torch.zeros((), dtype=dtype, device=mask.device)
        ours, theirs = torch.where(mask, train.to(dtype), zero), torch.where(mask, sampler.to(dtype), zero)
        self.mask = mask
        self.log = ours - theirs
        self._gap = ours.exp_() - theirs.exp_()
        self._ratios: dict[Level, Tensor] = {}
        self._diffs: dict[Level, Tensor] = {}

    def ratio(self, level: Level) -> Tensor:
        """exp of d, of its mean or of its sum. Computed once."""
        if level not in self._ratios:
            self._ratios[level] = self._spread(self._aggregated(self.log, level).exp_(), level)
        return self._ratios[level]

    def diff(self, level: Level) -> Tensor:
        """p, its mean or its sum. It is signed. Computed once."""
        if level not in self._diffs:
            self._diffs[level] = self._spread(self._aggregated(self._gap, level), level)
        return self._diffs[level]

    @cached_property
    def tokens(self) -> Tensor:
        """[B, 1] int64: the mask's tokens of each row."""
        return self.mask.sum(1, keepdim=True)

    def _aggregated(self, values: Tensor, level: Level) -> Tensor:
        """A new tensor: [B, T], [B, S + 1] by segment or [B, 1]."""
        match level:
            case "token":
                return values.clone()
            case "segment":
                return self._by_segment(values) / self._lengths
            case "geometric":
                return values.sum(1, keepdim=True) / self.tokens.clamp(min=1)
            case "sequence":
                return values.sum(1, keepdim=True)

    def _spread(self, values: Tensor, level: Level) -> Tensor:
        """Each segment's value at its tokens."""
        return values.gather(1, self._segments) if level == "segment" else values

    @cached_property
    def _segments(self) -> Tensor:
        """[B, T] int64: each token's run, counted from 1 within its row; 0 outside the mask."""
        starts = self.mask.clone()
        starts[:, 1:] &= ~self.mask[:, :-1]
        return starts.cumsum(1).mul_(self.mask)

    @cached_property
    def _lengths(self) -> Tensor:
        """[B, S + 1]: the tokens of each run, at least 1."""
        return self._by_segment(self.mask.to(self.log.dtype)).clamp_(min=1)

    def _by_segment(self, values: Tensor) -> Tensor:
        """[B, S + 1]: sums over the runs; those outside the mask are 0 and land in the first."""
        runs = int(self._segments.amax()) if self._segments.numel() else 0
        return values.new_zeros(len(values), runs + 1).scatter_add_(1, self._segments, values)
