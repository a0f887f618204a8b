"""What one slot came to, as a payload and an event."""

from __future__ import annotations

from typing import NamedTuple

from pipeline.domain import events as e
from pipeline.domain.told import told
from pipeline.domain.topology import StageName
from pipeline.domain.vocabulary import Failure, FinishReason
from pipeline.engines.asks import Question, Slot
from pipeline.engines.door import Refused, admit
from pipeline.sdk import Sample
from pipeline.store.format import Payload, encode
from pipeline.store.keys import fresh_key
from pipeline.store.payloads import PayloadStore


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


class Made(NamedTuple):
    """A slot's event, and its payload if there is one. `stage_failed` ends the run."""

    slot: Slot
    event: e.ResponseGenerated
    value: bytes = b""
    stage_failed: e.StageFailed | None = None


class Maker:
    """Makes payloads and events; what is over the store's limit fails, for it will never fit."""

    def __init__(self, store: PayloadStore, generator: str) -> None:
        self._store, self._generator = store, generator

    def make(self, sampled: Sampled, at: int) -> Made:
        """The payload is not yet written."""
        slot, question, result, _, _ = sampled
        if isinstance(result, Failed):
            group, reason = slot.ask.event.group_id, result.ends_run
            ending = e.StageFailed(StageName.GENERATOR, group, told(reason), at) if reason else None
            return Made(slot, self._failure(sampled, result.failure, result.detail, at), stage_failed=ending)
        if question is None:
            raise TypeError(f"a sample for {slot.ask.event.group_id} without its question")
        try:
            return self._success(sampled, question, result, at)
        except Refused as refused:
            return Made(slot, self._failure(sampled, refused.failure, refused.detail, at))

    def too_long(self, slot: Slot, event: e.ResponseGenerated, size: int) -> Made:
        """The failure of a response whose payload of `size` bytes doesn't fit."""
        detail = f"a payload of {size} bytes; the largest that fits is {self._store.limit_bytes}"
        failed = e.ResponseGenerated(
            event.group_id, event.slot, event.round, event.purpose, None, 0, 0, Failure.TOO_LONG, detail,
            event.finish_reason, event.prompt_tokens, event.response_tokens, event.oldest_version, event.newest_version,
            event.entropy, None, False, False, False, event.sampling_ms, self._generator, event.at,
        )  # fmt: skip
        return Made(slot, failed)

    def _success(self, sampled: Sampled, question: Question, sample: Sample, at: int) -> Made:
        found = admit(sample, sampled.version)
        spans = found.spans
        prompt_ids, slot = question.prompt_ids, sampled.slot
        payload = Payload(
            question.grading, sample.text, prompt_ids, found.response_ids, found.logprobs, found.loss_mask, spans
        )
        value, head_bytes = encode(payload)
        asked, oldest, newest = slot.ask.event, min(spans, key=_version)[2], max(spans, key=_version)[2]
        event = e.ResponseGenerated(
            asked.group_id, slot.slot, slot.round, asked.purpose,
            fresh_key(self._store.run, asked.group_id, slot.slot, slot.round), len(value), head_bytes, None,
            found.detail, found.finish, len(question.token_ids), found.tokens, oldest, newest, found.entropy,
            found.env_reward, found.drop_flag, found.env_timeout, found.env_failed, sampled.sampling_ms,
            self._generator, at,
        )  # fmt: skip
        if len(value) > self._store.limit_bytes:
            return self.too_long(slot, event, len(value))
        return Made(slot, event, value)

    def _failure(self, sampled: Sampled, failure: Failure, detail: str, at: int) -> e.ResponseGenerated:
        slot, question, _, version, sampling_ms = sampled
        return e.ResponseGenerated(
            slot.ask.event.group_id, slot.slot, slot.round, slot.ask.event.purpose, None, 0, 0, failure, told(detail),
            FinishReason.ABORT, len(question.token_ids) if question else 0, 0, version, version, None, None, False,
            failure is Failure.TIMEOUT, failure is Failure.ENV_FAILED, sampling_ms, self._generator, at,
        )  # fmt: skip


def _version(span: tuple[int, int, int]) -> int:
    return span[2]
