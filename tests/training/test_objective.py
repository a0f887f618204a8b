"""The objective as the configuration asks for it: the same in every layout and split, and nothing without a token."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pipeline.config import parse
from pipeline.training.aggregation import AggregationConfig, Impl, Mode, aggregate
from pipeline.training.batches import SKIPPED, Batch, Layout, Row
from pipeline.training.correction import CorrectionConfig, Denominator, Filter, correct
from pipeline.training.losses import Clip, corrected, objective
from pipeline.training.ratios import LEVELS, Level
from pipeline.training.sample_masks import SampleMaskConfig
from pipeline.training.settings import StepSettings, step_settings

from .conftest import built, ragged

Make = Callable[..., Batch]


def everything(level: Level = "token", denominator: Denominator = "corrected") -> CorrectionConfig:
    return CorrectionConfig((Filter(level, diff=True),), level, catastrophic=1e-3, denominator=denominator)


def shifted(batch: Batch, seed: int, size: float = 0.1) -> Tensor:
    """Log-probabilities near the sampler's, float64; each row's are the same in every layout."""
    width = max(batch.lengths)
    noise = torch.randn(len(batch.lengths), width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    padded = batch.in_rows(batch.rollout_logprobs.double()) + noise * size
    return batch.from_rows(padded)


@pytest.mark.parametrize("layout", get_args(Layout))
@pytest.mark.parametrize("budget", [20, 10_000])
@pytest.mark.parametrize("mode", get_args(Mode))
@pytest.mark.parametrize("impl", get_args(Impl))
@pytest.mark.parametrize("level", [None, "segment"])
def test_every_layout_and_split_gives_the_loss_and_gradient_of_the_plain_formula(
    layout: Layout, budget: int, mode: Mode, impl: Impl, level: Level | None, rows: list[Row]
) -> None:
    aggregation = AggregationConfig(mode, impl, norm=8.0)
    settings = StepSettings(everything(level) if level else None, aggregation)
    batch = built(rows, layout, settings=settings)
    old, new = shifted(batch, 1), shifted(batch, 2).requires_grad_()
    whole = corrected(batch, old) if level else batch
    seen = [part.old_logprobs for part in replace(batch, old_logprobs=new).micro_batches(budget)]
    parts = zip(whole.micro_batches(budget), seen, strict=True)
    loss = torch.stack([objective(part, values)[0] for part, values in parts if values is not None]).sum()
    expected = formula(built(rows, settings=settings), settings, batch.in_rows(old), batch.in_rows(new))
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=1e-12)
    found, wanted = (torch.autograd.grad(value, new, retain_graph=True)[0] for value in (loss, expected))
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)


def formula(batch: Batch, settings: StepSettings, old: Tensor, new: Tensor) -> Tensor:
    """Written out for padded rows."""
    mask, weights, tokens, rows = batch.response_mask, torch.ones(()), None, None
    if settings.correction is not None:
        found = correct(old, batch.rollout_logprobs, mask, settings.correction)
        mask, weights = found.mask, found.weights
    behind = old if settings.correction is not None else batch.rollout_logprobs
    ratio, gain = (new - behind).where(mask, torch.zeros(())).exp(), batch.advantages.unsqueeze(1)
    losses = -torch.minimum(ratio * gain, ratio.clamp(0.8, 1.28) * gain) * weights
    return aggregate(losses, mask, settings.aggregation, tokens=tokens, rows=rows)[0]


@pytest.mark.parametrize("denominator", get_args(Denominator))
@pytest.mark.parametrize("mode", ["token-mean", "seq-mean-token-sum"])
def test_the_divisor_is_of_the_corrected_mask_or_of_the_original_one(
    denominator: Denominator, mode: Mode, rows: list[Row]
) -> None:
    settings = StepSettings(everything(denominator=denominator), AggregationConfig(mode, "verl"))
    batch = built(rows, settings=settings)
    found = corrected(batch, shifted(batch, 3, size=0.4))
    assert 0 < found.mask_tokens == int(found.response_mask.sum()) < batch.mask_tokens
    counted = batch if denominator == "original" else found
    counts = counted.response_mask.sum(1)
    wanted = int(counts.sum()) if mode == "token-mean" else int(counts.count_nonzero())
    assert found.loss_divisor == wanted
    what = "tokens" if mode == "token-mean" else "rows_with_tokens"
    assert found.metrics[f"loss_divisor_{what}"] == wanted
    assert found.metrics[f"correction_denominator_{denominator}_tokens"] == int(counts.sum())
    assert found.metrics["correction_kept"] == pytest.approx(found.mask_tokens / batch.mask_tokens)


@pytest.mark.parametrize("left", [True, False])
def test_a_learner_of_one_pass_reports_what_the_trainer_asks_for(left: bool, rows: list[Row]) -> None:
    strict = CorrectionConfig((Filter("token", ratio_low=0.8 if left else 5.0, ratio_high=9.0),), "token")
    batch = built(rows, settings=StepSettings(strict, loss_is_set=True))
    new = shifted(batch, 6).requires_grad_()
    statistics = objective(batch, new, new.detach())[1]
    found = corrected(batch, new.detach())
    assert found.empty is not left
    assert {**found.metrics, **({} if left else {SKIPPED: 1.0})}.items() <= {
        n: float(v) for n, v in statistics.items()
    }.items()
    assert {"correction_kept", "clip_fraction"} <= statistics.keys()
    assert not any(value.requires_grad for value in statistics.values())


def test_nothing_is_changed_in_place(rows: list[Row]) -> None:
    batch = built(rows, settings=StepSettings(everything("segment")))
    old, new = shifted(batch, 4), shifted(batch, 5)
    tensors = [old, new, *(getattr(batch, name) for name in ("response_mask", "rollout_logprobs", "advantages"))]
    before = [tensor.clone() for tensor in tensors]
    found = corrected(batch, old)
    objective(found, new)
    assert all(map(torch.equal, tensors, before))
    assert found.token_weights is not None and not found.token_weights.requires_grad
    assert found.response_mask.data_ptr() != batch.response_mask.data_ptr()


@given(st.integers(0, 20), st.sampled_from(LEVELS), st.sampled_from(get_args(Layout)), st.data())
def test_what_stands_outside_the_mask_changes_no_bit_of_loss_gradient_and_metrics(
    seed: int, level: Level, layout: Layout, data: st.DataObject
) -> None:
    batch = built(ragged(seed=seed), layout, settings=StepSettings(everything(level)))
    odd = torch.tensor(data.draw(st.lists(st.sampled_from([math.nan, math.inf, -math.inf, 1e30]), min_size=5)))
    spoilt = odd[torch.arange(batch.input_ids.numel()) % len(odd)].view(batch.input_ids.shape)
    outcomes = []
    for dirty in (False, True):
        values = (shifted(batch, seed), batch.rollout_logprobs, shifted(batch, seed + 1))
        old, sampler, new = (spoilt.where(~batch.response_mask, v) if dirty else v for v in values)
        new = new.detach().requires_grad_()
        found = corrected(replace(batch, rollout_logprobs=sampler), old)
        loss, statistics = objective(found, new)
        (gradient,) = torch.autograd.grad(loss, new)
        outcomes.append(([loss, gradient, found.response_mask, *statistics.values()], found.metrics))
    (clean, metrics), (other, others) = outcomes
    assert metrics == others and all(map(torch.equal, clean, other))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")
@pytest.mark.parametrize("layout", get_args(Layout))
def test_an_accelerator_finds_the_same(layout: Layout, rows: list[Row]) -> None:
    settings = StepSettings(everything("segment"), AggregationConfig("seq-mean-token-mean", "roll"))
    outcomes = []
    for device in ("cpu", "cuda"):
        batch = built(rows, layout, settings=settings, device=device)
        old = batch.rollout_logprobs * 1.05
        loss, _ = objective(batch, old, old)
        outcomes.append((float(loss), corrected(batch, old).metrics))
    assert outcomes[1][0] == pytest.approx(outcomes[0][0]) and outcomes[1][1] == pytest.approx(outcomes[0][1])


def test_a_correction_without_the_trainers_log_probabilities_is_an_error(rows: list[Row]) -> None:
    batch = built(rows, settings=StepSettings(CorrectionConfig()))
    with pytest.raises(ValueError, match="pass old_logprobs"):
        objective(batch, batch.rollout_logprobs)


def test_a_part_of_a_batch_cannot_be_corrected(rows: list[Row]) -> None:
    batch = built(rows, settings=StepSettings(CorrectionConfig()))
    part = next(batch.micro_batches(20))
    with pytest.raises(ValueError, match="correct the whole batch, then split it"):
        objective(part, part.rollout_logprobs, part.rollout_logprobs)


def test_without_a_correction_the_ratio_is_against_the_log_probabilities_that_are_given(batch: Batch) -> None:
    old = batch.rollout_logprobs - 0.1
    _, against_sampler = objective(batch, batch.rollout_logprobs)
    _, against_old = objective(batch, batch.rollout_logprobs, old)
    assert float(against_sampler["ratio"]) == 1.0
    assert float(against_old["ratio"]) == pytest.approx(math.exp(0.1))


def test_a_batch_that_the_correction_empties_has_loss_and_gradient_zero(rows: list[Row]) -> None:
    batch = built(rows, settings=StepSettings(everything()))
    old = batch.rollout_logprobs - 5.0
    found, new = corrected(batch, old), old.clone().requires_grad_()
    loss, statistics = objective(found, new)
    loss.backward()  # type: ignore[no-untyped-call]
    assert found.empty and float(loss.detach()) == 0.0 and new.grad is not None and not new.grad.any()
    assert all(map(math.isfinite, [*found.metrics.values(), *map(float, statistics.values())]))


def test_the_clip_range_is_the_runs_where_it_has_one(batch: Batch) -> None:
    new = batch.rollout_logprobs + 0.2
    own = Clip(0.5, 1.1)
    assert torch.equal(*(objective(b, new, clip=own)[0] for b in (batch, replace(batch, settings=StepSettings()))))
    ours = replace(batch, settings=StepSettings(clip_high=2.0))
    assert torch.equal(objective(ours, new, clip=own)[0], objective(batch, new, clip=Clip(0.5, 2.0))[0])


def test_the_settings_are_those_of_the_configuration() -> None:
    plugin = {"factory": "somewhere:Something"}
    least = {
        "run": "r",
        "steps": 1,
        "prompts": plugin,
        "engine": plugin,
        "learner": plugin,
        "domains": {"a": {"quota": 1}},
    }
    assert step_settings(parse(least)) == StepSettings()
    rule = {"level": "segment", "ratio_low": 0.9, "diff_enabled": True, "diff_high": 0.1}
    asked = {
        "correction": {
            "filters": [rule],
            "weight": {"weight_type": "geometric", "upper": "none"},
            "catastrophic": 1e-3,
        },
        "loss": {"aggregation": "seq-mean-token-sum-norm", "impl": "roll", "divisor": 64, "clip_high": 1.4},
        "sample_masks": {
            "difficulty_mask": {"low": 0.1},
            "max_len_mask": True,
            "max_tokens": 9,
            "error_max_len_clip": 5,
        },
    }
    assert step_settings(parse({**least, **asked})) == StepSettings(
        CorrectionConfig((Filter("segment", True, 0.9, 1.2, True, -0.2, 0.1),), "geometric", 0.0, None, 1e-3),
        AggregationConfig("seq-mean-token-sum-norm", "roll", 64.0),
        SampleMaskConfig(True, 0.1, 1.0, True, 9, True, 5),
        None,
        1.4,
        True,
    )
