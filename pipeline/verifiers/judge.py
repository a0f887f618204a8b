"""One verifier at work: requests in batches, a few calls at once, each with a time limit.

Whatever a verifier does ends as a Score or as a Blank, which says why there is none. What it is called for, how it
failed and how long it took is counted here, before any filter: an outage shows although no group closes.
"""

from __future__ import annotations

import asyncio
import math
import numbers
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from pipeline.sdk import Score, ScoreRequest, Verifier

OnFailure = Literal["zero", "drop_response", "raise"]
EXPECTED = "pipeline.sdk.Score with a value that is a number or None, and components that are numbers by name"


class Blank(NamedTuple):
    """No score. `outcome`: error, timeout, wrong_type, wrong_count, or what the verifier itself says."""

    outcome: str
    detail: str


Outcome = Score | Blank
Given = Callable[[Outcome, int], None]
"""Takes what a request came to, and the milliseconds of its call."""


@dataclass(slots=True)
class Health:
    """Counters of one verifier: calls, responses, and those of them without a score; timeouts are failures too."""

    calls: int = 0
    responses: int = 0
    failures: int = 0
    timeouts: int = 0
    seconds: float = 0.0


class Judge:
    """Calls one verifier. It lives in the event loop of the scorer."""

    def __init__(
        self, name: str, verifier: Verifier, timeout_s: float, on_failure: OnFailure, concurrency: int | None = None
    ) -> None:
        self.name, self.on_failure = name, on_failure
        self.health = Health()
        self._verifier, self._timeout_s = verifier, timeout_s
        self._concurrency = concurrency or verifier.concurrency
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

    def stop(self) -> None:
        """Make no more calls."""
        self._tasks = None

    def clear(self) -> None:
        """Forget what waits, end what is under way."""
        self._queue.clear()
        for call in self._calls:
            call.cancel()

    def _pump(self) -> None:
        while self._tasks and self._queue and len(self._calls) < self._concurrency:
            batch = [self._queue.popleft() for _ in range(min(self._verifier.batch, len(self._queue)))]
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
        self._count(outcomes, seconds)
        for (_, give), outcome in zip(batch, outcomes, strict=True):
            give(outcome, round(seconds * 1000))

    async def _outcomes(self, requests: Sequence[ScoreRequest]) -> Sequence[Outcome]:
        """One for each request, in order. A call over its time is not waited for: it may be deaf to cancellation."""
        call = asyncio.ensure_future(self._verifier.score(requests))
        call.add_done_callback(_look_at)
        try:
            await asyncio.wait((call,), timeout=self._timeout_s)
        finally:
            call.cancel()
        if not call.done():
            return self._all(requests, Blank("timeout", f"verifier {self.name!r} took over {self._timeout_s:g} s"))
        if call.cancelled():
            return self._all(requests, Blank("error", f"verifier {self.name!r} was cancelled from inside"))
        error = call.exception()
        if error is not None:
            return self._all(requests, Blank("error", f"verifier {self.name!r} raised {type(error).__name__}: {error}"))
        return self._checked(requests, call.result())

    def _checked(self, requests: Sequence[ScoreRequest], returned: Any) -> Sequence[Outcome]:
        if not isinstance(returned, Sequence) or isinstance(returned, str | bytes):
            kind = type(returned).__name__
            detail = f"verifier {self.name!r} returned a {kind}; expected a sequence of {EXPECTED}"
            return self._all(requests, Blank("wrong_type", detail))
        if len(returned) != len(requests):
            detail = (
                f"verifier {self.name!r} returned {len(returned)} scores for {len(requests)} requests; expected equal"
            )
            return self._all(requests, Blank("wrong_count", detail))
        return [self._one(score) for score in returned]

    def _one(self, score: Any) -> Outcome:
        if not isinstance(score, Score):
            return self._wrong_type(f"a {type(score).__name__}")
        value = score.value
        if value is None:
            return Blank(score.outcome, f"verifier {self.name!r} gave no score: {score.outcome}")
        if not _is_number(value):
            return self._wrong_type(f"a Score whose value is a {type(value).__name__}")
        if score.components and not _are_numbers(score.components):
            return self._wrong_type("a Score with components that are no numbers")
        return score

    def _wrong_type(self, what: str) -> Blank:
        return Blank("wrong_type", f"verifier {self.name!r} returned {what}; expected a {EXPECTED}")

    def _all(self, requests: Sequence[ScoreRequest], blank: Blank) -> Sequence[Blank]:
        return [blank] * len(requests)

    def _count(self, outcomes: Sequence[Outcome], seconds: float) -> None:
        health, blanks = self.health, [o for o in outcomes if isinstance(o, Blank)]
        health.calls += 1
        health.responses += len(outcomes)
        health.failures += len(blanks)
        health.timeouts += sum(1 for blank in blanks if blank.outcome == "timeout")
        health.seconds += seconds


def _look_at(call: asyncio.Future[Any]) -> None:
    """What a call raises after its time is nobody's business any more."""
    if not call.cancelled():
        call.exception()


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real)


def _are_numbers(components: Any) -> bool:
    return isinstance(components, Mapping) and all(
        isinstance(name, str) and _is_number(value) for name, value in components.items()
    )


def weighted_sum(parts: Sequence[tuple[float, float]]) -> float:
    """Σ weight·score by an exact sum; what is beyond floats becomes NaN or infinite, which the filters reject."""
    products = [weight * score for weight, score in parts]
    try:
        return math.fsum(products)
    except (OverflowError, ValueError):
        return sum(products)
