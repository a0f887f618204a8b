"""The generator: answers prompts with samples of the policy that each needs.

A slot that is begun is finished on its policy, then the newest is loaded; with `refresh` at once, and what is under way
goes on with it. Evaluation prompts go first, and are answered by the one policy that they name, however old.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import structlog

from pipeline.domain import events as e
from pipeline.domain.rules import Rules
from pipeline.domain.topology import InvariantBroken, Output, StageName, Topic
from pipeline.domain.vocabulary import Failure
from pipeline.engines.asks import Ask, Backlog, Slot
from pipeline.engines.calls import Calls
from pipeline.engines.making import Failed, Sampled
from pipeline.engines.policies import Policy, Unusable, load, policy_of
from pipeline.engines.writing import Scribe
from pipeline.log.work import Answer, Job, Publish
from pipeline.sdk import Engine
from pipeline.store.payloads import PayloadStore

UNWRITTEN: Final = 1_024
"""Samples that may wait for being written before no more are begun (or two calls' worth)."""
log = structlog.get_logger(__name__)


class Generator:
    """Work of the generator, with one engine."""

    name = StageName.GENERATOR
    pins = e.PolicyPublished
    copies_to = Topic.RESPONSES
    most_unfinished = 1 << 30

    def __init__(
        self, rules: Rules, engine: Engine, store: PayloadStore, folder: Path, slot: str,
        concurrency: int | None = None, refresh: bool = False,
    ) -> None:  # fmt: skip
        self._engine, self._folder, self._refresh = engine, folder, refresh
        self._backlog = Backlog()
        self._scribe = Scribe(store, self._backlog, rules.payload_ttl_ms, slot)
        self._calls = Calls(rules, engine, self._scribe, concurrency or engine.concurrency)
        self._newest: tuple[Policy, Job] | None = None
        self._loaded: Policy | None = None
        self._unusable: Policy | None = None
        self._loading = False
        self._stopping = False

    @property
    def waiting_for_redis(self) -> bool:
        """Whether samples are kept because Redis is full or away; then no more are begun."""
        return self._scribe.waiting_for_redis

    async def run(self, publish: Publish) -> None:
        """Serve until cancelled."""

        def published(answers: Sequence[Answer]) -> None:
            publish(answers)
            self._pump()

        self._publish = publish
        async with asyncio.TaskGroup() as self._tasks:
            self._calls.start(self._tasks, self._pump)
            try:
                await self._scribe.run(published)
            finally:
                self._stopping = True

    def take(self, jobs: Sequence[Job]) -> None:
        """More records of `prompts`."""
        answers: list[Answer] = []
        for job in jobs:
            match job.event:
                case e.PromptIssued() | e.ResponsesRequested() as event:
                    answer = self._backlog.add(job, event)
                    answers += [answer] if answer else []
                case e.GroupClosed() as event:
                    answers += [*self._close(event.group_id), Answer(job, (), True)]
                case e.PolicyPublished() as event:
                    self._remember(policy_of(event), job)
                    answers.append(Answer(job, (), True))
                case event:
                    raise InvariantBroken(f"the generator cannot take {type(event).__name__}")
        if answers:
            self._publish(answers)
        self._pump()

    def drop(self) -> None:
        """Forget all prompts; the engine and its policy stay."""
        self._backlog.clear()
        self._calls.cancel_unwanted()
        self._scribe.clear()
        self._newest = None

    # ------------------------------------------------------------------------------------------------- what to do next

    def _pump(self) -> None:
        """Begin all that can be begun."""
        if (newer := self._to_refresh()) is not None:
            self._begin_load(newer)
        while not self._loading and not self._stopping and self._has_room():
            policy = self._needed()
            if policy is None:
                return
            if policy != self._loaded:
                if not self._calls.any:
                    self._begin_load(policy)
                return
            self._calls.begin(self._next_slots(policy), policy.version)

    def _to_refresh(self) -> Policy | None:
        """The newer policy that what is under way is to go on with; never while an evaluation is among it."""
        loaded = self._loaded
        if not self._refresh or loaded is None or self._stopping or not self._calls.any or self._calls.any_eval:
            return None
        ask = self._backlog.head(self._backlog.evals)
        wanted = _eval_policy(ask) if ask else self._newest[0] if self._newest else loaded
        return wanted if wanted.version > loaded.version and wanted != self._unusable else None

    def _has_room(self) -> bool:
        unwritten = self._scribe.pending
        return (
            not self._calls.full
            and not self._scribe.waiting_for_redis
            and unwritten < max(UNWRITTEN, 2 * self._engine.batch)
        )

    def _needed(self) -> Policy | None:
        """The policy for the next slots; None while there are none, or none that can be begun yet."""
        if ask := self._backlog.head(self._backlog.evals):
            return _eval_policy(ask)
        ask = self._backlog.head(self._backlog.trains)
        newest = self._newest[0] if self._newest else None
        if ask is None or newest is None or newest == self._unusable or ask.event.min_version > newest.version:
            return None
        return newest

    def _next_slots(self, policy: Policy) -> list[Slot]:
        backlog, most = self._backlog, self._engine.batch
        slots: list[Slot] = []
        while len(slots) < most and (ask := backlog.head(backlog.evals)) and _eval_policy(ask) == policy:
            slots += backlog.take(backlog.evals, min(most - len(slots), len(ask.wanted) - ask.begun))
        while len(slots) < most and (ask := backlog.head(backlog.trains)) and self._answers(policy, ask):
            slots += backlog.take(backlog.trains, min(most - len(slots), len(ask.wanted) - ask.begun))
        return slots

    def _answers(self, policy: Policy, ask: Ask) -> bool:
        """Whether a training prompt may be answered by this policy: by the newest only."""
        return self._newest is not None and policy == self._newest[0] and ask.event.min_version <= policy.version

    def _close(self, group_id: str) -> list[Answer]:
        answers = self._backlog.close(group_id)
        if answers:
            self._calls.cancel_unwanted()
        return answers

    # -------------------------------------------------------------------------------------------------------- policies

    def _remember(self, policy: Policy, job: Job) -> None:
        if self._newest is None or policy.version > self._newest[0].version:
            self._newest = (policy, job)

    def _begin_load(self, policy: Policy) -> None:
        self._loading, self._loaded = True, None
        self._calls.note_load()
        self._tasks.create_task(self._load(policy))

    async def _load(self, policy: Policy) -> None:
        started = time.perf_counter()
        try:
            await load(self._engine, self._folder, policy)
            self._loaded = policy
            log.info("policy loaded", version=policy.version, seconds=round(time.perf_counter() - started, 3))
        except Unusable as error:
            self._give_up(policy, error)
        finally:
            self._loading = False
        self._pump()

    def _give_up(self, policy: Policy, error: Unusable) -> None:
        """An evaluation can't do without its policy; training goes on with a newer one. Its file is gone because there
        is one; anything else ends the run."""
        log.warning("policy not loaded", version=policy.version, why=error.detail)
        lost = self._backlog.take_all(self._backlog.evals, lambda ask: _eval_policy(ask) == policy)
        for place, slot in enumerate(lost):
            failed = Failed(Failure.ENV_FAILED, error.detail, None if place else error.detail)
            self._scribe.add([Sampled(slot, None, failed, policy.version, 0)])
        if self._newest and self._newest[0] == policy:
            self._unusable = policy
            if not error.gone and not lost:
                ended = e.StageFailed(self.name, None, error.detail, time.time_ns() // 1_000_000)
                self._publish([Answer(self._newest[1], ((0, Output(Topic.LEDGER, 0, ended)),), False)])


def _eval_policy(ask: Ask) -> Policy:
    if ask.event.eval is None:
        raise InvariantBroken(f"evaluation group {ask.event.group_id} names no policy")
    return policy_of(ask.event.eval)
