"""A run's course for comparing it with others: the same quantities by step, by wall time, by generated tokens."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pipeline.history.reports.curves import Trace, curve
from pipeline.history.rows import BatchRow
from pipeline.history.view import RunView


class Point(NamedTuple):
    """Where a run stood: steps done, minutes of work (from the first process on, pauses left out), response tokens
    generated so far. Tokens of failed responses, of copies and of open groups aren't among them."""

    step: int
    minutes: float
    tokens: int


class Course:
    """The course of one run."""

    def __init__(self, view: RunView) -> None:
        self.view = view
        self.name = view.run
        self._moments = list(view.moments)
        self._times = [moment.at_ms for moment in self._moments]
        self.batches = list(view.progress.batches)
        self.evaluations = [row for row in view.progress.evaluations if row.accuracy is not None and not row.cut]

    def end(self) -> Point:
        """Where it stands now."""
        totals = self.view.groups.lengths.totals
        tokens = totals.member_tokens + totals.discarded_tokens
        return Point(self.view.step, self.minutes(self.view.last_ms), tokens)

    def judged(self) -> int:
        """Training groups that the filter has judged."""
        return self.view.groups.totals.judged

    def at(self, at_ms: int) -> Point:
        """Where it stood at a time."""
        i = bisect_right(self._times, at_ms) - 1
        if i < 0:
            return Point(0, self.minutes(at_ms), 0)
        moment = self._moments[i]
        lengths = moment.counts.lengths
        return Point(moment.step, self.minutes(at_ms), lengths.member_tokens + lengths.discarded_tokens)

    def minutes(self, at_ms: int) -> float:
        """Minutes of work until a time."""
        start = self.view.begun_ms or at_ms
        paused = sum(min(g.end_ms, at_ms) - g.start_ms for g in self.view.gaps if g.start_ms < at_ms)
        return max(at_ms - start - paused, 0) / 60_000

    def held_out(self, colour: str) -> Trace:
        """Held-out accuracy."""
        found = [(self.at(row.at_ms)._replace(step=row.step), row.accuracy) for row in self.evaluations]
        return self._trace(colour, found) | {"mode": "lines+markers"}

    def by_batch(self, colour: str, value: Callable[[BatchRow], float | None]) -> Trace:
        """A value of each batch that has it."""
        found = [(self.at(row.at_ms)._replace(step=row.step), value(row)) for row in self.batches]
        return self._trace(colour, [(point, y) for point, y in found if y is not None])

    def of_rows(self, colour: str, rows: Sequence[BatchRow], values: Sequence[float]) -> Trace:
        """Values that belong to these batches."""
        places = [self.at(row.at_ms)._replace(step=row.step) for row in rows]
        return self._trace(colour, list(zip(places, values, strict=True)))

    def accuracy_until(self, within: Callable[[Point], bool]) -> tuple[float, Point] | None:
        """The last evaluation that was finished while `within` held, and where."""
        found = [(row.accuracy, self.at(row.at_ms)._replace(step=row.step)) for row in self.evaluations]
        reached = [(accuracy, point) for accuracy, point in found if accuracy is not None and within(point)]
        return reached[-1] if reached else None

    def batch_until(self, within: Callable[[Point], bool]) -> BatchRow | None:
        """The last batch that was trained while `within` held."""
        reached = [row for row in self.batches if within(self.at(row.at_ms))]
        return reached[-1] if reached else None

    def _trace(self, colour: str, found: Sequence[tuple[Point, float | None]]) -> Trace:
        made = curve(self.name, colour, [point.step for point, _ in found], [y for _, y in found])
        return made | {
            "minutes": [round(point.minutes, 4) for point, _ in found],
            "tokens": [point.tokens / 1e6 for point, _ in found],
        }
