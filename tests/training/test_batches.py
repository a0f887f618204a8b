"""Rows become tensors: padded and packed say the same, and lead to the same gradient."""

import random
from array import array
from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from pipeline.engines.door import admit
from pipeline.engines.transcript import Transcript
from pipeline.sdk import Observation, Sample
from pipeline.store.format import Array, Payload, decode, encode
from pipeline.training.advantages import AdvantageConfig, group_advantages
from pipeline.training.batches import Batch, Layout, Row
from pipeline.training.losses import objective, token_logprobs
from pipeline.training.sample_masks import SampleMaskConfig
from pipeline.training.settings import StepSettings
from pipeline.training.sorting_model import SortingModel

from .conftest import ragged

LAYOUTS = get_args(Layout)
Make = Callable[..., Batch]


def masks(**on: Any) -> StepSettings:
    """Settings with these masks on samples."""
    return StepSettings(sample_masks=SampleMaskConfig(**on))


def per_row(batch: Batch, values: Tensor) -> list[list[float]]:
    """The values on each row's own tokens, whatever the layout."""
    if batch.cu_seqlens is None:
        return [row[:length].tolist() for row, length in zip(values, batch.lengths, strict=True)]
    return [row.tolist() for row in values.split(list(batch.lengths))]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_row_holds_its_prompt_then_its_response(layout: Layout, rows: list[Row], make: Make) -> None:
    batch = make(rows, layout)
    prompts = [len(memoryview(row.prompt_ids)) for row in rows]
    assert per_row(batch, batch.input_ids) == [[*row.prompt_ids, *row.response_ids] for row in rows]
    logprobs = [list(memoryview(row.logprobs).cast("f")) for row in rows]
    assert per_row(batch, batch.rollout_logprobs) == [[0.0] * p + v for p, v in zip(prompts, logprobs, strict=True)]
    masks = [list(row.loss_mask) if row.loss_mask else [1] * len(v) for row, v in zip(rows, logprobs, strict=True)]
    assert per_row(batch, batch.response_mask) == [[0] * p + m for p, m in zip(prompts, masks, strict=True)]
    assert all(all(row) for row in per_row(batch, batch.attention_mask))
    assert int(batch.attention_mask.sum()) == sum(batch.lengths)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_types_and_shapes_are_those_of_the_contract(layout: Layout, rows: list[Row], make: Make) -> None:
    batch = make(rows, layout)
    tokens = (12, max(batch.lengths)) if layout == "padded" else (sum(batch.lengths),)
    expected = {
        "input_ids": (torch.int64, tokens),
        "attention_mask": (torch.bool, tokens),
        "response_mask": (torch.bool, tokens),
        "rollout_logprobs": (torch.float32, tokens),
        "rewards": (torch.float32, (12,)),
        "advantages": (torch.float32, (12,)),
        "group_index": (torch.int64, (12,)),
        "policy_versions": (torch.int64, (12, 2)),
    }
    assert {name: (getattr(batch, name).dtype, tuple(getattr(batch, name).shape)) for name in expected} == expected
    if layout == "packed":
        assert batch.cu_seqlens is not None and batch.cu_seqlens.dtype == torch.int32
        assert batch.cu_seqlens.diff().tolist() == list(batch.lengths)


def test_padding_stands_on_the_right_and_counts_for_nothing(batch: Batch) -> None:
    outside = ~batch.attention_mask
    assert outside.any()
    assert not batch.input_ids[outside].any() and not batch.response_mask[outside].any()
    assert not batch.rollout_logprobs[outside].any()


def test_another_padding_symbol_is_used_where_asked(rows: list[Row], make: Make) -> None:
    batch = make(rows, pad_id=-7)
    assert (batch.input_ids[~batch.attention_mask] == -7).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_wide_and_narrow_ids_mix(layout: Layout, rows: list[Row], make: Make) -> None:
    mixed = [
        replace(row, ids="int64", prompt_ids=array("q", row.prompt_ids), response_ids=array("q", row.response_ids))
        if index % 2
        else row
        for index, row in enumerate(rows)
    ]
    assert torch.equal(make(mixed, layout).input_ids, make(rows, layout).input_ids)


