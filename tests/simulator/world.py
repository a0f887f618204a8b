"""One run: the log, the payloads, the processes, and who goes next. Everything random comes from one seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Protocol

from pipeline.domain import events as e
from pipeline.domain.lifecycle import Ledger
from pipeline.domain.topology import Output, Topic
from pipeline.domain.vocabulary import DropReason
from pipeline.log.codec import Members

from .log import Log, Record
from .payloads import Payloads, partition_of_key
from .settings import Chaos, Setup

IDLE_TICKS = 400
"""Ticks in a row, with nobody else having anything to do, after which a run is called stuck."""

MOST_TURNS = 30_000


class Process(Protocol):
    name: str

    def ready(self) -> bool: ...

    def turn(self) -> None: ...

    def crash(self) -> None: ...


class RememberedMembers:
    """The real codec; what was decoded once is not decoded again."""

    def __init__(self) -> None:
        self._real = Members()
        self._known: dict[bytes, tuple[e.Member, ...]] = {}

    def encode(self, members: tuple[e.Member, ...]) -> bytes:
        return self._real.encode(members)

    def decode(self, encoded: bytes) -> tuple[e.Member, ...]:
        if encoded not in self._known:
            self._known[encoded] = self._real.decode(encoded)
        return self._known[encoded]


class Stuck(Exception):
    """The run makes no progress any more."""


class World:
    """`trace` gets a line for each record and each fault."""

    def __init__(self, setup: Setup, seed: int, trace: Callable[[str], None] | None = None) -> None:
        self.setup = setup
        self.rules = setup.rules
        self.rng = random.Random(seed)
        self.trace = trace
        self.chaos: Chaos = setup.chaos
        self.payloads = Payloads()
        self.policies: dict[str, int] = {}
        self.members = RememberedMembers()
        self.log = Log(setup.rules, setup.wire, self._damages)
        self.ledger = Ledger(setup.rules, self.members)
        self.log.watchers.append(self._watch)
        self.processes: list[Process] = []
        self.violations: list[str] = []
        self.crashes_seen = 0
        self.turns = 0
        self.idle_ticks = 0
        self.now = 1_000_000
        self.finished = False
        self.copies = 0

    # ------------------------------------------------------------------------------------------------------- faults

    def chance(self, probability: float) -> bool:
        return probability > 0 and self.rng.random() < probability

    def crashes(self, process: Process, where: str) -> bool:
        """Whether the process is killed here; if so, it is up again when this returns."""
        if not self.chance(self.chaos.crash):
            return False
        self.say(f"!! {process.name} crashes {where}")
        self.crashes_seen += 1
        process.crash()
        return True

    def _damages(self, topic: Topic, event: e.Event) -> bool:
        if topic in (Topic.LEDGER, Topic.DROPS, Topic.PROMPTS) or e.key_of(event) is None:
            return False
        if isinstance(event, e.GroupOpened | e.GroupCancelled):
            return False
        return self.chance(self.chaos.damage)

    def sweep(self, keys: list[str]) -> None:
        """Unlink keys that nobody will drop by name, and say so."""
        self.payloads.unlink(keys)
        for key in keys:
            self.say(f"   sweep {key}")
            swept = e.PayloadsDropped(None, (key,), DropReason.SWEPT, self.now)
            self.log.append(Output(Topic.DROPS, max(partition_of_key(key), 0), swept), "sweep")

    # --------------------------------------------------------------------------------------------------------- course

    def run(self) -> None:
        """Until every copy of RunFinished is in `drops`. Faults end after a while: from then on it must get there."""
        while self.copies < self.rules.partitions + 1:
            self.turns += 1
            if self.turns == self.setup.calm_after:
                self.say("-- no more faults")
                self.chaos = self.chaos.calm()
            if self.turns > MOST_TURNS:
                raise Stuck(f"not finished after {self.turns} turns")
            self._one_turn()
            if self.violations or self.ledger.violations:
                return

    def _one_turn(self) -> None:
        if self.turns == self.setup.kill_at or self.chance(self.chaos.kill_all):
            self.say("!! everything is killed")
            self.crashes_seen += 1
            for process in self.processes:
                process.crash()
        if self.chance(self.chaos.lose_payload) and self.payloads.keys:
            key = self.rng.choice(list(self.payloads.keys))
            self.say(f"!! payload {key} is lost")
            self.payloads.lose(key)
        ready = [p for p in self.processes if p.ready()]
        if ready and not self.chance(self.setup.tick_rate):
            self.rng.choice(ready).turn()
            self.idle_ticks = 0
            return
        self.idle_ticks += not ready
        if self.idle_ticks > IDLE_TICKS:
            raise Stuck(f"{self.idle_ticks} ticks in a row changed nothing")
        if not self.finished:
            self._tick()

    def _tick(self) -> None:
        step = self.rng.choice((1, 1, 1, 1, 1, 0, 10, -3)) if self.chaos.crash else 1
        self.now += step * self.rules.tick_ms
        self.log.facts(Topic.LEDGER, 0, [e.Tick(self.now, None)], "ticker")

    def _watch(self, topic: Topic, partition: int, record: Record) -> None:
        if topic is Topic.LEDGER:
            self.ledger.note(record.event)
            self.finished = self.finished or isinstance(record.event, e.RunFinished)
        if topic is Topic.DROPS:
            self.copies += isinstance(record.event, e.RunFinished)
        if self.trace:
            offset = len(self.log.topics[topic][partition]) - 1
            self.trace(f"   {topic}/{partition}/{offset} {shown(record.event)}  <- {cause_text(record)}")

    def say(self, line: str) -> None:
        if self.trace:
            self.trace(line)

    def violation(self, sentence: str) -> None:
        self.violations.append(sentence)


def cause_text(record: Record) -> str:
    return record.cause if isinstance(record.cause, str) else "/".join(map(str, record.cause))


_LONG = {"members", "task", "scores", "measurements", "components", "guard_state", "shadows", "filter_hash", "prompt"}


def shown(event: e.Event) -> str:
    """An event on one line, without what is long."""
    fields = getattr(type(event), "__dataclass_fields__", {})
    parts = [f"{n}={_short(getattr(event, n))}" for n in fields if n not in _LONG and getattr(event, n) is not None]
    return f"{type(event).__name__}({', '.join(parts)})"


def _short(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(getattr(v, "group_id", None) or str(v) for v in value) + "]"
    return str(value)
