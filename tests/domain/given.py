"""Short ways to say what happened."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pipeline.domain import events as e
from pipeline.domain.assembly import Assembler
from pipeline.domain.grouping import largest_payload, payload_bytes, scores_of, version_range
from pipeline.domain.ids import number_of, partition_of
from pipeline.domain.rules import Rules
from pipeline.domain.topology import Output, Stage
from pipeline.domain.vocabulary import (
    Category,
    DiscardReason,
    ExpiryReason,
    Failure,
    FinishReason,
    Grading,
    Purpose,
    Reason,
    ReturnReason,
    SkipReason,
    StarvationCause,
    StarvationPolicy,
    category_of,
)
from pipeline.log.codec import Members
from tests.simulator.settings import LARGE, Source, rules

__all__ = ["LARGE", "MEMBERS", "Feed", "Source", "rules"]

MEMBERS = Members()
EVAL = e.EvalRef(0, 0, "policy-0", "hash")


class Feed:
    """A stage and its state; feed it events and get what it answers, without the topics."""

    def __init__(self, stage: Stage[Any], partition: int = 0) -> None:
        self.stage = stage
        self.state = stage.initial(partition)

    def __call__(self, *events: e.Event) -> list[e.Event]:
        return [o.event for o in self.outputs(*events)]

    def outputs(self, *events: e.Event) -> list[Output]:
        return [output for event in events for output in self.stage.step(self.state, event)]


def assembling(r: Rules, *opened: e.GroupOpened, partition: int = 0) -> Feed:
    """An assembler of one partition in which these groups were opened."""
    feed = Feed(Assembler(r, MEMBERS), partition)
    feed(*opened)
    return feed


def prompt(gid: str, domain: str = "maths") -> e.PromptRef:
    """Each group has the prompt of its number."""
    n = number_of(gid)
    return e.PromptRef(f"p{n}", domain, n, 0)


def opened(gid: str, size: int = 4, redundancy: int = 0, domain: str = "maths", **more: Any) -> e.GroupOpened:
    fields: dict[str, Any] = {
        "prompt": prompt(gid, domain),
        "purpose": Purpose.TRAIN,
        "eval": None,
        "root": gid,
        "replaces": None,
        "attempt": 1,
        "seed": 5,
        "min_version": 0,
        "task": b"task",
        "at": 0,
    }
    return e.GroupOpened(group_id=gid, group_size=size, redundancy=redundancy, **{**fields, **more})


def asked(gid: str, size: int = 1) -> e.GroupOpened:
    """A group of an evaluation."""
    return opened(gid, size, purpose=Purpose.EVAL, eval=EVAL)


def scored(response: str, reward: float | None = 1.0, **more: Any) -> e.ResponseScored:
    """`response` is a response's id. Without a reward it is ungraded and discarded, as the scorer does by default."""
    gid, _, place = response.partition("/")
    slot, round = (int(part) for part in place.split("."))
    unknown = reward is None
    fields: dict[str, Any] = {
        "payload_key": f"key of {response}",
        "payload_bytes": 100,
        "discard": DiscardReason.FAILED if unknown else None,
        "raw_score": reward,
        "penalties": 0.0,
        "reward": reward,
        "components": {},
        "grading": Grading.UNGRADED if unknown else Grading.GRADED,
        "failure": None,
        "detail": None,
        "grading_attempts": 1,
        "grading_ms": 1,
        "finish_reason": FinishReason.STOP,
        "prompt_tokens": 7,
        "response_tokens": 20,
        "oldest_version": 0,
        "newest_version": 0,
        "entropy": None,
        "drop_flag": False,
        "env_timeout": False,
        "env_failed": False,
        "generator": "g",
        "text": None,
        "at": 0,
    }
    return e.ResponseScored(group_id=gid, slot=slot, round=round, **{**fields, **more})


def failed(response: str, failure: Failure = Failure.ABORTED) -> e.ResponseScored:
    return scored(
        response, None, grading=Grading.FAILED, failure=failure, discard=DiscardReason.FAILED, payload_key=None,
        payload_bytes=0,
    )  # fmt: skip


def filtered(response: str, reward: float = 1.0) -> e.ResponseScored:
    return scored(response, reward, discard=DiscardReason.FILTERED)


def member(slot: int, reward: float | None = 1.0, **more: Any) -> e.Member:
    fields: dict[str, Any] = {
        "round": 1,
        "payload_key": f"key {slot}",
        "payload_bytes": 100,
        "raw_score": reward,
        "penalties": 0.0,
        "components": {},
        "entropy": None,
        "grading": Grading.UNGRADED if reward is None else Grading.GRADED,
        "failure": None,
        "finish_reason": FinishReason.STOP,
        "drop_flag": False,
        "env_timeout": False,
        "env_failed": False,
        "prompt_tokens": 7,
        "response_tokens": 20,
        "oldest_version": 0,
        "newest_version": 0,
        "generator": "g",
    }
    return e.Member(slot=slot, reward=reward, **{**fields, **more})


