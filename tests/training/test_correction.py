"""The correction against plain loops, on what must not reach it, and on log-probabilities that are no numbers."""

import math
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pipeline.training.correction import Correction, CorrectionConfig, Filter, correct
from pipeline.training.ratios import LEVELS, Level, Ratios

NAN, INF = math.nan, math.inf
ODD = (NAN, INF, -INF, 1e30, 0.0, -0.2)


def drawn(seed: int, rows: int = 5, width: int = 9) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probabilities of trainer and sampler, and a mask with holes; the first row has none of its tokens."""
    generator = torch.Generator().manual_seed(seed)
    train = -torch.rand(rows, width, generator=generator) * 2
    sampler = train + torch.randn(rows, width, generator=generator) * 0.2
    mask = torch.rand(rows, width, generator=generator) < 0.7
    mask[0] = False
    return train, sampler, mask


def everything(level: Level = "token", **options: Any) -> CorrectionConfig:
    """A filter with both parts, weights and the tier, at a level."""
    rule = Filter(level, diff=True, **options)
    return CorrectionConfig((rule,), weight_level=level, catastrophic=1e-3)


def same(one: Correction, other: Correction) -> bool:
    """Bit for bit."""
    return (
        torch.equal(one.mask, other.mask)
        and torch.equal(one.weights, other.weights)
        and (one.tokens, one.samples, one.metrics) == (other.tokens, other.samples, other.metrics)
    )


def runs(mask: list[bool]) -> list[list[int]]:
    """Positions of each maximal run of ones."""
    found: list[list[int]] = []
    for at, counted in enumerate(mask):
        if counted and at and mask[at - 1]:
            found[-1].append(at)
        elif counted:
            found.append([at])
    return found


def naive(train: list[float], sampler: list[float], mask: list[bool], level: Level) -> dict[int, tuple[float, float]]:
    """Ratio and diff at each token of the mask, by a loop."""
    inside = [at for at, counted in enumerate(mask) if counted]
    spans = {"token": [[at] for at in inside], "segment": runs(mask)}.get(level, [inside])
    found = {}
    for span in spans:
        d = math.fsum(train[t] - sampler[t] for t in span)
        p = math.fsum(math.exp(train[t]) - math.exp(sampler[t]) for t in span)
        n = 1 if level == "sequence" else max(len(span), 1)
        found |= {at: (math.exp(d / n), p / n) for at in span}
    return found


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("seed", range(5))
def test_ratio_diff_verdict_and_weight_are_those_of_a_loop(level: Level, seed: int) -> None:
    train, sampler, mask = (t.double() if t.is_floating_point() else t for t in drawn(seed))
    found, ratios = correct(train, sampler, mask, everything(level)), Ratios(train, sampler, mask)
    ratio, diff = (values.expand_as(train) for values in (ratios.ratio(level), ratios.diff(level)))
    for row in range(len(mask)):
        expected = naive(train[row].tolist(), sampler[row].tolist(), mask[row].tolist(), level)
        for at, (r, p) in expected.items():
            assert (float(ratio[row, at]), float(diff[row, at])) == (pytest.approx(r), pytest.approx(p))
            assert bool(found.mask[row, at]) == (0.8 <= r <= 1.2 and -0.2 <= p <= 0.2)
            assert float(found.weights[row, at]) == pytest.approx(min(r, 1.2))
    assert not (found.mask & ~mask).any()


@given(st.integers(0, 20), st.sampled_from(LEVELS), st.data())
@settings(max_examples=150)
def test_what_stands_outside_the_mask_changes_nothing(seed: int, level: Level, data: st.DataObject) -> None:
    train, sampler, mask = drawn(seed)
    odd = st.lists(st.sampled_from(ODD), min_size=mask.numel(), max_size=mask.numel())
    dirty = [torch.tensor(data.draw(odd)).view_as(mask) for _ in range(2)]
    spoilt = [torch.where(mask, clean, other) for clean, other in zip((train, sampler), dirty, strict=True)]
    assert same(correct(train, sampler, mask, everything(level)), correct(*spoilt, mask, everything(level)))


@given(st.integers(0, 50), st.sampled_from(LEVELS), st.permutations(range(5)), st.integers(1, 60))
def test_rows_know_nothing_of_each_other(seed: int, level: Level, order: list[int], at_once: int) -> None:
    train, sampler, mask = drawn(seed)
    whole = correct(train, sampler, mask, everything(level))
    mixed = correct(train[order], sampler[order], mask[order], everything(level), tokens_at_once=at_once)
    assert torch.equal(mixed.mask, whole.mask[order]) and torch.equal(mixed.weights, whole.weights[order])
    assert mixed.metrics == pytest.approx(whole.metrics)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("odd", [NAN, -INF])
def test_a_token_that_nobody_can_weigh_leaves_the_loss_and_is_counted(level: Level, odd: float) -> None:
    train, sampler = torch.full((1, 3), -0.2), torch.tensor([[-0.2, odd, -0.2]])
    config = CorrectionConfig((Filter(level),), weight_level="token")
    found = correct(train, sampler, torch.ones(1, 3), config)
    assert found.mask.tolist() == [[True, False, True] if level == "token" else [False] * 3]
    assert bool(found.weights.isfinite().all()) and bool((found.weights <= 1.2).all())
    assert all(map(math.isfinite, found.metrics.values()))
    assert found.metrics["unweighable_tokens"] == 1.0
    hole = torch.tensor([[1, 0, 1]])
    assert same(correct(train, sampler, hole, config), correct(train, train, hole, config))


@pytest.mark.parametrize("level", LEVELS)
def test_a_nan_leaves_the_loss_without_any_filter_too(level: Level) -> None:
    train, sampler = torch.full((2, 3), -0.2), torch.tensor([[-0.2, NAN, -0.2], [-0.2, -0.2, -0.2]])
    found = correct(train, sampler, torch.ones(2, 3), CorrectionConfig(weight_level=level))
    left = [True, False, True] if level == "token" else [False] * 3
    assert found.mask.tolist() == [left, [True] * 3]
    assert float(found.weights[0, 1]) == 0.0


@pytest.mark.parametrize("missing", ["trainer", "sampler"])
def test_missing_log_probabilities_are_an_error(missing: str) -> None:
    there = torch.zeros(1, 2)
    train, sampler = (None, there) if missing == "trainer" else (there, None)
    with pytest.raises(ValueError, match=missing):
        correct(train, sampler, torch.ones(1, 2), CorrectionConfig())


def test_off_it_needs_none_and_leaves_all_as_it_is() -> None:
    mask = torch.tensor([[1, 0, 1]])
    found = correct(None, None, mask, None)
    assert found.mask.tolist() == [[True, False, True]] and found.weights.tolist() == [[1.0] * 3]
    assert (found.tokens, found.samples) == (2, 1) and "unweighable_tokens" not in found.metrics


def test_shapes_that_differ_are_an_error() -> None:
    with pytest.raises(ValueError, match="shapes"):
        correct(torch.zeros(1, 2), torch.zeros(1, 3), torch.ones(1, 2), CorrectionConfig())


def test_several_filters_judge_by_the_original_mask_and_must_agree() -> None:
    train, sampler, mask = drawn(3)
    rules = (Filter("token"), Filter("segment", ratio_low=0.9, ratio_high=1.1), Filter("token", True, 0.95, 1.05))
    alone = [correct(train, sampler, mask, CorrectionConfig((rule,))) for rule in rules]
    together = correct(train, sampler, mask, CorrectionConfig(rules))
    assert torch.equal(together.mask, alone[0].mask & alone[1].mask & alone[2].mask)
    names = ("kept_0_token_ratio", "kept_1_segment_ratio", "kept_2_token_ratio")
    assert [together.metrics[name] for name in names] == [found.metrics["kept"] for found in alone]


def test_a_catastrophic_row_is_masked_whole() -> None:
    train, sampler = torch.tensor([[-4.0, -4.0], [-3.0, -3.0], [-1.0, -1.0]]), torch.zeros(3, 2)
    found = correct(train, sampler, torch.ones(3, 2), CorrectionConfig(catastrophic=1e-3))
    assert found.mask.tolist() == [[False] * 2, [True] * 2, [True] * 2]
    assert found.metrics["kept_catastrophic"] == found.metrics["kept"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("level", LEVELS)
def test_a_row_without_a_token_has_ratio_one_and_diff_zero(level: Level) -> None:
    odd = torch.full((1, 4), NAN)
    ratios = Ratios(odd, odd, torch.zeros(1, 4, dtype=torch.bool))
    assert ratios.ratio(level).unique().tolist() == [1.0] and ratios.diff(level).unique().tolist() == [0.0]


@pytest.mark.parametrize("shape", [(0, 0), (0, 4), (3, 0)])
def test_a_batch_without_a_token_is_none_to_correct(shape: tuple[int, int]) -> None:
    found = correct(torch.zeros(shape), torch.zeros(shape), torch.ones(shape), everything("segment"))
    assert found.mask.shape == found.weights.shape == shape
    assert (found.tokens, found.samples, found.metrics["kept"]) == (1, 1, 0.0)


def test_the_bounds_are_inclusive() -> None:
    train, sampler = torch.tensor([[-0.75]]), torch.tensor([[-1.0]])
    ratio, diff = float((train - sampler).exp()), float(train.exp() - sampler.exp())
    for rule in (
        Filter(ratio_low=ratio, ratio_high=9.0),
        Filter(ratio_high=ratio),
        Filter(ratio=False, diff=True, diff_low=diff, diff_high=9.0),
        Filter(ratio=False, diff=True, diff_high=diff),
    ):
        assert correct(train, sampler, torch.ones(1, 1), CorrectionConfig((rule,))).mask.item()
    assert correct(train, sampler, torch.ones(1, 1), CorrectionConfig(catastrophic=ratio)).mask.item()


def test_the_denominator_is_of_the_corrected_mask_or_of_the_original_one() -> None:
    train, sampler = torch.tensor([[0.0, -1.0], [-1.0, -1.0]]), torch.zeros(2, 2)
    for kind, tokens, samples in (("corrected", 1, 1), ("original", 4, 2)):
        found = correct(train, sampler, torch.ones(2, 2), CorrectionConfig((Filter(),), denominator=kind))
        assert (found.tokens, found.samples) == (tokens, samples)
        assert found.metrics[f"denominator_{kind}_tokens"] == tokens
        assert found.metrics[f"denominator_{kind}_samples"] == samples


def test_the_weight_is_bounded_and_has_no_gradient_and_the_inputs_stay() -> None:
    train = torch.tensor([[0.0, -3.0, -0.1]], requires_grad=True)
    sampler, mask = torch.tensor([[-1.0, -0.1, -0.1]]), torch.ones(1, 3, dtype=torch.long)
    before = [t.detach().clone() for t in (train, sampler, mask)]
    found = correct(train, sampler, mask, CorrectionConfig(weight_level="token", weight_lower=0.5))
    assert found.weights.tolist() == [[pytest.approx(1.2), 0.5, 1.0]] and not found.weights.requires_grad
    assert found.metrics["weight_clipped"] == pytest.approx(2 / 3)
    assert all(torch.equal(t.detach(), b) for t, b in zip((train, sampler, mask), before, strict=True))


def test_means_of_the_weight_are_over_the_original_mask_also_where_tokens_were_taken_out() -> None:
    train, sampler = torch.tensor([[1.0, 0.5, 2.0, 2.0]]).log(), torch.zeros(1, 4)
    config = CorrectionConfig((Filter(),), weight_level="token")
    metrics = correct(train, sampler, torch.tensor([[1, 1, 1, 0]]), config).metrics
    assert metrics["kept"] == pytest.approx(1 / 3)
    assert metrics["weight"] == pytest.approx((1.0 + 0.5 + 1.2) / 3)
    assert metrics["weight_clipped"] == pytest.approx(1 / 3)


def test_an_unbounded_weight_may_be_infinite_and_its_mean_is_not() -> None:
    config = CorrectionConfig(weight_level="sequence", weight_upper=None)
    found = correct(torch.zeros(1, 6), torch.full((1, 6), -50.0), torch.ones(1, 6), config)
    assert found.weights.tolist() == [[INF] * 6]
    assert all(map(math.isfinite, found.metrics.values()))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(level: Level, dtype: torch.dtype) -> None:
    train, sampler, mask = drawn(1)
    halves = train.to(dtype), sampler.to(dtype)
    found = correct(*halves, mask, everything(level))
    assert found.weights.dtype == torch.float32
    assert same(found, correct(*(t.float() for t in halves), mask, everything(level)))


def lines_executed(work: Callable[[], object]) -> int:
    """Lines of Python that run in it, those of torch's Python included."""
    count, before = 0, sys.gettrace()

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("level", LEVELS)
def test_no_loop_over_rows_or_segments(level: Level) -> None:
    """As many lines run for 2 rows as for 3,000, for 1 segment a row as for 20."""
    counts = set()
    for rows, width, turn in ((2, 4, 4), (3000, 4, 4), (2, 80, 4), (300, 80, 4)):
        train, sampler, _ = drawn(1, rows, width)
        mask = (torch.arange(width) % turn < turn - 1).expand(rows, width)
        work = partial(correct, train, sampler, mask, everything(level))
        counts.add(min(lines_executed(work) for _ in range(3)))  # a first call imports, a collection may run in another
    assert len(counts) == 1 and counts.pop() > 50


