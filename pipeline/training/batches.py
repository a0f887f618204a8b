"""From the rows of a formed batch to tensors on the device, and from those to micro-batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from pipeline.training.advantages import AdvantageConfig, advantages
from pipeline.training.aggregation import divisor
from pipeline.training.rows import Frame
from pipeline.training.rows import IdType as IdType
from pipeline.training.rows import Layout as Layout
from pipeline.training.rows import Row as Row
from pipeline.training.sample_masks import SampleMask, sample_mask
from pipeline.training.settings import StepSettings

BY_TOKEN = ("input_ids", "attention_mask", "response_mask", "rollout_logprobs", "old_logprobs", "token_weights")
SKIPPED = "step_skipped_empty_mask"
"""The metric, 1.0, of a step without a token to learn from: the weights stay, the batch is done all the same."""
LARGEST = torch.finfo(torch.float32).max
BY_ROW = ("rewards", "advantages", "group_index", "policy_versions")


@dataclass(frozen=True, slots=True)
class Batch:
    """B rows. Token tensors are [B, T] when padded (on the right), [N] when packed, N the sum of all lengths.

    Position t holds token t, and its own mask and log-probability; the model predicts it at t - 1.
    """

    input_ids: Tensor
    """int64."""
    attention_mask: Tensor
    """bool; True on tokens, False on padding."""
    response_mask: Tensor
    """bool; True on the response tokens that the policy sampled and that no mask took out: those with a loss."""
    rollout_logprobs: Tensor
    """float32, of the sampling policy; 0 outside the response."""
    rewards: Tensor
    """[B] float32."""
    advantages: Tensor
    """[B] float32, of the whole group, computed in float64 from the rewards as recorded, times the group's weight and
    the batch's loss_scale."""
    group_index: Tensor
    """[B] int64."""
    policy_versions: Tensor
    """[B, 2] int64: oldest and newest."""
    lengths: tuple[int, ...]
    """Tokens of each row, on the host."""
    layout: Layout
    cu_seqlens: Tensor | None
    """[B + 1] int32, packed only: row i is `cu_seqlens[i]:cu_seqlens[i + 1]`."""
    settings: StepSettings
    mask_tokens: int
    """Tokens of the response mask, of the whole batch of which this may be a part; so is the next."""
    loss_divisor: float
    """What the summed loss is divided by; never 0."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """What was measured on the way here, of the whole batch: to be reported with the step."""
    old_logprobs: Tensor | None = None
    """float, of the trainer's policy before the step, once `objective.corrected` was given them."""
    token_weights: Tensor | None = None
    """float, of the correction; detached."""

    @property
    def empty(self) -> bool:
        """Whether no token has a loss: then no optimizer step may be taken."""
        return self.mask_tokens == 0

    def per_token(self, values: Tensor) -> Tensor:
        """Row values [B] in a shape that broadcasts with the token tensors: [B, 1] or [N]."""
        if self.cu_seqlens is None:
            return values.unsqueeze(1)
        return values.repeat_interleave(self.cu_seqlens.diff(), output_size=self.input_ids.numel())

    def in_rows(self, values: Tensor) -> Tensor:
        """Token values as [B, T], whatever the layout; False or 0 after a packed row's end. Gradients pass."""
        if self.cu_seqlens is None:
            return values
        there = self._there()
        return values.new_zeros(there.shape).masked_scatter(there, values)

    def from_rows(self, values: Tensor) -> Tensor:
        """The inverse: [B, T] in the batch's own layout."""
        return values if self.cu_seqlens is None else values[self._there()]

    def joined(self, parts: Sequence[Tensor]) -> Tensor:
        """Token values of all micro-batches, in order, as values of this batch; 0 on what was no part's padding."""
        if self.cu_seqlens is not None:
            return torch.cat(list(parts))
        width = self.input_ids.shape[1]
        return torch.cat([torch.nn.functional.pad(part, (0, width - part.shape[1])) for part in parts])

    def micro_batches(self, max_tokens: int) -> Iterator[Batch]:
        """Consecutive rows, as many as fit into `max_tokens` (padding counts); a longer row comes alone.

        Advantages stay those of the whole group, and what the loss is divided by that of the whole batch.
        """
        start, width = 0, 0
        for end, length in enumerate(self.lengths):
            width = max(width, length) if self.layout == "padded" else width + length
            tokens = width * (end - start + 1) if self.layout == "padded" else width
            if tokens > max_tokens and end > start:
                yield self._rows(start, end)
                start, width = end, length
        if self.lengths:
            yield self._rows(start, len(self.lengths))

    def _rows(self, start: int, end: int) -> Batch:
        rows, lengths = slice(start, end), self.lengths[start:end]
        if self.layout == "padded":
            tokens: tuple[slice, ...] = (rows, slice(0, max(lengths)))
        else:
            first = sum(self.lengths[:start])
            tokens = (slice(first, first + sum(lengths)),)
        ends = None if self.cu_seqlens is None else self.cu_seqlens[start : end + 1] - self.cu_seqlens[start]
        given = {name: getattr(self, name) for name in BY_TOKEN}
        changed: dict[str, Any] = {name: value[tokens] for name, value in given.items() if value is not None}
        changed |= {name: getattr(self, name)[rows] for name in BY_ROW}
        return replace(self, lengths=lengths, cu_seqlens=ends, **changed)

    def _there(self) -> Tensor:
        """[B, T] bool: where a packed batch's tokens stand in rows."""
        lengths = torch.tensor(self.lengths, device=self.input_ids.device).unsqueeze(1)
        return torch.arange(max(self.lengths), device=lengths.device) < lengths


