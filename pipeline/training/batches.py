"""From the rows of a formed batch to tensors on the device, and from those to micro-batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from pipeline.training.advantages import AdvantageConfig, advantages
from pipeline.training.rows import Frame
from pipeline.training.rows import IdType as IdType
from pipeline.training.rows import Layout as Layout
from pipeline.training.rows import Row as Row


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
    """bool; True on the response tokens that the policy sampled: those with a loss."""
    rollout_logprobs: Tensor
    """float32, of the sampling policy; 0 outside the response."""
    rewards: Tensor
    """[B] float32."""
    advantages: Tensor
    """[B] float32, of the whole group, computed in float64 from the rewards as recorded."""
    group_index: Tensor
    """[B] int64."""
    policy_versions: Tensor
    """[B, 2] int64: oldest and newest."""
    weights: Tensor
    """[B] float32, of the row's group."""
    lengths: tuple[int, ...]
    """Tokens of each row, on the host."""
    loss_scale: float
    """Multiplies the loss of the whole batch."""
    layout: Layout
    cu_seqlens: Tensor | None
    """[B + 1] int32, packed only: row i is `cu_seqlens[i]:cu_seqlens[i + 1]`."""

    def per_token(self, values: Tensor) -> Tensor:
        """Row values [B] in a shape that broadcasts with the token tensors: [B, 1] or [N]."""
        if self.cu_seqlens is None:
            return values.unsqueeze(1)
        return values.repeat_interleave(self.cu_seqlens.diff(), output_size=self.input_ids.numel())

    def micro_batches(self, max_tokens: int) -> Iterator[Batch]:
        """Consecutive rows, as many as fit into `max_tokens` (padding counts); a longer row comes alone.

        Advantages stay those of the whole group. Divide by the response tokens of the whole batch, not of the part.
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
        return Batch(
            self.input_ids[tokens],
            self.attention_mask[tokens],
            self.response_mask[tokens],
            self.rollout_logprobs[tokens],
            self.rewards[rows],
            self.advantages[rows],
            self.group_index[rows],
            self.policy_versions[rows],
            self.weights[rows],
            lengths,
            self.loss_scale,
            self.layout,
            None if self.cu_seqlens is None else self.cu_seqlens[start : end + 1] - self.cu_seqlens[start],
        )


def build(
    rows: Sequence[Row],
    *,
    pad_id: int,
    device: torch.device | str,
    layout: Layout,
    advantage: AdvantageConfig,
    loss_scale: float = 1.0,
) -> Batch:
    """The batch of these rows, in order. Raises ValueError for no token, or buffers that disagree in length."""
    frame = Frame(rows, layout)
    ends = torch.tensor([0, *accumulate(frame.lengths)], dtype=torch.int32, device=device)
    input_ids = frame.ids(pad_id).to(device).long()
    attention_mask = torch.ones(input_ids.shape, dtype=torch.bool, device=device)
    if layout == "padded":
        attention_mask = torch.arange(input_ids.shape[1], device=device) < ends.diff().unsqueeze(1)
    return Batch(
        input_ids=input_ids,
        attention_mask=attention_mask,
        response_mask=frame.loss_mask().to(device).bool(),
        rollout_logprobs=frame.logprobs().to(device),
        rewards=torch.tensor([row.reward for row in rows], dtype=torch.float32, device=device),
        advantages=torch.tensor(_advantages(rows, advantage), dtype=torch.float32, device=device),
        group_index=torch.tensor([row.group for row in rows], device=device),
        policy_versions=torch.tensor([row.versions for row in rows], device=device),
        weights=torch.tensor([row.weight for row in rows], dtype=torch.float32, device=device),
        lengths=frame.lengths,
        loss_scale=loss_scale,
        layout=layout,
        cu_seqlens=ends if layout == "packed" else None,
    )


def _advantages(rows: Sequence[Row], config: AdvantageConfig) -> list[float]:
    cut = [row.truncated for row in rows]
    return advantages([row.reward for row in rows], [row.group for row in rows], config, cut)