def members(rewards: Iterable[float | None]) -> tuple[e.Member, ...]:
    return tuple(member(slot, reward) for slot, reward in enumerate(rewards))


def assembled(gid: str, who: Sequence[e.Member], size: int = 4, domain: str = "maths", **more: Any) -> e.GroupAssembled:
    oldest, newest = version_range(who)
    fields: dict[str, Any] = {"purpose": Purpose.TRAIN, "eval": None}
    return e.GroupAssembled(
        group_id=gid,
        prompt=prompt(gid, domain),
        group_size=size,
        members=MEMBERS.encode(tuple(who)),
        payload_bytes=payload_bytes(who),
        largest_payload=largest_payload(who),
        oldest_version=oldest,
        newest_version=newest,
        scores=scores_of(who),
        assembly_ms=0,
        at=0,
        **{**fields, **more},
    )


def accepted(gid: str, domain: str = "maths", version: int = 0, size: int = 4, payload: int = 100) -> e.GroupAccepted:
    who = tuple(
        member(
            slot,
            float(slot),
            payload_key=f"{gid}/{slot}",
            payload_bytes=payload,
            oldest_version=version,
            newest_version=version,
        )
        for slot in range(size)
    )
    return e.GroupAccepted(
        gid, prompt(gid, domain), size, MEMBERS.encode(who), size * payload,
        payload, version, version, scores_of(who), "zero_std", 1.0, 0.0, {}, "hash", {}, False, (), 0,
    )  # fmt: skip


def rejected(
    gid: str, reason: Reason = Reason.ZERO_STD, domain: str = "maths", filter: str = "zero_std"
) -> e.GroupRejected:
    who = (member(0, 1.0, payload_key=f"{gid}/0"),)
    category: Category = category_of(reason)
    return e.GroupRejected(
        gid, prompt(gid, domain), reason, category, None, None, f"drop_{reason}",
        None, MEMBERS.encode(who), 100, 100, 0, 0, None, filter, None, None, {}, "hash", {}, (), 0,
    )  # fmt: skip


def expired(gid: str, reason: ExpiryReason = ExpiryReason.STALE, domain: str = "maths") -> e.GroupExpired:
    return e.GroupExpired(gid, domain, Purpose.TRAIN, reason, MEMBERS.encode(()), 0, None, 0)


def formed(batch: int, *groups: str, domain: str = "maths", payload: int = 400, follows: int = 0) -> e.BatchFormed:
    held = tuple(
        e.BatchGroup(gid, domain, MEMBERS.encode((member(0, payload_key=f"{gid}/0"),)), 1.0, payload, 0, 0)
        for gid in groups
    )
    return e.BatchFormed(batch, held, len(held), 1.0, follows, None, 0)


def trained(batch: int, version: int | None = None) -> e.BatchTrained:
    v = batch if version is None else version
    return e.BatchTrained(batch, v, f"policy-{v}", f"hash {v}", {}, 0)


def saved(version: int, *batches: int) -> e.CheckpointSaved:
    return e.CheckpointSaved(version, f"checkpoint-{version}", f"hash {version}", batches, 0)


def returned(
    batch: int, *lost: str, trained: bool = False, reason: ReturnReason = ReturnReason.LOST
) -> e.BatchReturned:
    return e.BatchReturned(batch, reason, trained, lost, None, 0)


def skipped(batch: int) -> e.BatchSkipped:
    return e.BatchSkipped(batch, SkipReason.NOTHING_ACCEPTED, 0)


def starved(
    cause: StarvationCause = StarvationCause.REJECTIONS_IN_A_ROW,
    policy: StarvationPolicy = StarvationPolicy.SHORT_BATCH,
    domain: str = "maths",
) -> e.StarvationRaised:
    return e.StarvationRaised(domain, cause, policy, 0, 0, 0, 0, "", 0)


def started(incarnation: int = 1, version: int = 0) -> e.TrainerStarted:
    return e.TrainerStarted(incarnation, version, f"policy-{version}", f"hash {version}", "t", 0)


def tick(run_ms: int | None = None, at: int = 0) -> e.Tick:
    return e.Tick(at, run_ms)


def only(events: Iterable[e.Event], kind: type[e.Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def opened_in(events: Iterable[e.Event]) -> list[str]:
    """Groups that the scheduler opens by these outputs."""
    return [event.group_id for event in only(events, e.PromptIssued)]


def partition(gid: str) -> int:
    return partition_of(gid)
