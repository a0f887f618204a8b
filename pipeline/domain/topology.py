"""Topics, who may write what on them, and the shape of a pure stage (docs/architecture.md has the picture)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from pipeline.domain import events as e
from pipeline.domain.frozen import frozen
from pipeline.domain.rules import Rules


class Topic(StrEnum):
    """The topics of a run; a Kafka topic is called `tamis.<run>.<topic>`."""

    PROMPTS = "prompts"
    RESPONSES = "responses"
    ROLLOUTS = "rollouts"
    GROUPS = "groups"
    LEDGER = "ledger"
    DISCARDS = "discards"
    DROPS = "drops"
    DEAD_LETTERS = "dead-letters"
    SNAPSHOTS = "snapshots"


class StageName(StrEnum):
    """The consumers that commit offsets; a consumer group is called `tamis.<run>.<stage>`."""

    SCHEDULER = "scheduler"
    GENERATOR = "generator"
    SCORER = "scorer"
    ASSEMBLER = "assembler"
    FILTER = "filter"
    BATCHER = "batcher"
    TRAINER = "trainer"
    REAPER = "reaper"
    DISCARD_REAPER = "discard-reaper"


READS: dict[StageName, Topic] = {
    StageName.SCHEDULER: Topic.LEDGER,
    StageName.GENERATOR: Topic.PROMPTS,
    StageName.SCORER: Topic.RESPONSES,
    StageName.ASSEMBLER: Topic.ROLLOUTS,
    StageName.FILTER: Topic.GROUPS,
    StageName.BATCHER: Topic.LEDGER,
    StageName.TRAINER: Topic.LEDGER,
    StageName.REAPER: Topic.LEDGER,
    StageName.DISCARD_REAPER: Topic.DISCARDS,
}
"""The one topic that each stage takes its input from."""

ON_TOPIC: dict[Topic, tuple[type[e.Event], ...]] = {
    Topic.PROMPTS: (e.PromptIssued, e.ResponsesRequested, e.GroupClosed, e.PolicyPublished, e.RunFinished),
    Topic.RESPONSES: (e.ResponseGenerated, e.RunFinished),
    Topic.ROLLOUTS: (e.GroupOpened, e.ResponseScored, e.GroupCancelled, e.Tick, e.RunFinished),
    Topic.GROUPS: (e.GroupAssembled, e.RunFinished),
    Topic.LEDGER: (
        e.RunStarted,
        e.GroupOpened,
        e.PromptSkipped,
        e.GroupAccepted,
        e.GroupRejected,
        e.GroupDeselected,
        e.GroupExpired,
        e.GroupEvaluated,
        e.ReplacementWaived,
        e.BatchFormed,
        e.BatchSkipped,
        e.BatchReturned,
        e.TrainerStarted,
        e.BatchTrained,
        e.CheckpointSaved,
        e.EvaluationStarted,
        e.EvaluationFinished,
        e.StarvationRaised,
        e.StageFailed,
        e.StopRequested,
        e.Tick,
        e.RunClosing,
        e.RunFinished,
    ),
    Topic.DISCARDS: (e.ResponseDiscarded, e.RunFinished),
    Topic.DROPS: (e.PayloadsDropped, e.RunFinished),
    Topic.DEAD_LETTERS: (e.DeadLettered,),
    Topic.SNAPSHOTS: (e.SnapshotChunk,),
}
"""The events that may stand on each topic."""

PURE_STAGES = (
    StageName.SCHEDULER,
    StageName.BATCHER,
    StageName.REAPER,
    StageName.ASSEMBLER,
    StageName.FILTER,
    StageName.DISCARD_REAPER,
)


def partitions(topic: Topic, rules: Rules) -> int:
    """How many partitions a topic of this run has."""
    match topic:
        case Topic.PROMPTS | Topic.RESPONSES | Topic.ROLLOUTS | Topic.DISCARDS | Topic.DROPS:
            return rules.partitions
        case Topic.GROUPS:
            return rules.filter_partitions
        case Topic.LEDGER | Topic.DEAD_LETTERS:
            return 1
        case Topic.SNAPSHOTS:
            return 3 + rules.partitions + rules.filter_partitions


def snapshot_partition(stage: StageName, partition: int, rules: Rules) -> int:
    """The partition of `snapshots` that a stage-partition has for its own."""
    match stage:
        case StageName.SCHEDULER:
            return 0
        case StageName.BATCHER:
            return 1
        case StageName.REAPER:
            return 2
        case StageName.ASSEMBLER:
            return 3 + partition
        case StageName.FILTER:
            return 3 + rules.partitions + partition
        case _:
            raise ValueError(f"{stage} keeps no snapshots")


@frozen
class Output:
    """An event for a partition of a topic. Every producer sets the partition; no partitioner is used."""

    topic: Topic
    partition: int
    event: e.Event


S = TypeVar("S")


class Stage(Protocol[S]):
    """A pure stage: its rules and ports are fixed, all that changes is in the state.

    `step` may update the state in place; it raises InvariantBroken for an event that it cannot take. `entries` is the
    number of things in the state (groups, batches), for the snapshot cadence. `state_type` is the dataclass that a
    snapshot holds, None for a stage without state.
    """

    name: StageName
    state_type: type[Any] | None

    def initial(self, partition: int) -> S:
        """The state before the first event of a partition."""
        ...

    def step(self, state: S, event: e.Event) -> Iterable[Output]:
        """Fold one event into the state and decide."""
        ...

    def entries(self, state: S) -> int:
        """How many things the state holds."""
        ...


class InvariantBroken(Exception):
    """The log says something that cannot be: the process must stop, with the coordinates of the record."""


class MembersCodec(Protocol):
    """Encodes and decodes the `members` of a group; a port, since Avro is not the domain's business."""

    def encode(self, members: tuple[e.Member, ...]) -> bytes:
        """One Avro-encoded array."""
        ...

    def decode(self, encoded: bytes) -> tuple[e.Member, ...]:
        """The members again, equal to those that were encoded."""
        ...
