"""Plugins that are quick and decided by seeds alone: prompts, an engine without a model, a learner without weights.

They can be held at named points (`gate`): a test puts `<name>.hold` into the folder that E2E_GATES names, waits for
`<name>.reached`, and takes the hold away.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.prompts.walk import MOVES, SYMBOLS
from pipeline.sdk import Sample, SampleRequest, Score, ScoreRequest, Task, VerifierBinding

PAUSE_S = 0.01
RIGHT = "right"


def held(name: str) -> bool:
    """Whether somebody is to wait at this point; says that it was reached."""
    folder = os.environ.get("E2E_GATES")
    if not folder or not Path(folder, f"{name}.hold").exists():
        return False
    Path(folder, f"{name}.reached").touch()
    return True


def gate(name: str) -> None:
    """Wait here as long as a test wants it."""
    while held(name):
        time.sleep(PAUSE_S)


class Numbers:
    """Prompts by number. Options: `sizes` by domain; `plans`: by ordinal, how its group turns out (see Dice); without
    one it is `mixed`. `every`: {k: plan} gives each k-th prompt a plan."""

    def __init__(self, seed: int, options: Mapping[str, Any]) -> None:
        self._sizes: Mapping[str, int] = options.get("sizes", {"a": 1000})
        self._plans: Mapping[str, str] = options.get("plans", {})
        self._every = {int(k): plan for k, plan in options.get("every", {}).items()}
        self.content_hash = hashlib.sha256(json.dumps([seed, dict(options)], sort_keys=True).encode()).hexdigest()

    def domains(self) -> Sequence[str]:
        return tuple(self._sizes)

    def size(self, domain: str) -> int:
        return self._sizes[domain]

    def at(self, domain: str, ordinal: int, epoch: int) -> Task:
        name = f"{domain}-{epoch}-{ordinal}"
        return Task(name, name, (1, 2, ordinal), (VerifierBinding("exact", RIGHT),), {"plan": self._plan(ordinal)})

    def _plan(self, ordinal: int) -> str:
        found = [plan for k, plan in self._every.items() if ordinal % k == k - 1]
        return self._plans.get(str(ordinal), found[0] if found else "mixed")


class Dice:
    """An engine whose answers follow from the request. A prompt's plan says how its group turns out:

    mixed: every second answer is right. constant: none is. right-N: those of the first N slots are. flagged: mixed, and
    slot 0 has drop_flag. large: mixed, in a payload of `large` tokens. cancel: the engine cancels slot 0 in its first
    round. nan, null, positive, ragged: so are the log-probabilities of slot 0 in its first round. slow: its calls wait
    at the gate `slow`. slow_constant: both. half: those of all slots but 0 do.

    Options: `seconds` that a call takes, `tokens` of an answer, `large`, `batch`, `concurrency`, `forked_at`: the steps
    that policy 0 has seen.
    """

    def __init__(self, seed: int, options: Mapping[str, Any]) -> None:
        self.batch = int(options.get("batch", 4))
        self.concurrency = int(options.get("concurrency", 8))
        self._seconds = float(options.get("seconds", 0.0))
        self._tokens, self._large = int(options.get("tokens", 4)), int(options.get("large", 20_000))
        self._before = int(options.get("forked_at", 0))

    async def load_policy(self, path: Path, version: int) -> None:
        steps = json.loads(path.read_text())["steps"]
        assert steps == self._before + version, "a policy is named by the steps that made it"

    async def generate(self, requests: Sequence[SampleRequest]) -> Sequence[Sample]:
        while held("generate") or (any(map(_is_slow, requests)) and held("slow")):
            await asyncio.sleep(PAUSE_S)
        await asyncio.sleep(self._seconds)
        return [self._answer(request) for request in requests]

    def _answer(self, request: SampleRequest) -> Sample:
        slot, round_ = _place(request)
        plan = request.metadata["plan"]
        count = self._large if plan == "large" else self._tokens
        ids = array("i", [request.seed % 1000 + i for i in range(count)])
        logprobs: Any = array("f", [-0.5]) * count
        if slot == 0 and round_ == 1:
            if plan == "cancel":
                raise asyncio.CancelledError
            logprobs = _troubled(plan, logprobs)
        right = slot < int(plan[6:]) if plan.startswith("right-") else "constant" not in plan and slot % 2 == 0
        return Sample(ids, logprobs, RIGHT if right else "wrong", drop_flag=plan == "flagged" and slot == 0)


class Stroller:
    """An engine for the walk that steps anywhere: where to is decided by the turn's seed. It has no options."""

    batch, concurrency = 32, 1

    def __init__(self, seed: int, options: Mapping[str, Any]) -> None:
        pass

    async def load_policy(self, path: Path, version: int) -> None:
        """There is nothing to load."""

    async def generate(self, requests: Sequence[SampleRequest]) -> Sequence[Sample]:
        await asyncio.sleep(PAUSE_S)
        return [self._step(MOVES[request.seed % len(MOVES)]) for request in requests]

    def _step(self, move: int) -> Sample:
        return Sample((move,), array("f", [-1.5]), SYMBOLS[move], "length")


