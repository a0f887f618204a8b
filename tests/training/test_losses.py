"""The loss against the same written token by token."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from pipeline.training.batches import Batch, Row
from pipeline.training.losses import Clip, objective, token_logprobs


def naive(logprobs: Tensor, batch: Batch, clip: Clip) -> float:
    total, count = 0.0, 0
    for row, column in batch.response_mask.nonzero().tolist():
        ratio = math.exp(logprobs[row, column] - batch.rollout_logprobs[row, column])
        gain = float(batch.advantages[row])
        held = min(max(ratio, clip.low), clip.high)
        total -= min(ratio * gain, held * gain)
        count += 1
    return total / count


@pytest.mark.parametrize("clip", [Clip(), Clip(0.5, 1.05)])
def test_the_loss_is_that_of_a_plain_loop(clip: Clip, batch: Batch) -> None:
    logprobs = batch.rollout_logprobs.double() + torch.randn(
        batch.input_ids.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64
    )
    loss, _ = objective(batch, logprobs, clip=clip)
    assert float(loss) == pytest.approx(naive(logprobs, batch, clip), rel=1e-9)


def test_on_policy_nothing_is_clipped_and_the_ratio_is_one(batch: Batch) -> None:
    _, stats = objective(batch, batch.rollout_logprobs)
    assert {name: float(value) for name, value in stats.items()} == {"ratio": 1.0, "clip_fraction": 0.0, "kl": 0.0}


def test_the_statistics_are_means_over_the_mask(batch: Batch) -> None:
    noise = torch.randn(batch.input_ids.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    _, stats = objective(batch, batch.rollout_logprobs.double() + noise, clip=Clip())
    inside = [(float(noise[row, at]), float(batch.advantages[row])) for row, at in batch.response_mask.nonzero()]
    clipped = [d for d, gain in inside if (math.exp(d) > 1.28 and gain > 0) or (math.exp(d) < 0.8 and gain < 0)]
    assert {name: float(value) for name, value in stats.items()} == pytest.approx({
        "ratio": math.fsum(math.exp(d) for d, _ in inside) / len(inside),
        "clip_fraction": len(clipped) / len(inside),
        "kl": math.fsum(math.exp(d) - 1.0 - d for d, _ in inside) / len(inside),
    })  # fmt: skip


def test_what_stands_outside_the_mask_never_counts(batch: Batch) -> None:
    clean = (batch.rollout_logprobs * 0.9).requires_grad_()
    dirty = clean.detach().where(batch.response_mask, math.nan).requires_grad_()
    losses = [objective(batch, logprobs)[0] for logprobs in (clean, dirty)]
    assert torch.equal(*losses)
    for loss in losses:
        loss.backward()
    assert clean.grad is not None and dirty.grad is not None
    assert torch.equal(clean.grad, dirty.grad) and not dirty.grad[~batch.response_mask].any()


def test_a_token_clipped_against_its_gain_has_no_gradient(batch: Batch) -> None:
    logprobs = (batch.rollout_logprobs + 1.0).requires_grad_()
    objective(batch, logprobs)[0].backward()
    assert logprobs.grad is not None
    won = batch.response_mask & (batch.advantages > 0).unsqueeze(1)
    lost = batch.response_mask & (batch.advantages < 0).unsqueeze(1)
    assert not logprobs.grad[won].any() and logprobs.grad[lost].all()


def test_a_batch_of_empty_responses_has_loss_zero(rows: list[Row], make: Callable[..., Batch]) -> None:
    batch = make([replace(row, response_ids=b"", logprobs=b"", loss_mask=None) for row in rows])
    assert batch.empty and float(objective(batch, batch.rollout_logprobs)[0]) == 0.0


def test_token_logprobs_stand_at_the_token_that_they_are_of() -> None:
    logits, ids = torch.randn(2, 5, 13, generator=torch.Generator().manual_seed(0)), torch.tensor([[1, 2, 3, 4, 5]] * 2)
    logprobs = token_logprobs(logits, ids)
    assert logprobs.shape == ids.shape and not logprobs[:, 0].any()
    assert torch.equal(logprobs[1, 3], logits[1, 2].log_softmax(-1)[4])
