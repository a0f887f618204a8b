"""The demo's parts together, in one process and without a log: prompts, engine, verifier, filter, batch, learner."""

import asyncio
from array import array
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

from pipeline.engines.sorting import SortingEngine
from pipeline.prompts.sorting import PAD, SortingPrompts
from pipeline.sdk import SampleRequest, ScoreRequest, Task
from pipeline.training.advantages import AdvantageConfig
from pipeline.training.batches import Row, build
from pipeline.training.sorting import SortingLearner
from pipeline.verifiers.exact import ExactMatch

STEPS, GROUPS, GROUP_SIZE, DIGITS = 30, 16, 8, 4


def endless(prompts: SortingPrompts) -> Iterator[Task]:
    for number in count():
        epoch, ordinal = divmod(number, prompts.size("sorting"))
        yield prompts.at("sorting", ordinal, epoch)


async def answered(engine: SortingEngine, tasks: list[Task], first_seed: int, greedy: bool = False) -> list[Row]:
    """One row a task, in order, its reward judged; equal tasks next to each other are a group."""
    requests = [SampleRequest("", t.text, t.token_ids, first_seed + i, greedy, {}) for i, t in enumerate(tasks)]
    samples = await engine.generate(requests)
    asked = [
        ScoreRequest("", sample.text, task.verifiers[0].target, {}) for sample, task in zip(samples, tasks, strict=True)
    ]
    scores = await ExactMatch(0, {}).score(asked)
    return [
        Row(array("i", task.token_ids), sample.token_ids, sample.logprobs, None, score.value or 0.0, index, (0, 0))
        for index, (task, sample, score) in enumerate(zip(tasks, samples, scores, strict=True))
    ]


async def accuracy(engine: SortingEngine, prompts: SortingPrompts) -> float:
    rows = await answered(engine, list(islice(endless(prompts), prompts.size("sorting"))), 0, greedy=True)
    return sum(row.reward for row in rows) / len(rows)


async def informative(engine: SortingEngine, tasks: Iterator[Task], seeds: Iterator[int]) -> list[Row]:
    """Whole groups whose rewards differ, as many as a batch takes; the others are replaced."""
    kept: list[Row] = []
    while len(kept) < GROUPS * GROUP_SIZE:
        asked = [task for task in islice(tasks, 32) for _ in range(GROUP_SIZE)]
        rows = await answered(engine, asked, next(seeds))
        groups = [rows[first : first + GROUP_SIZE] for first in range(0, len(rows), GROUP_SIZE)]
        kept += [row for group in groups if len({row.reward for row in group}) > 1 for row in group]
    return kept[: GROUPS * GROUP_SIZE]


async def learned(folder: Path) -> tuple[float, float]:
    """Held-out greedy accuracy before and after."""
    learner = SortingLearner(1, {"digits": DIGITS})
    engine = SortingEngine(1, {"max_tokens": DIGITS + 1})
    tasks, seeds = endless(SortingPrompts(1, {"digits": DIGITS, "size": 2000})), count(step=10_000)
    held_out = SortingPrompts(1, {"split": "eval", "digits": DIGITS, "size": 256})
    results = []
    for step in range(STEPS + 1):
        learner.export(folder / f"{step}")
        await engine.load_policy(folder / f"{step}", step)
        if step in (0, STEPS):
            results.append(await accuracy(engine, held_out))
        if step < STEPS:
            rows = await informative(engine, tasks, seeds)
            rows = [replace(row, group=index // GROUP_SIZE) for index, row in enumerate(rows)]
            learner.train(build(rows, pad_id=PAD, device="cpu", layout="padded", advantage=AdvantageConfig()))
    before, after = results
    return before, after


def test_the_policy_gets_better_at_answers_that_it_never_trained_on(tmp_path: Path) -> None:
    before, after = asyncio.run(learned(tmp_path))
    assert 0.0 < before < 0.45
    assert after > before + 0.15
