"""Aggregated losses against plain loops."""

import math
from collections.abc import Sequence
from typing import Any, get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pipeline.training.aggregation import AggregationConfig, Impl, Mode, aggregate

ROWS = st.lists(st.lists(st.tuples(st.floats(-2, 2), st.booleans()), min_size=4, max_size=4), min_size=1, max_size=5)


def naive(rows: Sequence[Sequence[tuple[float, bool]]], mode: Mode, impl: Impl) -> float:
    kept = [[value for value, counted in row if counted] for row in rows]
    if mode == "token-mean":
        total, divisor = math.fsum(v for row in kept for v in row), sum(map(len, kept))
    elif mode == "seq-mean-token-sum-norm":
        total, divisor = math.fsum(v for row in kept for v in row), len(rows[0])
    else:
        total = math.fsum(math.fsum(row) / (len(row) if mode == "seq-mean-token-mean" else 1) for row in kept if row)
        divisor = len(kept) if impl == "roll" else len([row for row in kept if row])
    return total / divisor if divisor else math.nan


@pytest.mark.parametrize("mode", get_args(Mode))
@pytest.mark.parametrize("impl", get_args(Impl))
@given(rows=ROWS, odd=st.sampled_from([math.nan, math.inf, -1e30]))
def test_a_loss_is_that_of_a_loop_whatever_stands_outside_the_mask(
    mode: Mode, impl: Impl, rows: list[list[tuple[float, bool]]], odd: float
) -> None:
    losses = torch.tensor([[v for v, _ in row] for row in rows], dtype=torch.float64)
    mask = torch.tensor([[counted for _, counted in row] for row in rows])
    dirty = torch.where(mask, losses, odd).requires_grad_()
    value, _ = aggregate(dirty, mask, AggregationConfig(mode, impl))
    assert float(value.detach()) == pytest.approx(naive(rows, mode, impl), nan_ok=True, abs=1e-12)
    value.backward()  # type: ignore[no-untyped-call]
    assert dirty.grad is not None and not dirty.grad[~mask].nan_to_num().any()


@pytest.mark.parametrize(
    ("mode", "impl", "given_", "metrics"),
    [
        ("token-mean", "verl", {}, {"divisor_tokens": 3.0}),
        ("token-mean", "roll", {"tokens": 20}, {"divisor_tokens": 20.0}),
        ("seq-mean-token-sum", "roll", {}, {"divisor_all_rows": 3.0}),
        ("seq-mean-token-mean", "verl", {}, {"divisor_rows_with_tokens": 2.0}),
        ("seq-mean-token-mean", "verl", {"rows": 6}, {"divisor_rows_given": 6.0}),
        ("seq-mean-token-sum-norm", "verl", {}, {"divisor_norm": 2.0}),
    ],
)
def test_the_divisor_is_stated(mode: Mode, impl: Impl, given_: dict[str, int], metrics: dict[str, float]) -> None:
    mask = torch.tensor([[1, 1], [0, 0], [1, 0]])
    value, stated = aggregate(torch.ones(3, 2), mask, AggregationConfig(mode, impl), **given_)
    assert stated == metrics
    total = 2.0 if mode == "seq-mean-token-mean" else 3.0
    assert float(value) == pytest.approx(total / next(iter(metrics.values())))


def test_rows_have_weights_and_ranks_are_made_up_for() -> None:
    losses, mask = torch.tensor([[1.0, 1.0], [3.0, 9.0]]), torch.tensor([[1, 1], [1, 0]])
    value, _ = aggregate(losses, mask, AggregationConfig(ranks=2), row_weights=torch.tensor([1.0, 0.5]))
    assert float(value) == pytest.approx(2 * 3.5 / 3)


@pytest.mark.parametrize("options", [{"mode": "mean"}, {"impl": "trl"}])
def test_an_unknown_word_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="none of"):
        AggregationConfig(**options)
