"""Payloads of responses to judge: the lease is taken off, and what judging needs is read, in one exchange."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from pipeline.domain import events as e
from pipeline.domain.ids import response_id
from pipeline.domain.topology import InvariantBroken
from pipeline.domain.vocabulary import Failure
from pipeline.log.work import Job
from pipeline.prompts.task import BadTask, Rubric, decode_grading
from pipeline.store.errors import PayloadDamaged
from pipeline.store.format import decode, decode_head
from pipeline.store.payloads import PayloadStore
from pipeline.verifiers.verdict import Opinion, Verdict, failed


@dataclass(slots=True, eq=False)
class Case:
    """A response that is being judged. `opinions` has a place for each binding of its task, `missing` counts the empty
    ones; `token_ids` are read only where the response filter needs them."""

    job: Job
    event: e.ResponseGenerated
    text: str
    token_ids: Sequence[int]
    rubric: Rubric
    opinions: list[Opinion | None]
    missing: int
    grading_ms: int = 0

    @property
    def id(self) -> str:
        """The response's id."""
        return response_id(self.event.group_id, self.event.slot, self.event.round)


Settled = tuple[Job, Verdict]
"""A response that can't be judged, and why."""


class Lost(Exception):
    """A payload that isn't there, or isn't one."""


def admit(store: PayloadStore, jobs: Sequence[Job], whole: bool) -> tuple[list[Case], list[Settled]]:
    """What can be judged, and what can't; `whole` reads token ids too. Raises StoreUnreachable: it may be repeated."""
    cases: list[Case] = []
    settled: list[Settled] = []
    sound: list[tuple[Job, e.ResponseGenerated, str]] = []
    for job in jobs:
        event = response_of(job)
        if event.failure is not None:
            settled.append((job, failed(event.failure, event.detail)))
        elif event.payload_key is None:
            settled.append((job, failed(Failure.PAYLOAD_EXPIRED, "the event names no payload")))
        else:
            sound.append((job, event, event.payload_key))
    sizes = [event.payload_bytes if whole else event.head_bytes for _, event, _ in sound]
    values = store.admit([key for _, _, key in sound], sizes)
    for (job, event, key), value in zip(sound, values, strict=True):
        try:
            cases.append(_case(job, event, key, value, whole))
        except Lost as error:
            settled.append((job, failed(Failure.PAYLOAD_EXPIRED, str(error))))
    return cases, settled


def response_of(job: Job) -> e.ResponseGenerated:
    """The response that a job is about."""
    if not isinstance(job.event, e.ResponseGenerated):
        raise InvariantBroken(f"the scorer cannot take {type(job.event).__name__}")
    return job.event


def _case(job: Job, event: e.ResponseGenerated, key: str, value: bytes | None, whole: bool) -> Case:
    if value is None:
        raise Lost(f"{key} is not in Redis: its lease ran out before it was admitted, or Redis was emptied")
    try:
        head, token_ids = decode_head(value), _tokens(value) if whole else ()
        rubric = _rubric(head.metadata)
    except (PayloadDamaged, BadTask) as error:
        raise Lost(f"{key}: {error}") from error
    bindings = len(rubric.verifiers)
    return Case(job, event, head.text, token_ids, rubric, [None] * bindings, bindings)


def _tokens(value: bytes) -> Sequence[int]:
    ids = decode(value).response_ids
    return array("i" if ids.dtype == "int32" else "q", bytes(ids.data))


@lru_cache(maxsize=4_096)
def _rubric(metadata: bytes) -> Rubric:
    """The responses of a group share these bytes."""
    return decode_grading(metadata)
