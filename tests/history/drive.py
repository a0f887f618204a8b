"""A whole small run in memory: the real stages on real bytes, with made-up generators, scorers and trainer.

Everything is a function of the seed. The clock moves by hand.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

from pipeline import plugins
from pipeline.domain import events as e
from pipeline.domain.assembly import Assembler
from pipeline.domain.filters.stage import Filter
from pipeline.domain.ports import Issuable
from pipeline.domain.reaping import DiscardReaper, Reaper
from pipeline.domain.rules import DECISION_VERSIONS, Rules, rules_of
from pipeline.domain.scheduling import Scheduler
from pipeline.domain.topology import READS, Output, Topic, partitions
from pipeline.domain.vocabulary import DiscardReason, FinishReason, Grading, Purpose
from pipeline.domain.window_batching import batcher
from pipeline.history.audits.replay import Incoming
from pipeline.log.cause import CAUSE
from pipeline.log.codec import Members, encode
from pipeline.log.lane import Lane, Writer
from pipeline.log.reader import Record

CONFIG: dict[str, Any] = {
    "run": "t", "seed": 7, "steps": 4, "partitions": 2, "filter_partitions": 2, "group_size": 3, "redundancy": 1,
    "async_ratio": 1.0, "max_staleness": 1, "prefetch": 1, "oversample_max": 2.0, "max_open_groups": 100,
    "domains": [{
        "name": "sort", "quota": 4, "filter_hash": "f00d",
        "filters": [{"type": "zero_std", "tol": 1e-8, "metric": "reward", "max_reward": 1.0}],
    }],
    "replacement": "next_prompt", "expired_replacement": "same_prompt", "max_attempts": 0, "max_task_bytes": 1000,
    "max_prompt_tokens": 100, "too_long": "error",
    "assembly": {"count": "valid", "max_rounds": 5, "lease_ms": 60_000, "deadline_ms": 600_000},
    "evaluation": {"every": 2, "samples": 1, "max_open": 4, "limit": 0},
    "starvation": {
        "policy": "raise", "rejections_in_a_row": 0, "min_acceptance": 0.0, "window": 0, "no_progress_ms": 0,
    },
    "payload_budget": 10**9, "max_payload_bytes": 1000, "payload_ttl_ms": 10**7, "checkpoint_every": 2,
    "empty_stop_steps": 5, "tick_ms": 1000,
}  # fmt: skip
START_MS = 1_700_000_000_000


class Numbers:
    """A source of `size` prompts; `too_long` names an ordinal that can't be issued."""

    def __init__(self, name: str, size: int, too_long: int = -1) -> None:
        self.name, self.length, self.too_long = name, size, too_long

    def size(self, domain: str) -> int:
        return self.length

    def at(self, domain: str, ordinal: int, epoch: int) -> Issuable:
        name = f"{self.name}-{epoch}-{ordinal}"
        return Issuable(name, name.encode(), 5, "200 tokens" if ordinal == self.too_long else None)