def _place(request: SampleRequest) -> tuple[int, int]:
    """Slot and round."""
    slot, round_ = request.response_id.partition("/")[2].split(".")
    return int(slot), int(round_)


def _is_slow(request: SampleRequest) -> bool:
    plan = request.metadata["plan"]
    return plan in ("slow", "slow_constant") or (plan == "half" and _place(request)[0] > 0)


def _troubled(plan: str, logprobs: array[float]) -> Any:
    match plan:
        case "nan":
            return array("f", [logprobs[0], float("nan"), *logprobs[2:]])
        case "null":
            return [logprobs[0], None, *logprobs[2:]]
        case "positive":
            return array("f", [0.5, *logprobs[1:]])
        case "ragged":
            return logprobs[:-1]
    return logprobs


class Counting:
    """A learner that counts its steps and adds up what it was shown, whatever the order of the rows. So its checkpoint
    is equal to that of another run exactly if both trained on the same batches in the same order.

    Options: `seconds` that a step takes; `fails_at`: the step that raises. Gates: train-<step>, save-<steps> before a
    checkpoint is written, saving-<steps> in the middle of it, saved-<steps> after it.
    """

    device = "cpu"
    layout = "packed"
    pad_id = 0

    def __init__(self, seed: int, options: Mapping[str, Any]) -> None:
        self._seconds, self._fails_at = float(options.get("seconds", 0.0)), int(options.get("fails_at", -1))
        self._steps, self._seen = 0, hashlib.sha256(str(seed).encode()).hexdigest()

    def load(self, path: Path) -> None:
        found = json.loads(path.read_text())
        self._steps, self._seen = found["steps"], found["seen"]

    def save(self, path: Path) -> None:
        gate(f"save-{self._steps}")
        text = self._text()
        with path.open("x") as file:
            file.write(text[:10])
            file.flush()
            gate(f"saving-{self._steps}")
            file.write(text[10:])
        gate(f"saved-{self._steps}")

    def export(self, path: Path) -> None:
        with path.open("x") as file:
            file.write(self._text())

    def train(self, batch: Any) -> Mapping[str, float]:
        gate(f"train-{self._steps + 1}")
        time.sleep(self._seconds)
        if self._steps + 1 == self._fails_at:
            raise RuntimeError("this step fails")
        ids, ends = batch.input_ids.tolist(), batch.cu_seqlens.tolist()
        rows = zip(ends, ends[1:], batch.rewards.tolist(), strict=False)
        shown = sorted(json.dumps([ids[start:end], reward]) for start, end, reward in rows)
        self._seen = hashlib.sha256(json.dumps([self._seen, shown]).encode()).hexdigest()
        self._steps += 1
        return {"loss": 1.0 / self._steps, "rows": float(len(shown))}

    def _text(self) -> str:
        return json.dumps({"steps": self._steps, "seen": self._seen})


class Broken:
    """A verifier that is down: every call raises."""

    batch = 16
    concurrency = 2

    def __init__(self, seed: int, options: Mapping[str, Any]) -> None:
        pass

    async def score(self, requests: Sequence[ScoreRequest]) -> Sequence[Score]:
        raise ConnectionError("the judge is down")


class Table:
    """A learner with one number for each token id, which takes its steps by the objective that the run asks for, on
    packed rows. `steps` counts the batches, as the engine wants it."""

    device = "cpu"
    layout = "packed"
    pad_id = 0
    size = 1000

    def __init__(self, seed: int, options: Mapping[str, Any]) -> None:
        import torch

        self._torch, self._steps = torch, 0
        self._numbers = torch.full((self.size,), 0.4328, requires_grad=True)  # log sigmoid of it is -0.5

    def load(self, path: Path) -> None:
        found = json.loads(path.read_text())
        self._steps, self._numbers = found["steps"], self._torch.tensor(found["numbers"], requires_grad=True)

    def save(self, path: Path) -> None:
        with path.open("x") as file:
            json.dump({"steps": self._steps, "numbers": self._numbers.tolist()}, file)

    export = save

    def train(self, batch: Any) -> Mapping[str, float]:
        from pipeline.training.losses import corrected, objective

        self._steps += 1
        with self._torch.no_grad():
            batch = corrected(batch, self._logprobs(batch))
        metrics = {"loss": 0.0, "ratio": 0.0, "clip_fraction": 0.0}
        for part in batch.micro_batches(8):
            loss, statistics = objective(part, self._logprobs(part))
            loss.backward()
            for name in metrics:
                metrics[name] += float({"loss": loss.detach(), **statistics}[name])
        with self._torch.no_grad():
            self._numbers -= self._numbers.grad
        self._numbers.grad = None
        return {**batch.metrics, **metrics}

    def _logprobs(self, batch: Any) -> Any:
        return self._torch.nn.functional.logsigmoid(self._numbers[batch.input_ids % self.size])


class Refuses:
    """A selector that raises for each window."""

    def __init__(self, seed: int, options: Mapping[str, Any]) -> None:
        pass

    def __call__(self, window: Sequence[Any]) -> list[str]:
        raise RuntimeError("no window pleases")
