"""The clipped policy gradient (Schulman et al. 2017, PPO), with clip-higher (Yu et al. 2025, DAPO), and the train-infer
correction before it, as a run's configuration asks for them. Any learner may call it, in either layout.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from pipeline.training.aggregation import divisor, summed
from pipeline.training.batches import SKIPPED, Batch
from pipeline.training.correction import correct
from pipeline.training.settings import Clip as Clip


def token_logprobs(logits: Tensor, input_ids: Tensor) -> Tensor:
    """Log-probability of each token by the logits of the one before; 0 for the first. [B, T, V], [B, T] -> [B, T]."""
    logprobs = logits[:, :-1].log_softmax(-1).gather(-1, input_ids[:, 1:, None]).squeeze(-1)
    return torch.nn.functional.pad(logprobs, (1, 0))


def corrected(batch: Batch, old_logprobs: Tensor) -> Batch:
    """The batch as the run's correction leaves it: a new response mask, token weights, what the loss is divided by,
    and metrics `correction_<name>`. Without a correction only `old_logprobs` is added.

    old_logprobs: like `batch.input_ids`, of the trainer's policy before its first step on this batch. Takes the whole
    batch, since the divisor is of all its rows: split it afterwards. Raises ValueError for a part.
    """
    settings, old = batch.settings, old_logprobs.detach()
    if settings.correction is None:
        return replace(batch, old_logprobs=old)
    mask = batch.in_rows(batch.response_mask)
    if int(mask.sum()) != batch.mask_tokens:
        raise ValueError("a part of a batch can't be corrected: correct the whole batch, then split it")
    found = correct(batch.in_rows(old), batch.in_rows(batch.rollout_logprobs), mask, settings.correction)
    counted = mask if settings.correction.denominator == "original" else found.mask
    what, by = divisor(counted.sum(1), 0, settings.aggregation)
    measured = {f"correction_{name}": value for name, value in found.metrics.items()}
    return replace(
        batch,
        response_mask=batch.from_rows(found.mask),
        old_logprobs=old,
        token_weights=batch.from_rows(found.weights),
        mask_tokens=int(found.mask.sum()),
        loss_divisor=by or 1.0,
        metrics={**batch.metrics, **measured, f"loss_divisor_{what}": by},
    )


def objective(
    batch: Batch, logprobs: Tensor, old_logprobs: Tensor | None = None, clip: Clip | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of -min(rho A, clip(rho) A), times the correction's weights, aggregated as the run asks; and means over
    the mask: `ratio`, `clip_fraction`, `kl`, detached. Those of the micro-batches of a batch add up to the whole's.

    logprobs: like `batch.input_ids`, float, with gradient. rho is against `old_logprobs`, else against the sampler's.
    old_logprobs: a whole batch's are corrected here, and the means come with what that measured, and with SKIPPED where
    it left nothing; a batch that is to be split goes through `corrected` first. What stands outside the mask never
    counts, NaN included; with nothing inside the loss is 0, and no step is to be taken.
    clip: the learner's own range, where the run has none. Raises ValueError for a correction without old_logprobs.
    """
    measured: dict[str, Tensor] = {}
    if old_logprobs is not None:
        batch = corrected(batch, old_logprobs)
        measured = _measured(batch)
    settings, mask = batch.settings, batch.response_mask
    if settings.correction is not None and batch.old_logprobs is None:
        raise ValueError(
            "the run has a correction, which needs the trainer's own log-probabilities: pass old_logprobs "
            "(logprobs.detach() where this is the only step on the batch)"
        )
    behind = batch.rollout_logprobs if batch.old_logprobs is None else batch.old_logprobs
    log_ratio = torch.where(mask, logprobs - behind, 0.0)
    ratio, range_ = log_ratio.exp(), settings.clip(clip or Clip())
    gain = batch.per_token(batch.advantages)
    unclipped, clipped = ratio * gain, ratio.clamp(range_.low, range_.high) * gain
    losses = -torch.minimum(unclipped, clipped)
    if batch.token_weights is not None:
        losses = losses * batch.token_weights
    config = settings.aggregation
    total = summed(batch.in_rows(losses), batch.in_rows(mask), config)
    with torch.no_grad():
        n = max(batch.mask_tokens, 1)
        statistics = {
            "ratio": torch.where(mask, ratio, 0.0).sum() / n,
            "clip_fraction": (mask & (clipped < unclipped)).sum() / n,
            "kl": torch.where(mask, ratio - 1.0 - log_ratio, 0.0).sum() / n,
        }
    return total * (config.ranks / batch.loss_divisor), statistics | measured


def _measured(batch: Batch) -> dict[str, Tensor]:
    """What a learner that corrects within its one step has to report besides: all that the correction measured."""
    if batch.settings.correction is None:
        return {}
    skipped = {SKIPPED: 1.0} if batch.empty else {}
    return {name: torch.tensor(value, dtype=torch.float64) for name, value in {**batch.metrics, **skipped}.items()}
