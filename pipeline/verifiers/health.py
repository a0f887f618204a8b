"""How a verifier's service does: counted of every response that was put to it, before anything is filtered, in all and
over the last minute. So an outage shows although no group, and no batch, ever closes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pipeline.verifiers.returned import Blank, Outcome

WINDOW_S: Final = 60
LEAST: Final = 4
"""Failures in the window that make an outage, if they are at least half of all."""
AGAIN_S: Final = 10
"""How often an outage is told."""


@dataclass(slots=True)
class Counts:
    """Calls, the responses in them, those left without a score, those of them for lack of time, and seconds waited."""

    calls: int = 0
    responses: int = 0
    failures: int = 0
    timeouts: int = 0
    seconds: float = 0.0

    def add(self, other: Counts) -> None:
        """Sum up."""
        self.calls += other.calls
        self.responses += other.responses
        self.failures += other.failures
        self.timeouts += other.timeouts
        self.seconds += other.seconds


class Health:
    """Of one verifier. `clock`: seconds that only grow. Threads may read it while one writes."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.name, self.total, self.last_error = name, Counts(), ""
        self._clock = clock
        self._seconds: deque[tuple[int, Counts]] = deque(maxlen=WINDOW_S + 1)
        self._told_at: float | None = None

    def note(self, outcomes: Sequence[Outcome], seconds: float) -> None:
        """One call has ended."""
        blanks = [outcome for outcome in outcomes if isinstance(outcome, Blank)]
        timeouts = len([blank for blank in blanks if blank.outcome == "timeout"])
        counts = Counts(1, len(outcomes), len(blanks), timeouts, seconds)
        now = int(self._clock())
        if not self._seconds or self._seconds[-1][0] != now:
            self._seconds.append((now, Counts()))
        self._seconds[-1][1].add(counts)
        self.total.add(counts)
        if blanks:
            self.last_error = blanks[-1].detail

    def recent(self) -> Counts:
        """The last WINDOW_S seconds."""
        found, since = Counts(), self._clock() - WINDOW_S
        for second, counts in tuple(self._seconds):
            if second >= since:
                found.add(counts)
        return found

    def outage(self) -> str | None:
        """A sentence if the service is out: most of what was put to it lately was left without a score."""
        lately = self.recent()
        if lately.failures < LEAST or 2 * lately.failures < lately.responses:
            return None
        return told(self.name, lately.failures, lately.responses, self.last_error)

    def news(self) -> tuple[bool, str] | None:
        """Whether it is out and a sentence, when that is to be told: at once, every AGAIN_S, and when it is over."""
        outage, now = self.outage(), self._clock()
        if outage is None:
            if self._told_at is None:
                return None
            self._told_at = None
            return False, f"verifier {self.name} answers again"
        if self._told_at is not None and now < self._told_at + AGAIN_S:
            return None
        self._told_at = now
        return True, outage


def told(name: str, failures: int, responses: int, last_error: str) -> str:
    """An outage in words."""
    return f"verifier {name}: {failures} of {responses} calls failed in the last {WINDOW_S} s: {last_error}"
