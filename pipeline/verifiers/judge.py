"""One verifier at work: requests in batches, a few calls at once, each with a time limit.

Whatever a verifier does ends as a Score or as a Blank, which says why there is none. What it is called for, how it
failed and how long it took is counted here, before any filter: an outage shows although no group closes.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Literal

import structlog

from pipeline.domain.told import told, told_error
from pipeline.sdk import Misconfigured, ScoreRequest, Verifier
from pipeline.user_code import contained
from pipeline.verifiers.health import Health
from pipeline.verifiers.returned import MISCONFIGURED, Blank, Outcome, checked

OnFailure = Literal["zero", "drop_response", "raise"]
Given = Callable[[Outcome, int], None]
"""Takes what a request came to, and the milliseconds of its call."""
log = structlog.get_logger(__name__)


class Judge:
    """Calls one verifier. It lives in the event loop of the scorer."""

    def __init__(
        self, name: str, verifier: Verifier, timeout_s: float, on_failure: OnFailure, concurrency: int | None = None
    ) -> None:
        self.name, self.on_failure = name, on_failure
        self.health = Health(name)
        self.verifier, self._timeout_s = verifier, timeout_s
        most: int | None = getattr(verifier, "max_concurrency", None)
        self._concurrency = min(concurrency or verifier.concurrency, most or 2**31)
        self._queue: deque[tuple[ScoreRequest, Given]] = deque()
        self._calls: set[asyncio.Task[None]] = set()
        self._tasks: asyncio.TaskGroup | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Make calls as tasks of this group, which ends with the first that breaks."""
        self._tasks = tasks

    def ask(self, requests: Sequence[tuple[ScoreRequest, Given]]) -> None:
        """Have these judged."""
        self._queue += requests
        self._pump()

    async def stop(self) -> None:
        """Make no more calls, and have the verifier let go of what it holds."""
        self._tasks = None
        self.clear()
        closing = asyncio.ensure_future(contained(self._close))
        await asyncio.wait((closing,))
        if not closing.cancelled() and (error := closing.exception()):
            log.warning("verifier not closed", verifier=self.name, why=told_error(error))

    async def _close(self) -> None:
        close = getattr(self.verifier, "close", None)
        closing = close() if callable(close) else None
        if inspect.isawaitable(closing):
            await closing

    def clear(self) -> None:
        """Forget what waits, end what is under way."""
        self._queue.clear()
        for call in self._calls:
            call.cancel()

    def _pump(self) -> None:
        while self._tasks and self._queue and len(self._calls) < self._concurrency:
            batch = [self._queue.popleft() for _ in range(min(self.verifier.batch, len(self._queue)))]
            call = self._tasks.create_task(self._call(batch))
            self._calls.add(call)
            call.add_done_callback(self._ended)

    def _ended(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        self._pump()

    async def _call(self, batch: Sequence[tuple[ScoreRequest, Given]]) -> None:
        started = time.perf_counter()
        outcomes = await self._outcomes([request for request, _ in batch])
        seconds = time.perf_counter() - started
        self._note(outcomes, seconds)
        for (_, give), outcome in zip(batch, outcomes, strict=True):
            give(outcome, round(seconds * 1000))

    async def _outcomes(self, requests: Sequence[ScoreRequest]) -> Sequence[Outcome]:
        """One for each request, in order. A call over its time is not waited for: it may be deaf to cancellation."""
        call = asyncio.ensure_future(contained(lambda: self.verifier.score(requests)))
        call.add_done_callback(_look_at)
        try:
            await asyncio.wait((call,), timeout=self._timeout_s)
        finally:
            call.cancel()
        if not call.done():
            return self._all(requests, "timeout", f"took over {self._timeout_s:g} s")
        if call.cancelled():
            return self._all(requests, "error", "was cancelled from inside")
        error = call.exception()
        if isinstance(error, Misconfigured):
            return self._all(requests, MISCONFIGURED, f"can't judge: {told(error)}")
        if error is not None:
            return self._all(requests, "error", f"raised {told_error(error)}")
        return checked(self.name, requests, call.result())

    def _all(self, requests: Sequence[ScoreRequest], outcome: str, what: str) -> Sequence[Blank]:
        return [Blank(outcome, f"verifier {self.name!r} {what}")] * len(requests)

    def _note(self, outcomes: Sequence[Outcome], seconds: float) -> None:
        self.health.note(outcomes, seconds)
        if news := self.health.news():
            is_out, text = news
            (log.error if is_out else log.info)("verifier", is_out=is_out, told=text)


def _look_at(call: asyncio.Future[Any]) -> None:
    """What a call raises after its time is nobody's business any more."""
    if not call.cancelled():
        call.exception()


def weighted_sum(parts: Sequence[tuple[float, float]]) -> float:
    """Σ weight·score by an exact sum; what is beyond floats becomes NaN or infinite, which the filters reject."""
    products = [weight * score for weight, score in parts]
    try:
        return math.fsum(products)
    except (OverflowError, ValueError):
        return sum(products)
