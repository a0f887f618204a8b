"""The facts and decisions of a run. Frozen, past tense, no behaviour. Field names are those of Avro, CLI and metrics.

Times (`at`) are milliseconds since the epoch; rewards and log-probabilities are doubles; sizes are bytes. `members` is
one Avro-encoded array of `Member`, encoded once by the assembler and copied unread from then on. `key` is the record's
key: the group that the record is about, else None.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

from pipeline.domain.frozen import frozen
from pipeline.domain.vocabulary import (
    Category,
    ConstantClass,
    DeadLetterReason,
    DiscardReason,
    DropReason,
    ExpiryReason,
    Failure,
    FinishReason,
    Grading,
    Outcome,
    Purpose,
    Reason,
    ReturnReason,
    ShortReason,
    SkippedPrompt,
    SkipReason,
    StarvationCause,
    StarvationPolicy,
    WaiverReason,
)

Millis = int


class Event:
    """Base of all events."""

    __slots__ = ()


EVENTS: dict[str, type[Event]] = {}
"""Every event by name, in the order of this file."""

T = TypeVar("T")
E = TypeVar("E", bound=Event)


@dataclass_transform(frozen_default=True)
def event(cls: type[E]) -> type[E]:
    """Make a frozen, slotted dataclass and list it in EVENTS."""
    made = frozen(cls)
    EVENTS[made.__name__] = made
    return made


@dataclass_transform(frozen_default=True)
def record(cls: type[T]) -> type[T]:
    """A frozen, slotted dataclass that is a part of events, never one by itself."""
    return frozen(cls)


# ---------------------------------------------------------------------------------------------------- parts of events


@record
class PromptRef:
    """Which prompt: its id, and its place in its source."""

    id: str
    domain: str
    ordinal: int
    epoch: int


@record
class EvalRef:
    """Which evaluation, and the one policy that may answer it."""

    id: int
    version: int
    path: str
    sha256: str


@record
class SlotRound:
    """A slot of a group, and which try (1 is the first)."""

    slot: int
    round: int


@record
class Member:
    """A response that belongs to its group. Rewards are doubles; None means unknown, never wrong."""

    slot: int
    round: int
    payload_key: str | None
    payload_bytes: int
    reward: float | None
    raw_score: float | None
    penalties: float
    components: dict[str, float]
    entropy: float | None
    grading: Grading
    failure: Failure | None
    finish_reason: FinishReason
    drop_flag: bool
    env_timeout: bool
    env_failed: bool
    prompt_tokens: int
    response_tokens: int
    oldest_version: int
    newest_version: int
    generator: str


@record
class Scores:
    """The numbers that selection can rank a group by. None where a member lacks the number."""

    reward_mean: float | None
    reward_std: float | None
    reward_sum: float | None
    length_mean: float
    entropy_mean: float | None
    entropy_std: float | None


@record
class ShadowVerdict:
    """What a filter without effect would have said."""

    name: str
    accepted: bool
    reason: Reason | None
    measured: float | None


@record
class BatchGroup:
    """A group's place in a batch."""

    group_id: str
    domain: str
    members: bytes
    weight: float
    payload_bytes: int
    oldest_version: int
    newest_version: int


@record
class Header:
    """A header of a Kafka record, as it was found."""

    name: str
    value: bytes | None


# ------------------------------------------------------------------------------------------- prompts, rollouts, groups


@event
class PromptIssued(Event):
    """A prompt was given out as a group of `group_size` responses, `redundancy` more started. `replaces` names the
    ended group that this one answers; `root` is the first of the lineage, `attempt` counts from 1."""

    group_id: str
    prompt: PromptRef
    purpose: Purpose
    eval: EvalRef | None
    root: str
    replaces: str | None
    attempt: int
    seed: int
    group_size: int
    redundancy: int
    min_version: int
    task: bytes
    at: Millis


@event
class GroupOpened(Event):
    """The same as PromptIssued, for the assembler (rollouts, with the task) and for the ledger (without)."""

    group_id: str
    prompt: PromptRef
    purpose: Purpose
    eval: EvalRef | None
    root: str
    replaces: str | None
    attempt: int
    seed: int
    group_size: int
    redundancy: int
    min_version: int
    task: bytes | None
    at: Millis


@event
class ResponsesRequested(Event):
    """More responses are wanted for an open group: exactly these slots, in these rounds."""

    group_id: str
    prompt: PromptRef
    purpose: Purpose
    eval: EvalRef | None
    root: str
    replaces: str | None
    attempt: int
    seed: int
    group_size: int
    redundancy: int
    min_version: int
    task: bytes
    slots: tuple[SlotRound, ...]
    at: Millis


@event
class GroupClosed(Event):
    """Nobody waits for this group's responses any more: generators stop work on it."""

    group_id: str
    at: Millis


@event
class PolicyPublished(Event):
    """A policy that generators load; its file is at `path` under the run's folder."""

    version: int
    path: str
    sha256: str
    at: Millis