class Drive:
    """The log and who writes it. `records` holds all, in the order of writing; `stride` is from offset to offset."""

    def __init__(self, config: dict[str, Any] | None = None, source: Numbers | None = None, stride: int = 2) -> None:
        self.stride = stride
        self.config = CONFIG | (config or {})
        self.rules: Rules = rules_of(self.config)
        self.rng = random.Random(self.rules.seed)
        self.records: list[Record] = []
        self.topics: dict[tuple[Topic, int], list[Record]] = {}
        self.now = START_MS
        self.facts = 0
        self.read = dict[str, int]()
        self.trained = 0
        self.waiting: list[int] = []
        members = Members()
        source = source or Numbers("train", 1000)
        self.stages = [
            Scheduler(self.rules, source, Numbers("eval", 3), (self.rules.domains[0].name,)),
            batcher(self.rules, members, plugins.selectors(self.rules)), Reaper(members),
            Assembler(self.rules, members), Filter(self.rules, members), DiscardReaper(),
        ]  # fmt: skip
        self.lanes = [
            (stage.name, Lane(stage, self.rules, p))
            for stage in self.stages
            for p in range(partitions(READS[stage.name], self.rules))
        ]
        self.started = e.RunStarted(
            self.rules.run,
            json.dumps(self.config),
            "",
            dict(DECISION_VERSIONS),
            {},
            {},
            "",
            {d.name: source.size(d.name) for d in self.rules.domains},
            "",
            {self.rules.domains[0].name: 3},
            "test",
            self.now,
        )
        self.fact("init", Topic.LEDGER, 0, self.started)
        self.fact("trainer", Topic.LEDGER, 0, e.CheckpointSaved(0, "c0", "", (), self.now))
        self.fact("trainer", Topic.LEDGER, 0, e.TrainerStarted(1, 0, "p0", "", "t", self.now))

    def run(self, turns: int = 2000) -> list[Record]:
        """Until every copy of RunFinished is in `drops`, or `turns` are over."""
        for _ in range(turns):
            self.turn()
            if sum(isinstance(r.event(), e.RunFinished) for r in self.records if r.topic is Topic.DROPS) == 3:
                return self.records
        return self.records

    def turn(self) -> None:
        """Everybody once."""
        self.now += 1000
        if not any(isinstance(r.event(), e.RunFinished) for r in self.new(Topic.LEDGER, 0, "ticker")):
            self.fact("ticker", Topic.LEDGER, 0, e.Tick(self.now, None))
        for name, lane in self.lanes:
            for record in self.new(READS[name], lane.partition, name):
                outputs = lane.step(Incoming(record))
                where = f"{name}/{READS[name]}/{lane.partition}/{record.offset}"
                for index, output in enumerate(outputs):
                    self.append(output, f"{where}/{index}")
        for partition in range(self.rules.partitions):
            self.generate(partition)
            self.score(partition)
        self.train()

    def generate(self, p: int) -> None:
        for record in self.new(Topic.PROMPTS, p, "generator"):
            event, outputs = record.event(), list[e.Event]()
            if isinstance(event, e.PromptIssued):
                outputs = [self.response(event, i, 1) for i in range(event.group_size + event.redundancy)]
            if isinstance(event, e.ResponsesRequested):
                outputs = [self.response(event, s.slot, s.round) for s in event.slots]
            if isinstance(event, e.RunFinished):
                outputs = [event]
            self.answer("generator", record, Topic.RESPONSES, outputs)

    def response(self, event: e.PromptIssued | e.ResponsesRequested, slot: int, round: int) -> e.ResponseGenerated:
        key = f"tamis:t:{{{event.group_id}}}:{slot}.{round}:{len(self.records):x}"
        return e.ResponseGenerated(
            event.group_id, slot, round, event.purpose, key, 100, 40, None, None, FinishReason.STOP, 5,
            self.rng.randint(3, 9), event.min_version, event.min_version, 0.5, None, False, False, False, 800,
            f"generator-{p_of(event.group_id)}", self.now,
        )  # fmt: skip

    def score(self, p: int) -> None:
        for record in self.new(Topic.RESPONSES, p, "scorer"):
            event = record.event()
            out: e.Event = event
            if isinstance(event, e.ResponseGenerated):
                failed = event.purpose is Purpose.TRAIN and self.rng.random() < 0.1
                reward = None if failed else float(self.rng.random() < 0.5)
                out = e.ResponseScored(
                    event.group_id, event.slot, event.round, event.payload_key, 100,
                    DiscardReason.FILTERED if failed else None, reward, 0.0, reward, {},
                    Grading.UNGRADED if failed else Grading.GRADED, None, None, 1, 2, event.finish_reason, 5,
                    event.response_tokens, event.oldest_version, event.newest_version, 0.5, False, False, False,
                    event.generator, None, self.now,
                )  # fmt: skip
            self.answer("scorer", record, Topic.ROLLOUTS, [out])

    def train(self) -> None:
        for record in self.new(Topic.LEDGER, 0, "trainer"):
            event = record.event()
            if isinstance(event, e.BatchFormed):
                self.trained += 1
                self.waiting.append(event.batch)
                outputs: list[e.Event] = [e.BatchTrained(event.batch, self.trained, "p", "", {"loss": 0.1}, self.now)]
                if self.trained % self.rules.checkpoint_every == 0 or self.trained == self.rules.steps:
                    outputs.insert(0, e.CheckpointSaved(self.trained, "c", "", tuple(self.waiting), self.now))
                    self.waiting.clear()
                self.answer("trainer", record, Topic.LEDGER, outputs)
            if isinstance(event, e.RunClosing) and self.waiting:
                saved = e.CheckpointSaved(self.trained, "c", "", tuple(self.waiting), self.now)
                self.answer("trainer", record, Topic.LEDGER, [saved])

    def new(self, topic: Topic, partition: int, reader: str) -> Sequence[Record]:
        """What the reader has not read; a view from before its own writing."""
        there = self.topics.get((topic, partition), [])
        place = f"{reader}/{topic}/{partition}"
        start, self.read[place] = self.read.get(place, 0), len(there)
        return there[start:]

    def answer(self, stage: str, record: Record, topic: Topic, outputs: list[e.Event]) -> None:
        for index, event in enumerate(outputs):
            cause = f"{stage}/{record.topic}/{record.partition}/{record.offset}/{index}"
            partition = 0 if topic is Topic.LEDGER else record.partition
            self.append(Output(topic, partition, event), cause)

    def fact(self, producer: str, topic: Topic, partition: int, event: e.Event) -> None:
        self.facts += 1
        self.append(Output(topic, partition, event), f"{producer}/here/{self.facts}")

    def append(self, output: Output, cause: str) -> None:
        self.now += 1
        there = self.topics.setdefault((output.topic, output.partition), [])
        message = Writer("t").record(output, cause)
        key = message.key.encode() if isinstance(message.key, str) else None
        record = Record(
            output.topic, output.partition, self.stride * len(there), self.now, key, [(CAUSE, cause.encode())],
            encode(output.event),
        )  # fmt: skip
        there.append(record)
        self.records.append(record)


def p_of(group_id: str) -> str:
    return group_id.split("@")[1]