def test_advantages_are_of_whole_groups_wherever_the_members_stand(rows: list[Row], make: Make) -> None:
    random.Random(1).shuffle(rows)
    batch = make([replace(row, weight=1.0) for row in rows], loss_scale=1.0)
    for group in range(3):
        rewards = [row.reward for row in rows if row.group == group]
        expected = torch.tensor(group_advantages(rewards, AdvantageConfig()))
        assert torch.equal(batch.advantages[batch.group_index == group], expected)


def test_the_weight_of_its_group_and_the_scale_of_the_batch_multiply_an_advantage(rows: list[Row], make: Make) -> None:
    plain = make([replace(row, weight=1.0) for row in rows], loss_scale=1.0)
    scaled = make(rows, loss_scale=0.25)
    factors = torch.tensor([row.weight * 0.25 for row in rows])
    torch.testing.assert_close(scaled.advantages, plain.advantages * factors)
    assert scaled.metrics["loss_scale"] == 0.25 and "loss_scale" not in plain.metrics


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_masked_sample_leaves_the_loss_and_stays_in_the_baseline(layout: Layout, rows: list[Row], make: Make) -> None:
    rows = [replace(row, truncated=index % 4 == 1) for index, row in enumerate(rows)]
    plain, masked = make(rows, layout), make(rows, layout, settings=masks(max_len=True))
    assert torch.equal(masked.advantages, plain.advantages)
    for index, (one, other) in enumerate(zip(*(per_row(b, b.response_mask) for b in (plain, masked)), strict=True)):
        assert other == ([False] * len(one) if index % 4 == 1 else one)
    assert masked.mask_tokens == int(masked.response_mask.sum()) < plain.mask_tokens == int(plain.response_mask.sum())
    assert masked.metrics["samples_kept_max_len"] == masked.metrics["samples_kept_final"] == 0.75
    assert masked.loss_divisor == masked.metrics["loss_divisor_tokens"] == masked.mask_tokens
    assert not masked.empty and make(rows, layout, settings=masks(difficulty=True, difficulty_low=2.0)).empty


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("budget", [1, 20, 10_000])
def test_values_by_token_go_into_rows_and_out_of_parts_again(
    layout: Layout, budget: int, rows: list[Row], make: Make
) -> None:
    batch = make(rows, layout)
    in_rows = batch.in_rows(batch.rollout_logprobs)
    assert in_rows.shape == (12, max(batch.lengths))
    assert torch.equal(in_rows, make(rows).rollout_logprobs)
    assert torch.equal(batch.from_rows(in_rows), batch.rollout_logprobs)
    parts = [part.rollout_logprobs for part in batch.micro_batches(budget)]
    assert torch.equal(batch.joined(parts), batch.rollout_logprobs)


@pytest.mark.parametrize("field", ["response_ids", "logprobs", "loss_mask"])
def test_buffers_of_different_lengths_are_refused(field: str, make: Make) -> None:
    rows = [Row(array("i", [1]), array("i", [2, 3]), array("f", [-1, -1]), b"\1\1", 1.0, 0, (0, 0))] * 2
    longer = {"response_ids": array("i", [2, 3, 4]), "logprobs": array("f", [-1] * 3), "loss_mask": b"\1\1\1"}
    with pytest.raises(ValueError, match="row 1: ids, logprobs and loss mask disagree"):
        make([rows[0], replace(rows[1], **{field: longer[field]})])


@pytest.mark.parametrize("large", [1e39, -1e39, 3e38])
def test_what_float32_cannot_hold_is_refused(large: float, make: Make) -> None:
    rows = [replace(row, reward=reward) for row, reward in zip(ragged(4), [large, *[-3e38] * 3], strict=True)]
    with pytest.raises(ValueError, match="which float32 can't hold: mend the verifier"):
        make(rows, advantage=AdvantageConfig("dr_grpo"), loss_scale=1.0)


