"""The shell of a pure stage: take records, step, commit outputs with the offset; or crash, and fold the log again."""

from __future__ import annotations

from functools import cache
from typing import Any

from pipeline.domain import events as e
from pipeline.domain.reaping import DiscardReaper, Reaper
from pipeline.domain.topology import READS, Output, Stage, Topic
from pipeline.domain.vocabulary import DropReason
from pipeline.log.state import StateCodec

from .log import Cause, Damaged, Record
from .payloads import group_of, partition_of_key
from .world import World


def as_input(record: Record) -> e.Event:
    """What a pure stage is given for a record."""
    if isinstance(record.event, Damaged):
        by_assembler = isinstance(record.cause, Cause) and record.cause.stage == "assembler"
        return e.Undecodable(record.event.group_id or "", by_assembler)
    return record.event


def is_own(stage: Stage[Any], record: Record) -> bool:
    """A pure stage skips the records that it caused itself: its state changed when it decided."""
    return isinstance(record.cause, Cause) and record.cause.stage == stage.name


def answers(stage: Stage[Any], state: Any, record: Record) -> list[Output]:
    return [] if is_own(stage, record) else list(stage.step(state, as_input(record)))


@cache
def codec_of(state_type: type[Any]) -> StateCodec[Any]:
    return StateCodec(state_type)


class StageProcess:
    """One stage on one partition."""

    def __init__(self, world: World, stage: Stage[Any], partition: int) -> None:
        self.world = world
        self.stage = stage
        self.partition = partition
        self.topic = READS[stage.name]
        self.input = world.log.topics[self.topic][partition]
        self.name = f"{stage.name}/{partition}"
        self.codec = codec_of(stage.state_type) if stage.state_type else None
        self.committed = 0
        self.snapshot: tuple[int, bytes] | None = None
        self.largest = 0
        self.state = stage.initial(partition)

    def ready(self) -> bool:
        return self.committed < len(self.input)

    def turn(self) -> None:
        start = self.committed
        outputs: list[tuple[Output, Cause]] = []
        taken = self.input[start : start + self.world.rng.randint(1, 6)]
        for offset, record in enumerate(taken, start):
            for index, output in enumerate(answers(self.stage, self.state, record)):
                outputs.append((output, Cause(self.stage.name, self.topic, self.partition, offset, index)))
        if self.world.crashes(self, "before its transaction"):
            return
        self.before_commit([output for output, _ in outputs])
        if self.world.crashes(self, "inside its transaction"):
            return
        for output, cause in outputs:
            self.world.log.append(output, cause)
        self.committed = start + len(taken)
        if self.codec and self.world.rng.random() < 0.1:
            self.snapshot = (self.committed, self.codec.encode(self.state))
            self.largest = max(self.largest, len(self.snapshot[1]))
        self.world.crashes(self, "after its transaction")

    def before_commit(self, outputs: list[Output]) -> None:
        """What the shell does outside the log before it commits."""

    def crash(self) -> None:
        """Lose the state; fold the committed input again, with outputs off."""
        self.state = self.folded()

    def folded(self) -> Any:
        """The state after the committed input, from the last snapshot if there is one."""
        start, state = 0, self.stage.initial(self.partition)
        if self.snapshot and self.codec:
            start, state = self.snapshot[0], self.codec.decode(self.snapshot[1])
        for record in self.input[start : self.committed]:
            answers(self.stage, state, record)
        return state

    def same(self, one: Any, other: Any) -> bool:
        """Whether two states are equal, the order of their dicts included."""
        if self.codec:
            return one == other and self.codec.encode(one) == self.codec.encode(other)
        return bool(one == other)


class LedgerReaper(StageProcess):
    """Unlinks before it commits, and sweeps the keys of groups that ended."""

    def __init__(self, world: World, stage: Reaper) -> None:
        super().__init__(world, stage, 0)

    def turn(self) -> None:
        super().turn()
        if self.world.rng.random() < 0.1:
            orphans = [k for k in self.world.payloads.keys if not self.state.is_live(group_of(k))]
            self.world.sweep(orphans)

    def before_commit(self, outputs: list[Output]) -> None:
        unlink(self.world, outputs)


class ResponseReaper(StageProcess):
    """Unlinks before it commits; before its copy of RunFinished it sweeps all that is left of its partition."""

    def __init__(self, world: World, stage: DiscardReaper, partition: int) -> None:
        super().__init__(world, stage, partition)

    def before_commit(self, outputs: list[Output]) -> None:
        unlink(self.world, outputs)
        if any(isinstance(o.event, e.RunFinished) for o in outputs):
            self.world.sweep([k for k in self.world.payloads.keys if partition_of_key(k) == self.partition])


def unlink(world: World, outputs: list[Output]) -> None:
    for output in outputs:
        if output.topic is Topic.DROPS and isinstance(output.event, e.PayloadsDropped):
            assert output.event.reason is not DropReason.SWEPT
            world.payloads.unlink(output.event.keys)
