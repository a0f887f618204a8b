"""How fast the demo's policy learns: the whole recipe in one process, without Kafka.

Zero-variance groups are rejected and replaced, batches are trained with a fixed staleness, and greedy accuracy on
held-out prompts is measured before and after. `python -m benchmarks.policy --seeds 1 2 3 --steps 120`
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from pipeline.engines.sorting import SortingEngine
from pipeline.prompts.sorting import PAD, SortingPrompts
from pipeline.sdk import SampleRequest, ScoreRequest, Task
from pipeline.training.advantages import AdvantageConfig
from pipeline.training.batches import Row, build
from pipeline.training.sorting import SortingLearner
from pipeline.verifiers.exact import ExactMatch


@dataclass(frozen=True, slots=True)
class Setting:
    """What may differ between runs."""

    steps: int
    groups: int
    group_size: int
    lr: float
    staleness: int
    digits: int
    train_size: int
    eval_every: int
    warm_start: float


class Trial:
    """One seed's run."""

    def __init__(self, setting: Setting, seed: int, folder: Path) -> None:
        self.setting, self.seed, self.folder = setting, seed, folder
        learning = {"lr": setting.lr, "digits": setting.digits, "warm_start_accuracy": setting.warm_start}
        self.learner = SortingLearner(seed, learning)
        self.engine = SortingEngine(seed, {"max_tokens": setting.digits + 1})
        self.verifier = ExactMatch(seed, {})
        self.held_out = SortingPrompts(seed, {"split": "eval", "size": 512, "digits": setting.digits})
        self.tasks = self._tasks(SortingPrompts(seed, {"size": setting.train_size, "digits": setting.digits}))
        self.pool: list[list[Row]] = []
        self.version, self.opened, self.verdicts, self.rejected = 0, 0, 0, 0

    def _tasks(self, source: SortingPrompts) -> Iterator[Task]:
        epoch = 0
        while True:
            yield from (source.at("sorting", ordinal, epoch) for ordinal in range(source.size("sorting")))
            epoch += 1

    async def run(self) -> dict[str, object]:
        """Learn, and say what came of it."""
        started = time.process_time()
        await self._publish()
        warm, curve = time.process_time() - started, [await self.accuracy()]
        measuring, curve_at = time.process_time() - started - warm, [0]
        while self.version < self.setting.steps:
            await self._fill()
            await self._train()
            if self.version % self.setting.eval_every == 0 or self.version == self.setting.steps:
                before = time.process_time()
                curve_at.append(self.version)
                curve.append(await self.accuracy())
                measuring += time.process_time() - before
        return {
            "seed": self.seed,
            "accuracy": {at: round(value, 3) for at, value in zip(curve_at, curve, strict=True)},
            "rejected": round(self.rejected / max(self.verdicts, 1), 3),
            "groups": self.verdicts,
            "warm_start_cpu_s": round(warm, 2),
            "cpu_s": round(time.process_time() - started - measuring, 2),
        }

    async def accuracy(self) -> float:
        """Greedy exact match on held-out prompts."""
        tasks = [self.held_out.at("sorting", ordinal, 0) for ordinal in range(self.held_out.size("sorting"))]
        _, rewards = await self._answers([(task, 0) for task in tasks], greedy=True)
        return sum(rewards) / len(rewards)

    async def _answers(self, asked: Sequence[tuple[Task, int]], *, greedy: bool) -> tuple[list, list[float]]:
        requests = [SampleRequest(str(seed), t.text, t.token_ids, seed, greedy, t.metadata) for t, seed in asked]
        samples = [s for i in range(0, len(requests), 256) for s in await self.engine.generate(requests[i : i + 256])]
        judged = [
            ScoreRequest("", sample.text, task.verifiers[0].target, {})
            for sample, (task, _) in zip(samples, asked, strict=True)
        ]
        return samples, [score.value or 0.0 for score in await self.verifier.score(judged)]

    async def _fill(self) -> None:
        """Generate until this batch and those that run ahead of it are full."""
        wanted = self.setting.groups * min(1 + self.setting.staleness, self.setting.steps - self.version)
        while len(self.pool) < wanted:
            size = self.setting.group_size
            opened = [next(self.tasks) for _ in range(32)]
            asked = [(task, (self.seed << 40) + self.opened * size + i) for task in opened for i in range(size)]
            self.opened += len(asked) // size
            await self._judge(asked)

    async def _judge(self, asked: Sequence[tuple[Task, int]]) -> None:
        samples, rewards = await self._answers(asked, greedy=False)
        size = self.setting.group_size
        for first in range(0, len(asked), size):
            self.verdicts += 1
            if len(set(rewards[first : first + size])) == 1:
                self.rejected += 1
                continue
            prompt = array("i", asked[first][0].token_ids)
            self.pool.append(
                [
                    Row(
                        prompt,
                        samples[i].token_ids,
                        samples[i].logprobs,
                        None,
                        rewards[i],
                        self.verdicts,
                        (self.version,) * 2,
                    )
                    for i in range(first, first + size)
                ]
            )

    async def _train(self) -> None:
        chosen, self.pool = self.pool[: self.setting.groups], self.pool[self.setting.groups :]
        rows = [row for group in chosen for row in group]
        self.learner.train(build(rows, pad_id=PAD, device="cpu", layout="padded", advantage=AdvantageConfig()))
        self.version += 1
        await self._publish()

    async def _publish(self) -> None:
        path = self.folder / f"policy-{self.version}.pt"
        self.learner.export(path)
        await self.engine.load_policy(path, self.version)
        path.unlink()


def main() -> None:
    """Print one JSON line a seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--groups", type=int, default=32)
    parser.add_argument("--group-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--staleness", type=int, default=1)
    parser.add_argument("--digits", type=int, default=6)
    parser.add_argument("--train-size", type=int, default=16_384)
    parser.add_argument("--eval-every", type=int, default=50)
    parser.add_argument("--warm-start", type=float, default=0.25)
    given = vars(parser.parse_args())
    seeds = given.pop("seeds")
    torch.set_num_threads(1)
    print(json.dumps(given))
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(asyncio.run(Trial(Setting(**given), seed, Path(folder)).run())), flush=True)


if __name__ == "__main__":
    main()
