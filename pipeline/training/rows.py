"""The rows of a batch as their payloads store them, and their buffers joined into one tensor a field.

A row is a prompt followed by its response. Padded and packed differ in one thing only: what fills the space after a
row. So each field is one join of buffers, with no Python per token.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import torch
from torch import Tensor
from typing_extensions import Buffer

Layout = Literal["padded", "packed"]
IdType = Literal["int32", "int64"]


@dataclass(frozen=True, slots=True)
class Row:
    """One response as its payload stores it; the buffers are contiguous and native-endian.

    prompt_ids, response_ids: `ids` numbers; logprobs: float32, one for each response token; loss_mask: uint8, the
    same, 0 where an environment wrote the token, None for all ones. versions: oldest and newest policy version.
    """

    prompt_ids: Buffer
    response_ids: Buffer
    logprobs: Buffer
    loss_mask: Buffer | None
    reward: float
    group: int
    versions: tuple[int, int]
    weight: float = 1.0
    truncated: bool = False
    ids: IdType = "int32"


class Frame:
    """Where the tokens of rows go. Its tensors are on the host: [B, T] when padded on the right, [N] when packed."""

    def __init__(self, rows: Sequence[Row], layout: Layout) -> None:
        """Raises ValueError for no token at all, or for a row whose buffers disagree in length."""
        counts = [_token_counts(number, row) for number, row in enumerate(rows)]
        self.lengths = tuple(prompt + response for prompt, response in counts)
        if not any(self.lengths):
            raise ValueError("a batch needs a token")
        self.response_lengths = tuple(response for _, response in counts)
        self._rows, self._counts = rows, counts
        self._gaps = [max(self.lengths) - n if layout == "padded" else 0 for n in self.lengths]
        self._shape = (len(rows), -1) if layout == "padded" else (-1,)

    def ids(self, pad_id: int) -> Tensor:
        """Of int32, or of int64 if that is any row's."""
        wide = any(row.ids == "int64" for row in self._rows)
        padding = memoryview(array("q" if wide else "i", [pad_id]) * max(self._gaps))
        parts = (
            (_cast(row.prompt_ids, row, wide), _cast(row.response_ids, row, wide), padding[:gap])
            for row, gap in zip(self._rows, self._gaps, strict=True)
        )
        return self._joined(parts, torch.int64 if wide else torch.int32)

    def logprobs(self) -> Tensor:
        """Of float32, 0 outside the response."""
        return self._joined(self._around(4, (row.logprobs for row in self._rows)), torch.float32)

    def loss_mask(self) -> Tensor:
        """Of uint8, 0 outside the response."""
        ones = memoryview(b"\1" * max(self.lengths))
        rows = zip(self._rows, self._counts, strict=True)
        masks = (ones[:response] if row.loss_mask is None else row.loss_mask for row, (_, response) in rows)
        return self._joined(self._around(1, masks), torch.uint8)

    def sampled(self) -> Tensor:
        """[B] int64: each row's tokens under its loss mask."""
        masks = [None if row.loss_mask is None else memoryview(row.loss_mask).tobytes() for row in self._rows]
        pairs = zip(masks, self.response_lengths, strict=True)
        return torch.tensor([n if mask is None else n - mask.count(0) for mask, n in pairs])

    def _around(self, item_bytes: int, responses: Iterable[Buffer]) -> Iterable[tuple[Buffer, ...]]:
        zeros = memoryview(bytes(item_bytes * max(self.lengths)))
        before = (zeros[: item_bytes * prompt] for prompt, _ in self._counts)
        after = (zeros[: item_bytes * gap] for gap in self._gaps)
        return zip(before, responses, after, strict=True)

    def _joined(self, parts: Iterable[tuple[Buffer, ...]], kind: torch.dtype) -> Tensor:
        return torch.frombuffer(bytearray().join(chain.from_iterable(parts)), dtype=kind).view(self._shape)


def _token_counts(number: int, row: Row) -> tuple[int, int]:
    """Of prompt and response."""
    size = 4 if row.ids == "int32" else 8
    prompt, odd = divmod(memoryview(row.prompt_ids).nbytes, size)
    response, rest = divmod(memoryview(row.response_ids).nbytes, size)
    masked = response if row.loss_mask is None else memoryview(row.loss_mask).nbytes
    if odd or rest or masked != response or memoryview(row.logprobs).nbytes != 4 * response:
        raise ValueError(f"row {number}: ids, logprobs and loss mask disagree in length")
    return prompt, response


def _cast(ids: Buffer, row: Row, wide: bool) -> Buffer:
    return array("q", memoryview(ids).cast("B").cast("i")) if wide and row.ids == "int32" else ids
