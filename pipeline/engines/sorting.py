"""The demo's engine: samples from the sorting policy in this process.

What a request gets depends on its seed and the policy alone, not on the requests beside it: each draw's noise is a hash
of (seed, position, symbol). (Matrix products may round differently in a batch of another size, by about 1e-7.)
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pipeline.prompts.sorting import END, SYMBOLS, VOCABULARY, text
from pipeline.sdk import FinishReason, Sample, SampleRequest
from pipeline.training.sorting_model import Decoded, SortingModel, decode

MASK_64 = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
MIXERS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def gumbel(seeds: Sequence[int], steps: int) -> Tensor:
    """Standard Gumbel noise, [len(seeds), steps, V] float32, by splitmix64 (Steele et al. 2014) in counter mode.

    Each row is a stream of its own: its seed is mixed once, then the counter is added and mixed again.
    """
    starts = _mixed(torch.tensor([_signed(seed) for seed in seeds], dtype=torch.int64))
    counters = torch.arange(1, steps * VOCABULARY + 1) * _signed(GOLDEN)
    bits = _mixed(starts.unsqueeze(1) + counters)
    uniform = ((bits >> 12 & (1 << 52) - 1).double() + 0.5) * 2.0**-52
    return (-(-uniform.log()).log()).float().view(len(seeds), steps, VOCABULARY)


def _mixed(x: Tensor) -> Tensor:
    for shift, factor in MIXERS:
        x = (x ^ _shifted(x, shift)) * _signed(factor)
    return x ^ _shifted(x, 31)


def _shifted(x: Tensor, by: int) -> Tensor:
    """A logical shift to the right: torch's own keeps the sign."""
    return x >> by & (1 << 64 - by) - 1


def _signed(number: int) -> int:
    number &= MASK_64
    return number - 2**64 if number >= 2**63 else number


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """max_tokens: of a response, its end token included; batch: responses in one call; threads: of torch; symbols: what
    each token id is as text."""

    max_tokens: int = 7
    batch: int = 256
    threads: int = 1
    symbols: str = SYMBOLS


class SortingEngine:
    """An Engine. Options: `EngineOptions`. Samples before the first `load_policy` are an error."""

    concurrency = 1

    def __init__(self, seed: int, options: Mapping[str, Any]) -> None:
        self._options = EngineOptions(**options)
        self.batch = self._options.batch
        self._model: SortingModel | None = None
        # One thread for good: each thread that torch has run in keeps some 30 MB of buffers.
        self._thread = ThreadPoolExecutor(1, "sorting-engine")
        torch.set_num_threads(self._options.threads)

    async def load_policy(self, path: Path, version: int) -> None:
        """Read what `SortingLearner.export` wrote."""
        self._model = await asyncio.get_running_loop().run_in_executor(self._thread, _read, path)

    async def generate(self, requests: Sequence[SampleRequest]) -> Sequence[Sample]:
        """One sample for each request, in order; prompts of one length go through the model together."""
        if self._model is None:
            raise RuntimeError("no policy is loaded")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._generate, self._model, requests)

    def _generate(self, model: SortingModel, requests: Sequence[SampleRequest]) -> list[Sample]:
        by_length: dict[int, list[int]] = {}
        for index, request in enumerate(requests):
            by_length.setdefault(len(request.token_ids), []).append(index)
        samples: dict[int, Sample] = {}
        for indices in by_length.values():
            samples |= zip(indices, self._alike(model, [requests[i] for i in indices]), strict=True)
        return [samples[index] for index in range(len(requests))]

    def _alike(self, model: SortingModel, requests: Sequence[SampleRequest]) -> list[Sample]:
        noise = gumbel([request.seed for request in requests], self._options.max_tokens)
        noise[torch.tensor([request.greedy for request in requests])] = 0.0
        decoded = decode(model, torch.tensor([request.token_ids for request in requests]), noise)
        return _samples(decoded, self._options.symbols)


def _read(path: Path) -> SortingModel:
    model = SortingModel(torch.Generator())
    model.load_state_dict(torch.load(path, weights_only=True))
    return model.requires_grad_(False)


def _samples(decoded: Decoded, symbols: str) -> list[Sample]:
    token_ids, logprobs = decoded.token_ids.tolist(), decoded.logprobs.tolist()
    entropies = (decoded.entropy.sum(1) / decoded.lengths).tolist()
    samples = []
    for ids, logs, entropy, length in zip(token_ids, logprobs, entropies, decoded.lengths.tolist(), strict=True):
        response = array("i", ids[:length])
        reason: FinishReason = "stop" if response[-1] == END else "length"
        samples.append(Sample(response, array("f", logs[:length]), text(response, symbols), reason, entropy=entropy))
    return samples
