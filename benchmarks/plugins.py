"""The parts of the speed workload that aren't Tamis: an engine that already has its tensors, a learner that only looks.

Every fourth group has equal rewards (it is rejected); in the others every second response is right.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pipeline.sdk import Sample, SampleRequest, Task, VerifierBinding

BYTES_A_TOKEN = 12
"""int64 id + float32 log-probability."""


class Prompts:
    """One short prompt, as often as wanted. Options: size."""

    def __init__(self, seed: int, options: Mapping[str, Any]) -> None:
        self._size = int(options["size"])
        self.content_hash = hashlib.sha256(f"benchmark {self._size}".encode()).hexdigest()

    def domains(self) -> Sequence[str]:
        """One domain."""
        return ("bench",)

    def size(self, domain: str) -> int:
        """Prompts in a pass."""
        return self._size

    def at(self, domain: str, ordinal: int, epoch: int) -> Task:
        """The prompt; whether its group is constant is part of it."""
        constant = ordinal % 4 == 3
        return Task(f"p{ordinal}", "go", (1, 2, 3, 4), (VerifierBinding("exact", "1"),), {"constant": constant})


class Engine:
    """Answers at once with the same `tokens` ids and log-probabilities. Options: tokens."""

    batch = 512
    concurrency = 1

    def __init__(self, seed: int, options: Mapping[str, Any]) -> None:
        tokens = int(options["tokens"])
        self._ids = memoryview(array("q", range(tokens)))
        self._logprobs = memoryview(array("f", [-0.5] * tokens))
        self._mask = memoryview(bytes([1]) * tokens)

    async def generate(self, requests: Sequence[SampleRequest]) -> Sequence[Sample]:
        """One sample each."""
        return [
            Sample(self._ids, self._logprobs, "0" if r.metadata["constant"] else _answer(r), loss_mask=self._mask)
            for r in requests
        ]

    async def load_policy(self, path: Path, version: int) -> None:
        """There is none."""


def _answer(request: SampleRequest) -> str:
    slot = int(request.response_id.rpartition("/")[2].partition(".")[0])
    return str(slot % 2)


class Learner:
    """Takes the batch as tensors, and learns nothing."""

    device = "cpu"
    layout: Literal["padded", "packed"] = "packed"
    pad_id = 0

    def __init__(self, seed: int, options: Mapping[str, Any]) -> None:
        self._steps = 0

    def load(self, path: Path) -> None:
        """Restore the count."""
        self._steps = int(path.read_text())

    def save(self, path: Path) -> None:
        """Write the count."""
        path.write_text(str(self._steps))

    def export(self, path: Path) -> None:
        """Write the count."""
        path.write_text(str(self._steps))

    def train(self, batch: Any) -> Mapping[str, float]:
        """Count."""
        self._steps += 1
        return {"tokens": float(batch.input_ids.numel())}