def build(
    rows: Sequence[Row],
    *,
    pad_id: int,
    device: torch.device | str,
    layout: Layout,
    advantage: AdvantageConfig,
    loss_scale: float = 1.0,
    settings: StepSettings | None = None,
) -> Batch:
    """The batch of these rows, in order. Raises ValueError for no token, or buffers that disagree in length."""
    settings, frame = settings or StepSettings(), Frame(rows, layout)
    masked = _masked(rows, frame, settings)
    counts = torch.where(torch.tensor(masked.kept), frame.sampled(), 0)
    what, by = divisor(counts, 0, settings.aggregation)
    ends = torch.tensor([0, *accumulate(frame.lengths)], dtype=torch.int32, device=device)
    input_ids = frame.ids(pad_id).to(device).to(torch.int64)
    attention_mask = torch.ones(input_ids.shape, dtype=torch.bool, device=device)
    if layout == "padded":
        attention_mask = torch.arange(input_ids.shape[1], device=device) < ends.diff().unsqueeze(1)
    batch = Batch(
        input_ids=input_ids,
        attention_mask=attention_mask,
        response_mask=frame.loss_mask().to(device).bool(),
        rollout_logprobs=frame.logprobs().to(device),
        rewards=torch.tensor([row.reward for row in rows], dtype=torch.float32, device=device),
        advantages=torch.tensor(_advantages(rows, advantage, loss_scale), dtype=torch.float32, device=device),
        group_index=torch.tensor([row.group for row in rows], device=device),
        policy_versions=torch.tensor([row.versions for row in rows], device=device),
        lengths=frame.lengths,
        layout=layout,
        cu_seqlens=ends if layout == "packed" else None,
        settings=settings,
        mask_tokens=int(counts.sum()),
        loss_divisor=by or 1.0,
        metrics=_measured(masked, settings, loss_scale) | {f"loss_divisor_{what}": by},
    )
    if all(masked.kept):
        return batch
    kept = torch.tensor(masked.kept, device=device)
    return replace(batch, response_mask=batch.response_mask & batch.per_token(kept))


def _advantages(rows: Sequence[Row], config: AdvantageConfig, loss_scale: float) -> list[float]:
    cut = [row.truncated for row in rows]
    found = advantages([row.reward for row in rows], [row.group for row in rows], config, cut)
    weighed = [value * row.weight * loss_scale for value, row in zip(found, rows, strict=True)]
    for row, value in zip(rows, weighed, strict=True):
        if not max(abs(row.reward), abs(value)) <= LARGEST:
            told = f"a response has the reward {row.reward:g} and the advantage {value:g}"
            raise ValueError(f"{told}, which float32 can't hold: mend the verifier, or the weights of the selection")
    return weighed


def _masked(rows: Sequence[Row], frame: Frame, settings: StepSettings) -> SampleMask:
    rewards, groups, cut = zip(*[(row.reward, row.group, row.truncated) for row in rows], strict=True)
    return sample_mask(frame.response_lengths, rewards, groups, settings.sample_masks, cut)


def _measured(masked: SampleMask, settings: StepSettings, loss_scale: float) -> dict[str, float]:
    """The share of samples that each mask keeps, and the scale of the loss, where they are asked for."""
    asked = settings.sample_masks
    on = {"difficulty": asked.difficulty, "max_len": asked.max_len, "error_max_len": asked.error_max_len}
    shown = [*[name for name, is_on in on.items() if is_on], *(["final"] if any(on.values()) else [])]
    scale = {} if loss_scale == 1.0 else {"loss_scale": loss_scale}
    return {f"samples_kept_{name}": masked.shares[name] for name in shown} | scale
