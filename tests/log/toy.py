"""A pure stage as small as can be, under the assembler's name, and a process around it.

It counts the responses of each open group and answers each with its number: a state that was lost, doubled or restored
wrongly shows in the next answer.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from pipeline.domain import events as e
from pipeline.domain.rules import AssemblyRules, EvaluationRules, Rules, StarvationRules
from pipeline.domain.topology import InvariantBroken, Output, StageName, Topic
from pipeline.domain.vocabulary import DiscardReason, FinishReason, Grading, Purpose, StarvationPolicy

STARVATION = StarvationRules(StarvationPolicy.RAISE, 0, 0.0, 0, 0)
SHAPE = os.environ.get("TOY_SHAPE", "old")


def toy_rules(run: str, partitions: int = 1, filter_partitions: int = 1) -> Rules:
    """Rules of which only the partitions matter."""
    return Rules(
        run=run,
        seed=0,
        steps=1,
        partitions=partitions,
        filter_partitions=filter_partitions,
        group_size=2,
        redundancy=0,
        async_ratio=1.0,
        max_staleness=1,
        prefetch=1,
        oversample_max=2.0,
        max_open_groups=8,
        domains=(),
        replacement="next_prompt",
        expired_replacement="same_prompt",
        max_attempts=1,
        max_task_bytes=1,
        max_prompt_tokens=1,
        too_long="error",
        assembly=AssemblyRules("valid", 1, 1, 1),
        evaluation=EvaluationRules(0, 1, 1, 0),
        starvation=STARVATION,
        payload_budget=1,
        max_payload_bytes=1,
        payload_ttl_ms=1,
        checkpoint_every=1,
        empty_stop_steps=5,
        tick_ms=50,
    )


@dataclass(slots=True)
class Counts:
    """Responses by open group, in the order of opening."""

    partition: int
    seen: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class OtherCounts:
    """The same in another shape, as another release might have it."""

    partition: int
    seen: dict[str, int] = field(default_factory=dict)
    total: int = 0


class Counter:
    name = StageName.ASSEMBLER
    state_type = Counts if SHAPE == "old" else OtherCounts

    def initial(self, partition: int) -> Counts | OtherCounts:
        return self.state_type(partition)

    def entries(self, state: Counts) -> int:
        return len(state.seen)

    def step(self, state: Counts, event: e.Event) -> Iterator[Output]:
        match event:
            case e.GroupOpened():
                state.seen[event.group_id] = 0
            case e.ResponseScored():
                state.seen[event.group_id] = state.seen.get(event.group_id, 0) + 1
                yield answer(state, event.group_id, event.slot)
                if state.seen[event.group_id] % 5 == 0:
                    yield answer(state, event.group_id, event.slot)
            case e.Undecodable():
                yield answer(state, event.group_id, -1)
            case e.RunFinished():
                yield Output(Topic.GROUPS, 0, event)
                yield Output(Topic.DISCARDS, state.partition, event)
            case e.Tick():
                pass
            case e.GroupCancelled():
                raise InvariantBroken(f"group {event.group_id} must not be cancelled")
            case _:
                raise InvariantBroken(f"{type(event).__name__} is not for counting")


def answer(state: Counts, group_id: str, slot: int) -> Output:
    number = state.seen.get(group_id, 0)
    event = e.ResponseDiscarded(group_id, slot, number, None, sum(state.seen.values()), 0, DiscardReason.LATE, None, 0)
    return Output(Topic.DISCARDS, state.partition, event)


def opened(group_id: str) -> e.GroupOpened:
    prompt = e.PromptRef("p", "d", 0, 0)
    return e.GroupOpened(group_id, prompt, Purpose.TRAIN, None, group_id, None, 1, 0, 2, 0, 0, b"task", 0)


def scored(group_id: str, slot: int) -> e.ResponseScored:
    return e.ResponseScored(
        group_id=group_id,
        slot=slot,
        round=1,
        payload_key=None,
        payload_bytes=4096,
        discard=None,
        raw_score=1.0,
        penalties=0.0,
        reward=1.0,
        components={"math": 1.0},
        grading=Grading.GRADED,
        failure=None,
        detail=None,
        grading_attempts=1,
        grading_ms=1,
        finish_reason=FinishReason.STOP,
        prompt_tokens=10,
        response_tokens=100,
        oldest_version=1,
        newest_version=1,
        entropy=0.5,
        drop_flag=False,
        env_timeout=False,
        env_failed=False,
        generator="g",
        text=None,
        at=1_764_470_000_000 + slot,
    )


def main() -> int:
    from pipeline.log.client import Connection
    from pipeline.log.errors import LogError
    from pipeline.log.hooks import Hooks
    from pipeline.log.loop import Loop

    stopped = False

    def stop(*_: object) -> None:
        nonlocal stopped
        stopped = True

    signal.signal(signal.SIGTERM, stop)
    bootstrap, run, slot, partitions, *flags = sys.argv[1:]
    connection = Connection(bootstrap, run, slot)
    hooks = Hooks(
        assigned=lambda partitions: print("assigned", *partitions, flush=True),
        dropped=lambda: print("dropped", flush=True),
    )
    try:
        return Loop(connection, Counter(), toy_rules(run, int(partitions)), hooks).run(
            lambda: stopped, until_finished="--until-finished" in flags
        )
    except LogError as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
