"""The clipped policy gradient (Schulman et al. 2017, PPO), with token mean and clip-higher (Yu et al. 2025, DAPO)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pipeline.training.batches import Batch


@dataclass(frozen=True, slots=True)
class Clip:
    """The importance ratio is held in [low, high] where that lowers the gain."""

    low: float = 0.8
    high: float = 1.28


def token_logprobs(logits: Tensor, input_ids: Tensor) -> Tensor:
    """Log-probability of each token by the logits of the one before; 0 for the first. [B, T, V], [B, T] -> [B, T]."""
    logprobs = logits[:, :-1].log_softmax(-1).gather(-1, input_ids[:, 1:, None]).squeeze(-1)
    return torch.nn.functional.pad(logprobs, (1, 0))


def grpo_loss(
    logprobs: Tensor, batch: Batch, *, response_tokens: int, clip: Clip | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    """-min(rho A, clip(rho) A) * weight * loss_scale, summed over the response mask, over `response_tokens`.

    logprobs: like `batch.input_ids`, float, with gradient; what stands outside the mask never counts, NaN included.
    response_tokens: those of the whole batch of which `batch` may be a part. The statistics, detached, are sums over
    the mask divided by the same number, so those of the parts add up.
    """
    clip, mask, divisor = clip or Clip(), batch.response_mask, max(response_tokens, 1)
    log_ratio = torch.where(mask, logprobs - batch.rollout_logprobs, 0.0)
    ratio = log_ratio.exp()
    gain = batch.per_token(batch.advantages)
    unclipped, clipped = ratio * gain, ratio.clamp(clip.low, clip.high) * gain
    weighted = torch.minimum(unclipped, clipped) * batch.per_token(batch.weights)
    loss = -torch.where(mask, weighted, 0.0).sum() * batch.loss_scale / divisor
    with torch.no_grad():
        statistics = {
            "ratio": torch.where(mask, ratio, 0.0).sum() / divisor,
            "clip_fraction": (mask & (clipped < unclipped)).sum() / divisor,
            "kl": torch.where(mask, ratio - 1.0 - log_ratio, 0.0).sum() / divisor,
        }
    return loss, statistics
