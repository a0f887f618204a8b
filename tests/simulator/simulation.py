"""Builds a world and runs it to its end; what is wrong with it, as sentences."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass

from pipeline.domain.assembly import Assembler
from pipeline.domain.filters.stage import Filter
from pipeline.domain.reaping import DiscardReaper, Reaper
from pipeline.domain.scheduling import Scheduler
from pipeline.domain.window_batching import batcher

from .checks import problems
from .facts import Generator, Person, Scorer
from .settings import Setup, Source, setup_of
from .stages import LedgerReaper, ResponseReaper, StageProcess
from .trainer import Trainer
from .world import Stuck, World


@dataclass(frozen=True, slots=True)
class Result:
    name: str
    setup: Setup
    seed: int
    world: World
    problems: list[str]

    def report(self) -> str:
        again = f"python -m tests.simulator --config {self.name} --seed {self.seed}"
        return "\n".join([f"{self.setup.name}: {len(self.problems)} problems; again: {again}", *self.problems[:8]])


def simulate(name: str, seed: int, trace: Callable[[str], None] | None = None) -> Result:
    """Run one schedule of a configuration to its end and audit it."""
    setup = setup_of(name, seed)
    world = World(setup, seed, trace)
    stages, trainer = build(world)
    try:
        world.run()
    except Stuck as error:
        states = [
            f"  {p.name}: ready={p.ready()} {getattr(p, 'state', getattr(p, 'book', ''))}" for p in world.processes
        ]
        return Result(name, setup, seed, world, [f"stuck: {error}\n" + "\n".join(states)])
    except Exception as error:
        where = traceback.format_exception(error)[-3:]
        return Result(name, setup, seed, world, [f"raised: {type(error).__name__}: {error}\n{''.join(where)}"])
    return Result(name, setup, seed, world, problems(world, stages, trainer))


def build(world: World) -> tuple[list[StageProcess], Trainer]:
    rules, members = world.rules, world.members
    prompts = Source(world.setup.prompts, _too_long(world.setup))
    exam = Source(world.setup.eval_prompts) if world.setup.eval_prompts else None
    stages = [
        StageProcess(world, Scheduler(rules, prompts, exam, ("exam",) if exam else ()), 0),
        StageProcess(world, batcher(rules), 0),
        LedgerReaper(world, Reaper(members)),
        *[StageProcess(world, Assembler(rules, members), p) for p in range(rules.partitions)],
        *[StageProcess(world, Filter(rules, members), p) for p in range(rules.filter_partitions)],
        *[ResponseReaper(world, DiscardReaper(), p) for p in range(rules.partitions)],
    ]
    trainer = Trainer(world)
    facts = [
        *(Generator(world, p) for p in range(rules.partitions)),
        *(Scorer(world, p) for p in range(rules.partitions)),
    ]
    world.processes = [*stages, trainer, *facts, Person(world)]
    return stages, trainer


def _too_long(setup: Setup) -> Callable[[int], bool]:
    if setup.failing == "prompt":
        return lambda ordinal: ordinal == 9
    return lambda ordinal: ordinal % 11 == 10
