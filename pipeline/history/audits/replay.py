"""I6: each pure stage, fed its recorded input again, gives its recorded outputs, byte for byte.

The stages' own loop decides what a record means (pipeline/log/lane.py): which are skipped, which are poison. States
depend on inputs alone, so one difference doesn't hide or cause another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pipeline import plugins
from pipeline.domain import events as e
from pipeline.domain.assembly import Assembler
from pipeline.domain.filters.stage import Filter
from pipeline.domain.ports import Prompts
from pipeline.domain.reaping import DiscardReaper, Reaper
from pipeline.domain.rules import Rules
from pipeline.domain.scheduling import Scheduler
from pipeline.domain.topology import READS, MembersCodec, Output, Stage, partitions
from pipeline.domain.window_batching import batcher
from pipeline.history.audits.answers import Answers, Lane, LaneAnswers, digest, total
from pipeline.history.audits.differences import explain
from pipeline.history.audits.prompts import NotRecorded, PromptsSeen
from pipeline.history.records import RunLog
from pipeline.log import lane as stage_lane
from pipeline.log.codec import encode
from pipeline.log.errors import Stop
from pipeline.log.reader import Record

MOST_EXPLAINED: Final = 5


class Sources(NamedTuple):
    """The run's own prompt sources, where they are at hand and unchanged."""

    prompts: Prompts
    eval_prompts: Prompts | None
    eval_domains: tuple[str, ...]


@dataclass(slots=True)
class Replay:
    """`inputs` and `outputs` compared; `waiting`, by stage-partition: why the rest could not be compared yet."""

    inputs: int = 0
    outputs: int = 0
    differences: list[str] = field(default_factory=list)
    waiting: dict[str, str] = field(default_factory=dict)


class Difference(NamedTuple):
    """An input whose recorded answers are not those of the replay."""

    offset: int
    outputs: list[Output]


class Incoming:
    """A record as the stages' loop takes it."""

    __slots__ = ("_record",)

    def __init__(self, record: Record) -> None:
        self._record = record

    def offset(self) -> int:
        return self._record.offset

    def key(self) -> bytes | None:
        return self._record.key

    def value(self) -> bytes | None:
        return self._record.value

    def headers(self) -> Any:
        return self._record.headers

    def timestamp(self) -> tuple[int, int]:
        return (1, self._record.timestamp_ms)


def stages(rules: Rules, members: MembersCodec, seen: PromptsSeen, sources: Sources | None) -> list[Stage[Any]]:
    """Every pure stage of a run; the scheduler with the given sources, else with the recorded prompts."""
    if sources is not None:
        scheduler = Scheduler(rules, *sources)
    else:
        scheduler = Scheduler(rules, seen.training, seen.evaluation, tuple(seen.evaluation.sizes))
    return [
        scheduler,
        batcher(rules, members, plugins.selectors(rules)),
        Reaper(members),
        Assembler(rules, members),
        Filter(rules, members, plugins.group_filters(rules)),
        DiscardReaper(),
    ]


def replay(log: RunLog, rules: Rules, every: list[Stage[Any]], answers: Answers, whole: bool) -> Replay:
    """Replay all stages; uses the answers up. `whole`: the run is drained, so that all of them must be there."""
    result = Replay()
    for stage in every:
        for partition in range(partitions(READS[stage.name], rules)):
            OneLane(log, rules, stage, partition, answers).run(whole, result)
    return result


class OneLane:
    """The replay of one stage on one partition."""

    def __init__(self, log: RunLog, rules: Rules, stage: Stage[Any], partition: int, answers: Answers) -> None:
        self.log, self.stage, self.partition = log, stage, partition
        self.topic = READS[stage.name]
        self.lane = Lane(stage.name.value, self.topic.value, partition)
        self.recorded = answers.lanes.get(self.lane, LaneAnswers())
        self._loop = stage_lane.Lane(stage, rules, partition)

    def run(self, whole: bool, result: Replay) -> None:
        """Compare input by input, and put what was found into `result`."""
        found: list[Difference] = []
        name = f"{self.lane.stage}/{self.partition}"
        for record in self.log.read(self.topic, self.partition):
            if not whole and record.offset > self.recorded.settled:
                result.waiting[name] = f"input from {self.topic}/{self.partition}/{record.offset} on"
                break
            try:
                outputs = self._loop.step(Incoming(record))
            except Exception as error:  # a log that was tampered with can break a step in any way
                what = error if isinstance(error, Stop | NotRecorded) else repr(error)
                where = f"{self.topic}/{self.partition}/{record.offset}"
                result.differences.append(f"I6 {name} can't take {where}: {what}")
                return
            result.inputs += 1
            result.outputs += len(outputs)
            recorded, self.recorded.digests[record.offset] = self.recorded.digests[record.offset], 0
            if self._answer(outputs) != recorded:
                found.append(Difference(record.offset, outputs))
        left = [o for o in self.recorded.digests.used() if whole or o <= self.recorded.settled]
        found += [Difference(offset, []) for offset in left]
        result.differences += self._explained(found)

    def _answer(self, outputs: list[Output]) -> int:
        if not outputs:
            return 0
        return total([digest(i, o.topic, o.partition, _key(o.event), encode(o.event)) for i, o in enumerate(outputs)])

    def _explained(self, found: list[Difference]) -> Iterator[str]:
        """The first differences in full, the others as a number."""
        shown = {d.offset: d.outputs for d in found[:MOST_EXPLAINED]}
        if shown:
            yield from explain(self.log, self.lane, shown)
        if len(found) > len(shown):
            yield f"I6 {self.lane.stage}/{self.partition}: {len(found) - len(shown)} more inputs have other answers"


def _key(event: e.Event) -> bytes | None:
    key = e.key_of(event)
    return None if key is None else key.encode()
