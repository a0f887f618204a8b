"""The demo's learner: a short supervised warm start, then GRPO on what the pipeline delivers.

Without the warm start every answer is wrong and there is nothing to reinforce; too long a one leaves nothing to learn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pipeline.prompts.sorting import ARROW, END, PAD, VOCABULARY, answer, prompts, tokens
from pipeline.training.adam import Adam
from pipeline.training.batches import SKIPPED, Batch, Layout
from pipeline.training.losses import Clip, corrected, objective, token_logprobs
from pipeline.training.sorting_model import SortingModel, decode

FORMAT = 1
WARM_START_CHECK = 5
WARM_START_LIMIT = 400


@dataclass(frozen=True, slots=True)
class LearnerOptions:
    """digits: of the prompts; lr, warmup_steps, clip_*, max_grad_norm: of GRPO; micro_batch_tokens: of one backward
    pass; warm_start_accuracy: greedy, on training-side probes, where the supervised part stops; threads: of torch.
    """

    digits: int = 6
    lr: float = 1e-3
    warmup_steps: int = 10
    clip_low: float = 0.8
    clip_high: float = 1.28
    max_grad_norm: float = 1.0
    micro_batch_tokens: int = 65_536
    warm_start_accuracy: float = 0.25
    warm_start_lr: float = 5e-4
    warm_start_batch: int = 64
    threads: int = 1


class SortingLearner:
    """A Learner. Options: `LearnerOptions`. Unless `load` comes first, the first other call does the warm start."""

    device = "cpu"
    layout: Layout = "padded"
    pad_id = PAD

    def __init__(self, seed: int, options: Mapping[str, Any]) -> None:
        self._options = LearnerOptions(**options)
        self._seed = seed
        self._random = torch.Generator().manual_seed(seed)
        torch.set_num_threads(self._options.threads)
        self._model = SortingModel(self._random)
        self._optimizer = Adam(self._model.parameters())
        self._clip = Clip(self._options.clip_low, self._options.clip_high)
        self._started = False

    def load(self, path: Path) -> None:
        """Restore a checkpoint. Raises ValueError for another format."""
        state = torch.load(path, weights_only=True)
        if state["format"] != FORMAT:
            raise ValueError(f"{path}: checkpoint format {state['format']}, this learner reads {FORMAT}")
        self._model.load_state_dict(state["model"])
        self._optimizer.restore(state["optimizer"])
        self._random.set_state(state["random"])
        self._started = True

    def save(self, path: Path) -> None:
        """Write weights, optimizer with its step count, and random state. Raises FileExistsError."""
        self.warm_start()
        _write(
            path,
            {
                "format": FORMAT,
                "model": self._model.state_dict(),
                "optimizer": self._optimizer.state(),
                "random": self._random.get_state(),
            },
        )

    def export(self, path: Path) -> None:
        """Write the weights alone. Raises FileExistsError."""
        self.warm_start()
        _write(path, self._model.state_dict())

    def train(self, batch: Batch) -> Mapping[str, float]:
        """One step on a padded batch; none where the correction leaves no token. Raises ValueError for a packed one,
        FloatingPointError for NaN or inf."""
        if batch.layout != "padded":
            raise ValueError("the sorting learner takes padded batches")
        self.warm_start()
        if batch.settings.correction is not None:
            batch = self._corrected(batch)
        if batch.empty:
            return {SKIPPED: 1.0, **batch.metrics}
        self._model.zero_grad()
        metrics = dict.fromkeys(("loss", "ratio", "clip_fraction", "kl"), 0.0)
        for part in batch.micro_batches(self._options.micro_batch_tokens):
            loss, statistics = objective(part, self._logprobs(part), clip=self._clip)
            torch.autograd.backward(loss)
            for name, value in {"loss": loss.detach(), **statistics}.items():
                metrics[name] += float(value)
        counts = {"grad_norm": self._update(), "response_tokens": float(batch.mask_tokens)}
        return {**metrics, **counts, **batch.metrics}

    def warm_start(self) -> None:
        """Supervised until `warm_start_accuracy`, once. Raises RuntimeError if that takes too long."""
        if self._started:
            return
        examples, optimizer = self._examples(), Adam(self._model.parameters())
        probes = torch.stack([next(examples) for _ in range(256)])
        for step in range(WARM_START_LIMIT):
            if step % WARM_START_CHECK == 0 and self._accuracy(probes) >= self._options.warm_start_accuracy:
                self._started = True
                return
            ids = torch.stack(list(islice(examples, self._options.warm_start_batch)))
            torch.autograd.backward(-token_logprobs(self._model(ids), ids)[:, self._options.digits + 1 :].mean())
            optimizer.step(self._options.warm_start_lr)
        raise RuntimeError(f"no accuracy of {self._options.warm_start_accuracy} in {WARM_START_LIMIT} supervised steps")

    def _logprobs(self, part: Batch) -> Tensor:
        return token_logprobs(self._model(part.input_ids), part.input_ids)

    @torch.no_grad()
    def _corrected(self, batch: Batch) -> Batch:
        """By the policy before this step."""
        parts = batch.micro_batches(self._options.micro_batch_tokens)
        return corrected(batch, batch.joined([self._logprobs(part) for part in parts]))

    def _update(self) -> float:
        """Clip, step, and return the gradient's norm before clipping."""
        steps = self._optimizer.steps
        norm = torch.nn.utils.clip_grad_norm_(self._model.parameters(), self._options.max_grad_norm)
        if not norm.isfinite():
            raise FloatingPointError(f"step {steps}: the gradient's norm is {float(norm)}")
        self._optimizer.step(self._options.lr * min(1.0, (steps + 1) / self._options.warmup_steps))
        return float(norm)

    def _examples(self) -> Iterator[Tensor]:
        """Training-side prompts with their answers, each [2 * digits + 2] int64."""
        for digits in prompts(self._seed, "train", self._options.digits):
            yield torch.tensor([*tokens(digits), ARROW, *tokens(answer(digits)), END])

    def _accuracy(self, examples: Tensor) -> float:
        """The share that greedy decoding gets right, end token included."""
        asked, expected = examples.chunk(2, dim=1)
        decoded = decode(self._model, asked, torch.zeros(len(examples), expected.shape[1], VOCABULARY))
        same = decoded.token_ids.shape == expected.shape and (decoded.token_ids == expected).all(1).float().mean()
        return float(same)


def _write(path: Path, state: Mapping[str, Any]) -> None:
    with path.open("xb") as file:
        torch.save(dict(state), file)
