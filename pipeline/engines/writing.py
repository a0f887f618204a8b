"""From samples to facts: first the payload, under a fresh key and on a lease, then the event that names it.

While Redis is full or away the samples are kept and written later; nothing fails for it but what could never fit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import structlog

from pipeline.domain import events as e
from pipeline.domain.topology import Output, StageName, Topic
from pipeline.domain.vocabulary import Failure, FinishReason
from pipeline.engines.asks import Backlog, Question, Slot
from pipeline.engines.door import Admitted, Refused, admit
from pipeline.log.backoff import Backoff
from pipeline.log.work import Answer, Publish
from pipeline.sdk import Sample
from pipeline.store.errors import StoreFull, StoreUnreachable
from pipeline.store.format import Payload, encode
from pipeline.store.keys import fresh_key
from pipeline.store.payloads import PayloadStore

log = structlog.get_logger(__name__)


class Failed(NamedTuple):
    """What a slot came to instead of a sample. `ends_run`: what StageFailed says, if it is written too."""

    failure: Failure
    detail: str
    ends_run: str | None = None


class Sampled(NamedTuple):
    """A slot, what the engine returned for it, under which policy, and how long that took."""

    slot: Slot
    question: Question | None
    result: Sample | Failed
    version: int
    sampling_ms: int


class _Made(NamedTuple):
    """A slot's events, and its payload if there is one. `stage_failed` ends the run."""

    slot: Slot
    event: e.ResponseGenerated
    value: bytes = b""
    stage_failed: e.StageFailed | None = None