@pytest.mark.parametrize("rows", [[], [Row(b"", b"", b"", b"", 0.0, 0, (0, 0))]])
def test_a_batch_without_a_token_is_refused(rows: list[Row], make: Make) -> None:
    with pytest.raises(ValueError, match="token"):
        make(rows)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("budget", [1, 20, 33, 10_000])
def test_micro_batches_hold_every_row_once_within_the_budget(
    layout: Layout, budget: int, rows: list[Row], make: Make
) -> None:
    batch = make(rows, layout)
    parts = list(batch.micro_batches(budget))
    assert all(part.input_ids.numel() <= budget or len(part.lengths) == 1 for part in parts)
    assert [row for part in parts for row in per_row(part, part.input_ids)] == per_row(batch, batch.input_ids)
    assert torch.equal(torch.cat([part.advantages for part in parts]), batch.advantages)
    if layout == "packed":
        assert all(part.cu_seqlens is not None and int(part.cu_seqlens[-1]) == sum(part.lengths) for part in parts)


def padded_logprobs(model: SortingModel, batch: Batch) -> Tensor:
    return token_logprobs(model(batch.input_ids), batch.input_ids)


def packed_logprobs(model: SortingModel, batch: Batch) -> Tensor:
    rows = [row.unsqueeze(0) for row in batch.input_ids.split(list(batch.lengths))]
    return torch.cat([token_logprobs(model(row), row).squeeze(0) for row in rows])


LogProbs = Callable[[SortingModel, Batch], Tensor]


@pytest.mark.parametrize(("layout", "logprobs"), [("padded", padded_logprobs), ("packed", packed_logprobs)])
@pytest.mark.parametrize("budget", [25, 10_000])
def test_every_layout_and_split_gives_the_same_loss_and_gradient(
    layout: Layout, logprobs: LogProbs, budget: int, rows: list[Row], make: Make
) -> None:
    model = SortingModel(torch.Generator().manual_seed(0)).double()
    whole = make(rows)
    expected = objective(whole, padded_logprobs(model, whole))[0]
    gradient = torch.autograd.grad(expected, list(model.parameters()))
    parts = make(rows, layout).micro_batches(budget)
    loss = torch.stack([objective(part, logprobs(model, part))[0] for part in parts]).sum()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
    split = torch.autograd.grad(loss, list(model.parameters()))
    torch.testing.assert_close(split, gradient, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_response_mask_of_an_episode_is_its_segments(layout: Layout, make: Make) -> None:
    """As the payload stores it: the environment opens, then two turns of the policy with its words after each."""
    played = Transcript()
    played.wrote(Observation((40,)))
    for turn, version in ((1, 3), (2, 4)):
        played.sampled(Sample((turn,) * 2, array("f", [-0.5, -0.25]), ""), version)
        played.wrote(Observation((50 + turn,)))
    found = admit(played.sample("stop"), 0)
    assert found.logprobs is not None
    value, _ = encode(
        Payload(b"{}", "", Array("int32", array("i", (7, 8))), found.response_ids, found.logprobs, found.loss_mask,
                found.spans)
    )  # fmt: skip
    stored = decode(value)
    assert stored.logprobs is not None
    row = Row(
        stored.prompt_ids.data, stored.response_ids.data, stored.logprobs.data, stored.loss_mask.data, 1.0, 0, (3, 4)
    )  # fmt: skip
    batch = make([row], layout=layout)
    assert batch.input_ids.flatten().tolist() == [7, 8, 40, 1, 1, 51, 2, 2, 52]
    assert batch.response_mask.flatten().int().tolist() == [0, 0, 0, 1, 1, 0, 1, 1, 0]
    assert batch.rollout_logprobs.flatten().tolist() == [0, 0, 0, -0.5, -0.25, 0, -0.5, -0.25, 0]
    assert stored.version_spans == ((0, 3, 3), (3, 7, 4))