@pytest.mark.parametrize("level", LEVELS)
def test_only_new_tensors_are_written(level: Level) -> None:
    tensors = drawn(2)
    before = [t.clone() for t in tensors]
    found = correct(*tensors, everything(level))
    off = correct(None, None, tensors[2], None)
    assert all(map(torch.equal, tensors, before))
    mine = {t.data_ptr() for t in (found.mask, found.weights, off.mask, off.weights)}
    assert len(mine) == 4 and not mine & {t.data_ptr() for t in tensors}


@pytest.mark.parametrize("options", [{"filters": (Filter("word"),)}, {"weight_level": "word"}, {"denominator": "half"}])  # type: ignore[arg-type]
def test_an_unknown_word_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="none of"):
        CorrectionConfig(**options)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_accelerator_finds_the_same(level: Level, dtype: torch.dtype) -> None:
    train, sampler, mask = drawn(7, rows=64, width=256)
    train, sampler = train.to(dtype), sampler.to(dtype)
    here = correct(train, sampler, mask, everything(level))
    there = correct(train.cuda(), sampler.cuda(), mask.cuda(), everything(level))
    assert there.weights.device.type == "cuda"
    torch.testing.assert_close(there.weights.cpu(), here.weights)
    assert there.metrics == pytest.approx(here.metrics, abs=1e-3)