@event
class ResponseGenerated(Event):
    """A response was sampled and its payload written, or sampling failed (`failure`). `head_bytes` of the payload are
    what the scorer reads. `env_reward` is an environment's own."""

    group_id: str
    slot: int
    round: int
    purpose: Purpose
    payload_key: str | None
    payload_bytes: int
    head_bytes: int
    failure: Failure | None
    detail: str | None
    finish_reason: FinishReason
    prompt_tokens: int
    response_tokens: int
    oldest_version: int
    newest_version: int
    entropy: float | None
    env_reward: float | None
    drop_flag: bool
    env_timeout: bool
    env_failed: bool
    sampling_ms: int
    generator: str
    at: Millis


@event
class ResponseScored(Event):
    """A response was judged. `discard` says that it can't be a member (filtered or failed); `raw_score` is the
    verifiers' weighted sum, `reward` what is left after `penalties`; each None where unknown."""

    group_id: str
    slot: int
    round: int
    payload_key: str | None
    payload_bytes: int
    discard: DiscardReason | None
    raw_score: float | None
    penalties: float
    reward: float | None
    components: dict[str, float]
    grading: Grading
    failure: Failure | None
    detail: str | None
    grading_attempts: int
    grading_ms: int
    finish_reason: FinishReason
    prompt_tokens: int
    response_tokens: int
    oldest_version: int
    newest_version: int
    entropy: float | None
    drop_flag: bool
    env_timeout: bool
    env_failed: bool
    generator: str
    text: str | None
    at: Millis


@event
class GroupCancelled(Event):
    """The run is closing: this open group is not wanted any more."""

    group_id: str
    at: Millis


@event
class Tick(Event):
    """Time passed. On the ledger a fact (`run_ms` None); on rollouts the scheduler's answer with the run's own time."""

    at: Millis
    run_ms: int | None


@event
class GroupAssembled(Event):
    """A group is complete. `run_ms` is the run time from its opening."""

    group_id: str
    prompt: PromptRef
    purpose: Purpose
    eval: EvalRef | None
    group_size: int
    members: bytes
    payload_bytes: int
    largest_payload: int
    oldest_version: int
    newest_version: int
    scores: Scores
    assembly_ms: int
    at: Millis


@event
class ResponseDiscarded(Event):
    """A response won't be a member; its payload is to be dropped."""

    group_id: str
    slot: int
    round: int
    payload_key: str | None
    payload_bytes: int
    response_tokens: int
    reason: DiscardReason
    failure: Failure | None
    at: Millis


# ------------------------------------------------------------------------------------------------------------- ledger


@event
class RunStarted(Event):
    """The first record of a run: everything that decides, for ever. `config` is canonical JSON, `config_hash` its
    SHA-256; `filter_hashes` by domain; `sources` the SHA-256 of the source of custom callables by dotted path. Prompts
    are fixed by the content hash of their source; their number in one pass is told by domain, in the source's order."""

    run: str
    config: str
    config_hash: str
    decision_versions: dict[str, int]
    filter_hashes: dict[str, str]
    sources: dict[str, str]
    prompts_hash: str
    prompt_sizes: dict[str, int]
    eval_prompts_hash: str | None
    eval_prompt_sizes: dict[str, int]
    created_by: str
    at: Millis


@event
class PromptSkipped(Event):
    """A prompt was refused when it was about to be issued."""

    prompt: PromptRef
    reason: SkippedPrompt
    detail: str
    at: Millis


@event
class GroupAccepted(Event):
    """The filter kept a group. `measured` and `threshold` are those of the last filter that measured one;
    `kept_by_guard`: rejected by a filter, kept by the guard."""

    group_id: str
    prompt: PromptRef
    group_size: int
    members: bytes
    payload_bytes: int
    largest_payload: int
    oldest_version: int
    newest_version: int
    scores: Scores
    filter: str
    measured: float | None
    threshold: float | None
    measurements: dict[str, float]
    filter_hash: str
    guard_state: dict[str, float]
    kept_by_guard: bool
    shadows: tuple[ShadowVerdict, ...]
    at: Millis


@event
class GroupRejected(Event):
    """A group that won't be trained on. `measured` and `threshold` are those of the filter that decided, `metric` the
    number that it looked at, `metric_name` the field's name for the reason (`drop_zero_std_0.0`)."""

    group_id: str
    prompt: PromptRef
    reason: Reason
    category: Category
    constant_class: ConstantClass | None
    metric: str | None
    metric_name: str
    detail: str | None
    members: bytes
    payload_bytes: int
    largest_payload: int
    oldest_version: int
    newest_version: int
    scores: Scores | None
    filter: str
    measured: float | None
    threshold: float | None
    measurements: dict[str, float]
    filter_hash: str
    guard_state: dict[str, float]
    shadows: tuple[ShadowVerdict, ...]
    at: Millis


@event
class GroupDeselected(Event):
    """Batch-level selection left an accepted group out."""

    group_id: str
    domain: str
    members: bytes
    payload_bytes: int
    window: int
    score: float | None
    at: Millis


