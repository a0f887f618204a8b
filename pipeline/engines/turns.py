"""Turns of many episodes, put to one engine: `batch` of them in a call, `concurrency` calls at once.

A policy is loaded between two calls, so that a turn is of one policy; episodes go on with the new one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.sdk import Engine, SampleRequest
from pipeline.user_code import contained


class Reply(NamedTuple):
    """What the engine returned for a turn, and the policy version it was sampled with."""

    sample: Any
    version: int


class Turns:
    """Lives in one event loop."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._version = -1
        self._waiting: deque[tuple[SampleRequest, asyncio.Future[Reply]]] = deque()
        self._calls: set[asyncio.Task[None]] = set()
        self._loading = False
        self._called = False

    async def ask(self, request: SampleRequest) -> Reply:
        """Sample a turn. Raises what the engine raises, RuntimeError if it returned another number of samples."""
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, answer))
        self._soon()
        return await answer

    async def load(self, path: Path, version: int) -> None:
        """Have the engine load a policy once no call is under way. Turns wait meanwhile."""
        self._loading = True
        try:
            while self._calls:
                await asyncio.wait(self._calls)
            await self._engine.load_policy(path, version)
            self._version = version
        finally:
            self._loading = False
            self._soon()

    def _soon(self) -> None:
        """Begin calls when all that is ready to ask has asked."""
        if not self._called:
            self._called = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        self._called = False
        while self._waiting and not self._loading and len(self._calls) < self._engine.concurrency:
            most = min(self._engine.batch, len(self._waiting))
            batch = [turn for turn in (self._waiting.popleft() for _ in range(most)) if not turn[1].done()]
            if batch:
                self._begin(batch)

    def _begin(self, batch: Sequence[tuple[SampleRequest, asyncio.Future[Reply]]]) -> None:
        call = asyncio.ensure_future(self._call(batch))
        self._calls.add(call)
        call.add_done_callback(self._ended)

        def answered(_: object) -> None:
            """A call is cancelled when nobody waits for any of its answers."""
            if all(answer.done() for _, answer in batch):
                call.cancel()

        for _, answer in batch:
            answer.add_done_callback(answered)

    def _ended(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        self._soon()

    async def _call(self, batch: Sequence[tuple[SampleRequest, asyncio.Future[Reply]]]) -> None:
        version, answers = self._version, [answer for _, answer in batch]
        try:
            requests = [request for request, _ in batch]
            samples = await contained(lambda: self._engine.generate(requests))
            if len(samples) != len(batch):
                raise RuntimeError(f"{len(samples)} samples for {len(batch)} requests; expected one for each, in order")
            samples = list(samples)
        except asyncio.CancelledError:
            for answer in answers:
                answer.cancel()
            raise
        except Exception as error:
            for answer in answers:
                if not answer.done():
                    answer.set_exception(error)
            return
        for answer, sample in zip(answers, samples, strict=True):
            if not answer.done():
                answer.set_result(Reply(sample, version))