class Scribe:
    """Writes payloads, one batch at a time, then publishes their events. `waiting_for_redis` while it can't."""

    def __init__(self, store: PayloadStore, backlog: Backlog, ttl_ms: int, generator: str) -> None:
        self._store, self._backlog, self._ttl_ms, self._generator = store, backlog, ttl_ms, generator
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="payloads")
        self._pending: list[Sampled] = []
        self._news = asyncio.Event()
        self.waiting_for_redis = False

    @property
    def pending(self) -> int:
        """Samples that wait for being written."""
        return len(self._pending)

    def add(self, sampled: Sequence[Sampled]) -> None:
        """Have these written."""
        self._pending += sampled
        self._news.set()

    def clear(self) -> None:
        """Forget what waits."""
        self._pending.clear()

    async def run(self, publish: Publish) -> None:
        """Write until cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                batch, self._pending = [s for s in self._pending if not s.slot.unwanted], []
                if batch:
                    made, left = await loop.run_in_executor(self._thread, self._make_and_put, batch)
                    publish(self._answers(made))
                    await self._put_late(left, publish)
        finally:
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def _put_late(self, left: Sequence[_Made], publish: Publish) -> None:
        """Wait for Redis, longer each time; what nobody wants any more is not written."""
        loop, backoff = asyncio.get_running_loop(), Backoff()
        while left := [made for made in left if not made.slot.unwanted]:
            self.waiting_for_redis = True
            await backoff.wait()
            made, left = await loop.run_in_executor(self._thread, self._put, left)
            self.waiting_for_redis = bool(left)
            publish(self._answers(made))
        if self.waiting_for_redis:
            self.waiting_for_redis = False
            publish(())

    def _answers(self, written: Sequence[_Made]) -> list[Answer]:
        answers = []
        for made in written:
            slot = made.slot
            if slot.unwanted:
                continue
            job = slot.ask.job
            outputs = [(slot.place, Output(Topic.RESPONSES, job.home.partition, made.event))]
            if made.stage_failed:
                outputs.append((slot.ask.slots + slot.place, Output(Topic.LEDGER, 0, made.stage_failed)))
            answers.append(Answer(job, tuple(outputs), self._backlog.done(slot)))
        return answers

    # ------------------------------------------------------------------------------------- in the thread for payloads

    def _make_and_put(self, batch: Sequence[Sampled]) -> tuple[list[_Made], list[_Made]]:
        """What can be published, and what Redis didn't take."""
        now = time.time_ns() // 1_000_000
        made = [self._make(sampled, now) for sampled in batch]
        written, left = self._put([m for m in made if m.value])
        return [m for m in made if not m.value] + written, left

    def _put(self, made: Sequence[_Made]) -> tuple[list[_Made], list[_Made]]:
        try:
            self._store.put_many([(m.event.payload_key or "", m.value) for m in made], self._ttl_ms)
            return list(made), []
        except StoreFull as full:
            log.warning("redis is full", written=len(full.written), left=len(full.left))
            left = set(full.left)
            written = [m for m in made if m.event.payload_key not in left]
            return self._without_hopeless(written, [m for m in made if m.event.payload_key in left])
        except StoreUnreachable as error:
            log.warning("redis can't be reached", why=str(error), left=len(made))
            return [], list(made)

    def _without_hopeless(self, written: list[_Made], left: list[_Made]) -> tuple[list[_Made], list[_Made]]:
        """`Full now` and `never fits` are one error: ask Redis for its limit, and fail what is over it."""
        try:
            self._store.check_server()
        except StoreUnreachable:
            return written, left
        limit = self._store.limit_bytes
        hopeless = [self._too_long(m.slot, m.event, len(m.value)) for m in left if len(m.value) > limit]
        return written + hopeless, [m for m in left if len(m.value) <= limit]

    def _make(self, sampled: Sampled, at: int) -> _Made:
        slot, result = sampled.slot, sampled.result
        if isinstance(result, Failed):
            ending = (
                e.StageFailed(StageName.GENERATOR, slot.ask.event.group_id, result.ends_run, at)
                if result.ends_run
                else None
            )
            return _Made(slot, self._failure(sampled, result.failure, result.detail, at), stage_failed=ending)
        try:
            admitted = admit(result, sampled.version)
        except Refused as refused:
            return _Made(slot, self._failure(sampled, refused.failure, refused.detail, at))
        return self._success(sampled, result, admitted, at)

    def _success(self, sampled: Sampled, sample: Sample, admitted: Admitted, at: int) -> _Made:
        slot, question = sampled.slot, sampled.question
        assert question is not None  # noqa: S101 - a sample is the answer to a question
        value, head_bytes = encode(
            Payload(
                question.grading, sample.text, question.prompt_ids, admitted.response_ids, admitted.logprobs,
                admitted.loss_mask, admitted.spans,
            )
        )  # fmt: skip
        group = slot.ask.event.group_id
        versions = [span[2] for span in admitted.spans]
        event = e.ResponseGenerated(
            group, slot.slot, slot.round, slot.ask.event.purpose,
            fresh_key(self._store.run, group, slot.slot, slot.round), len(value), head_bytes, None, sample.detail,
            FinishReason(sample.finish_reason), len(question.token_ids), admitted.tokens, min(versions), max(versions),
            sample.entropy, None, False, False, False, sampled.sampling_ms, self._generator, at,
        )  # fmt: skip
        if len(value) > self._store.limit_bytes:
            return self._too_long(slot, event, len(value))
        return _Made(slot, event, value)

    def _too_long(self, slot: Slot, event: e.ResponseGenerated, size: int) -> _Made:
        detail = f"a payload of {size} bytes; the largest that fits is {self._store.limit_bytes}"
        failed = e.ResponseGenerated(
            event.group_id, event.slot, event.round, event.purpose, None, 0, 0, Failure.TOO_LONG, detail,
            event.finish_reason, event.prompt_tokens, event.response_tokens, event.oldest_version, event.newest_version,
            event.entropy, None, False, False, False, event.sampling_ms, self._generator, event.at,
        )  # fmt: skip
        return _Made(slot, failed)

    def _failure(self, sampled: Sampled, failure: Failure, detail: str, at: int) -> e.ResponseGenerated:
        slot, question = sampled.slot, sampled.question
        return e.ResponseGenerated(
            slot.ask.event.group_id, slot.slot, slot.round, slot.ask.event.purpose, None, 0, 0, failure, detail,
            FinishReason.ABORT, len(question.token_ids) if question else 0, 0, sampled.version, sampled.version, None,
            None, False, failure is Failure.TIMEOUT, failure is Failure.ENV_FAILED, sampled.sampling_ms,
            self._generator, at,
        )  # fmt: skip