@event
class GroupExpired(Event):
    """A group ended unused: too old for the next batch, its payload gone, or the run over."""

    group_id: str
    domain: str
    purpose: Purpose
    reason: ExpiryReason
    members: bytes
    payload_bytes: int
    staleness: int | None
    at: Millis


@event
class GroupEvaluated(Event):
    """An evaluation prompt was answered. Counts are by grading state; `mean_reward` over the graded members."""

    group_id: str
    prompt: PromptRef
    eval: EvalRef
    members: bytes
    payload_bytes: int
    graded: int
    ungraded: int
    failed: int
    mean_reward: float | None
    at: Millis


@event
class ReplacementWaived(Event):
    """An ended training group gets no replacement, and why."""

    group_id: str
    domain: str
    reason: WaiverReason
    at: Millis


@event
class BatchFormed(Event):
    """A batch for the trainer. `candidates` groups stood for selection; `follows_version` is the policy version that it
    will be trained to follow; `short` says why it is smaller than the quotas."""

    batch: int
    groups: tuple[BatchGroup, ...]
    candidates: int
    loss_scale: float
    follows_version: int
    short: ShortReason | None
    at: Millis


@event
class BatchSkipped(Event):
    """A step without a batch; it counts for the evaluation and checkpoint cadence."""

    batch: int
    reason: SkipReason
    at: Millis


@event
class BatchReturned(Event):
    """A formed batch won't be trained on. `lost` names the groups whose payloads are missing or damaged; `trained`: it
    had its BatchTrained, which no checkpoint covers."""

    batch: int
    reason: ReturnReason
    trained: bool
    lost: tuple[str, ...]
    detail: str | None
    at: Millis


@event
class TrainerStarted(Event):
    """A trainer took over. `version` is the policy last published."""

    incarnation: int
    version: int
    path: str
    sha256: str
    trainer: str
    at: Millis


@event
class BatchTrained(Event):
    """One optimizer step was taken on a batch, and a policy written. At most one for each batch."""

    batch: int
    version: int
    path: str
    sha256: str
    metrics: dict[str, float]
    at: Millis


@event
class CheckpointSaved(Event):
    """A checkpoint is durable; the payloads of `batches` are no longer needed."""

    version: int
    path: str
    sha256: str
    batches: tuple[int, ...]
    at: Millis


@event
class EvaluationStarted(Event):
    """An evaluation is due after `step` steps; `groups` prompts will be answered by the policy in `eval`."""

    eval: EvalRef
    step: int
    groups: int
    at: Millis


@event
class EvaluationFinished(Event):
    """The evaluation's result. `mean_reward` is the mean over groups of their mean; `cut`: the run ended before."""

    eval: EvalRef
    step: int
    groups: int
    graded: int
    ungraded: int
    failed: int
    mean_reward: float | None
    cut: bool
    at: Millis


@event
class StarvationRaised(Event):
    """Too few groups are accepted to fill a batch. Counts are of endings since the domain's last batch."""

    domain: str
    cause: StarvationCause
    policy: StarvationPolicy
    accepted: int
    invalid: int
    low_information: int
    system: int
    advice: str
    at: Millis


@event
class StageFailed(Event):
    """A piece of work failed for good, and its policy says that the run ends."""

    stage: str
    group_id: str | None
    detail: str
    at: Millis


@event
class StopRequested(Event):
    """A person asked the run to end."""

    by: str
    at: Millis


@event
class RunClosing(Event):
    """No new work. What is open is cancelled, what is formed is finished or returned."""

    outcome: Outcome
    detail: str
    at: Millis


@event
class RunFinished(Event):
    """Every group has ended. Each stage copies it on when it has done all that came before it."""

    outcome: Outcome
    steps: int
    at: Millis


# --------------------------------------------------------------------------------------- drops, dead letters, snapshots


@event
class PayloadsDropped(Event):
    """These payload keys are gone from Redis, because of what `reason` and the record's cause say."""

    group_id: str | None
    keys: tuple[str, ...]
    reason: DropReason
    at: Millis


@event
class DeadLettered(Event):
    """A record that couldn't be read, as it was found, with its coordinates."""

    stage: str
    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    reason: DeadLetterReason
    detail: str
    at: Millis


@event
class SnapshotChunk(Event):
    """A piece of a stage's state after all input before `input_offset`. `fingerprint` names the body's schema."""

    stage: str
    partition: int
    snapshot_id: str
    index: int
    count: int
    input_offset: int
    fingerprint: bytes
    body: bytes
    at: Millis


# ------------------------------------------------------------------------------------------ inputs that are not records


@dataclass(frozen=True, slots=True)
class Undecodable(Event):
    """A record about this group couldn't be read; `by_assembler`: its cause says that an assembler wrote it."""

    group_id: str
    by_assembler: bool
    at: Millis = field(default=0)


def key_of(event: Event) -> str | None:
    """The record's key: the id of the one group that the event is about."""
    group_id: str | None = getattr(event, "group_id", None)
    return group_id
