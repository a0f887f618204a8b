"""ROLL's masks on whole samples: their tokens leave the loss, their rewards stay in the group's baseline."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pipeline.domain.grouping import mean


@dataclass(frozen=True, slots=True)
class SampleMaskConfig:
    """Each switch masks samples; all are off.

    difficulty: those of a group whose mean score isn't strictly between the bounds. max_len: those cut off at their
    limit, and those of at least `max_tokens`, if that is given. error_max_len: those with a score under 1 and at least
    `error_tokens` tokens.
    """

    difficulty: bool = False
    difficulty_low: float = 0.0
    difficulty_high: float = 1.0
    max_len: bool = False
    max_tokens: int | None = None
    error_max_len: bool = False
    error_tokens: int = 9_999_999_999


@dataclass(frozen=True, slots=True)
class SampleMask:
    """kept: of each sample, whether its tokens count. shares: kept by each mask alone, 1.0 where it is off."""

    kept: tuple[bool, ...]
    shares: dict[str, float]

    @property
    def empty(self) -> bool:
        """Whether no sample is left: the step has nothing to learn from and is skipped."""
        return not any(self.kept)

    def on(self, mask: Tensor) -> Tensor:
        """A new response mask, [B, T] as given, without the tokens of masked samples."""
        return mask * torch.tensor(self.kept, dtype=mask.dtype, device=mask.device).unsqueeze(1)


def difficulty_mask(
    scores: Sequence[float], groups: Sequence[Hashable], low: float = 0.1, high: float = 0.95
) -> list[bool]:
    """Of each sample, whether low < mean score of its group < high; always in a group of one, which can't tell how
    difficult the prompt is, and never where the mean is not finite.
    """
    members: dict[Hashable, list[float]] = {}
    for score, group in zip(scores, groups, strict=True):
        members.setdefault(group, []).append(score)
    kept = {group: len(values) == 1 or low < mean(values) < high for group, values in members.items()}
    return [kept[group] for group in groups]


def sample_mask(
    lengths: Sequence[int],
    scores: Sequence[float],
    groups: Sequence[Hashable],
    config: SampleMaskConfig,
    truncated: Sequence[bool] | None = None,
) -> SampleMask:
    """The masks that are on, together. lengths: response tokens; truncated: which were cut off, if any."""
    everything = [True] * len(lengths)
    limit = math.inf if config.max_tokens is None else config.max_tokens
    cut = truncated or [False] * len(lengths)
    masks = {
        "max_len": [n < limit and not c for n, c in zip(lengths, cut, strict=True)] if config.max_len else everything,
        "difficulty": difficulty_mask(scores, groups, config.difficulty_low, config.difficulty_high)
        if config.difficulty
        else everything,
        "error_max_len": [s >= 1.0 or n < config.error_tokens for s, n in zip(scores, lengths, strict=True)]
        if config.error_max_len
        else everything,
    }
    kept = tuple(map(all, zip(*masks.values(), strict=True)))
    shares = {name: mask.count(True) / max(len(mask), 1) for name, mask in (masks | {"final": [*kept]}).items()}
    return SampleMask(kept, shares)
