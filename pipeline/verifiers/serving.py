"""The scorer: admits payloads, has verifiers judge them, and says what each response is worth.

A score belongs to (group, slot, round), never to a place in a list. Payloads are admitted in batches: the lease is
taken off and the head, which is all that judging needs, is read in one exchange.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

import structlog

from pipeline import plugins
from pipeline.config.models import DecisionConfig
from pipeline.domain import events as e
from pipeline.domain.topology import Output, StageName, Topic
from pipeline.domain.vocabulary import DiscardReason, Failure, Purpose
from pipeline.log.backoff import Backoff
from pipeline.log.work import Answer, Job, Publish
from pipeline.sdk import Judged, ScoreRequest
from pipeline.store.errors import StoreUnreachable
from pipeline.store.payloads import PayloadStore
from pipeline.verifiers import verdict as v
from pipeline.verifiers.admission import Case, Settled, admit, response_of
from pipeline.verifiers.judge import Given, Judge
from pipeline.verifiers.response_filter import Raised, ResponseFilter
from pipeline.verifiers.returned import Outcome

ADMIT: Final = 1_024
"""Payloads admitted in one exchange."""
log = structlog.get_logger(__name__)


class Scorer:
    """Work of the scorer, with the verifiers of a run."""

    name = StageName.SCORER
    pins = None
    copies_to = Topic.ROLLOUTS
    most_unfinished = 16_384

    def __init__(self, config: DecisionConfig, store: PayloadStore, concurrency: int | None = None) -> None:
        self._store = store
        self._record_text = config.record_text
        self._filter = ResponseFilter(config)
        self.judges = {
            name: Judge(name, plugins.verifier(config, name), rules.timeout_s, rules.on_failure, concurrency)
            for name, rules in config.verifiers.items()
        }
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="payloads")
        self._waiting: deque[Job] = deque()
        self._news = asyncio.Event()
        self._finished: list[Answer] = []
        self._ended_run = False
        self.waiting_for_redis = False

    async def run(self, publish: Publish) -> None:
        """Serve until cancelled."""
        self._publish = publish
        async with asyncio.TaskGroup() as tasks:
            for judge in self.judges.values():
                judge.start(tasks)
            try:
                await self._serve()
            finally:
                for judge in self.judges.values():
                    await judge.stop()
                self._thread.shutdown(wait=False, cancel_futures=True)
                self._store.close()  # so that a read from a Redis that hangs doesn't keep the process

    async def _serve(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while jobs := self._next_jobs():
                cases, settled = await self._admit(jobs)
                self._publish([self._answer(job, verdict) for job, verdict in settled if not job.home.lost])
                self._judge([case for case in cases if not case.job.home.lost])

    def take(self, jobs: Sequence[Job]) -> None:
        """More records of `responses`."""
        self._waiting += jobs
        self._news.set()

    def drop(self) -> None:
        """Forget all responses, and that one of them ended the run: that may not have been written."""
        self._waiting.clear()
        self._ended_run = False
        for judge in self.judges.values():
            judge.clear()

    def _next_jobs(self) -> list[Job]:
        jobs: list[Job] = []
        while self._waiting and len(jobs) < ADMIT and self._waiting[0].may_start:
            jobs.append(self._waiting.popleft())
        return jobs

    # ------------------------------------------------------------------------------------------------------- admission

    async def _admit(self, jobs: Sequence[Job]) -> tuple[list[Case], list[Settled]]:
        """What can be judged, and what can't. Waits for a Redis that is away."""
        loop, backoff, whole = asyncio.get_running_loop(), Backoff(), self._filter.needs_tokens
        while True:
            try:
                opened = await loop.run_in_executor(self._thread, admit, self._store, jobs, whole)
                self.waiting_for_redis = False
                return opened
            except StoreUnreachable as error:
                log.warning("redis can't be reached", why=str(error), waiting=len(jobs))
                self.waiting_for_redis = True
                await backoff.wait()

    # --------------------------------------------------------------------------------------------------------- judging

    def _judge(self, cases: Sequence[Case]) -> None:
        asked: dict[str, list[tuple[ScoreRequest, Given]]] = {}
        for case in cases:
            missing = [b.name for b in case.rubric.verifiers if b.name not in self.judges]
            if missing:
                self._finish(case, v.ungraded(f"the task names verifier {missing[0]!r}, which isn't configured", True))
            elif not case.opinions:
                self._finish(case, _of_environment(case.event))
            elif not case.text:
                self._finish(case, v.failed(Failure.EMPTY, "the response has no text"))
            else:
                for place, binding in enumerate(case.rubric.verifiers):
                    request = ScoreRequest(case.id, case.text, binding.target, case.rubric.metadata)
                    asked.setdefault(binding.name, []).append((request, partial(self._hear, case, place)))
        for name, requests in asked.items():
            self.judges[name].ask(requests)

    def _hear(self, case: Case, place: int, outcome: Outcome, took_ms: int) -> None:
        binding = case.rubric.verifiers[place]
        case.opinions[place] = v.Opinion(binding.name, binding.weight, outcome, self.judges[binding.name].on_failure)
        case.grading_ms = max(case.grading_ms, took_ms)
        case.missing -= 1
        if not case.missing:
            self._finish(case, v.verdict_of([opinion for opinion in case.opinions if opinion is not None]))

    def _finish(self, case: Case, verdict: v.Verdict) -> None:
        if case.job.home.lost:
            return
        if self._filter and verdict.discard is None and case.event.purpose is Purpose.TRAIN:
            verdict = self._filtered(case, verdict)
        if not self._finished:
            asyncio.get_running_loop().call_soon(self._flush)
        self._finished.append(self._answer(case.job, verdict, case))

    def _flush(self) -> None:
        """Publish what one round of calls has finished, together."""
        finished, self._finished = self._finished, []
        self._publish(finished)

    def _filtered(self, case: Case, verdict: v.Verdict) -> v.Verdict:
        event = case.event
        judged = Judged(
            case.text, case.token_ids, event.response_tokens, event.finish_reason, verdict.reward,
            case.rubric.metadata,
        )  # fmt: skip
        try:
            reason = self._filter.rejection(judged)
        except Raised as error:
            told = f"the response filter raised {error}"
            return verdict._replace(
                discard=DiscardReason.FILTERED, detail=told, ends_run=told if error.ends_run else None
            )
        return verdict._replace(discard=DiscardReason.FILTERED, detail=reason) if reason else verdict

    def _answer(self, job: Job, verdict: v.Verdict, case: Case | None = None) -> Answer:
        event, at = response_of(job), time.time_ns() // 1_000_000
        with_text = self._record_text == "all" or (self._record_text == "eval" and event.purpose is Purpose.EVAL)
        text = case.text if case and with_text else None
        attempts = 1 if case and case.opinions else 0
        if text is not None and verdict.detail is None:
            verdict = verdict._replace(detail=verdict.answers)
        scored = v.scored(event, verdict, attempts, case.grading_ms if case else 0, text, at)
        outputs = [(0, Output(Topic.ROLLOUTS, job.home.partition, scored))]
        if verdict.ends_run and not self._ended_run:
            self._ended_run = True
            ended = e.StageFailed(self.name, event.group_id, verdict.ends_run, at)
            outputs.append((1, Output(Topic.LEDGER, 0, ended)))
        return Answer(job, tuple(outputs), True)


def _of_environment(event: e.ResponseGenerated) -> v.Verdict:
    """The environment's own reward; that of an episode which it broke is 0, and not known."""
    if event.env_reward is None:
        return v.ungraded("the task names no verifier, and the environment gave no reward")
    if event.env_failed or event.env_timeout:
        return v.zero(event.detail)
    return v.graded(event.env_reward)
