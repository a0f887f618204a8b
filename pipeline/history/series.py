"""Curves and percentiles in bounded memory, however long the run."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from math import log
from typing import Final, Generic, TypeVar

MOST_POINTS: Final = 2_000
T = TypeVar("T")


class Series(Generic[T]):
    """At most MOST_POINTS points, evenly thinned, and always the newest. Counts in a point should be running totals:
    then the difference of two neighbours is right, however many points between them were thinned away."""

    def __init__(self, most: int = MOST_POINTS) -> None:
        self._most = most
        self._stride = 1
        self._seen = 0
        self._kept: list[T] = []
        self.last: T | None = None

    def add(self, point: T) -> None:
        """Append a point; those given later are newer."""
        self.last = point
        if self._seen % self._stride == 0:
            self._kept.append(point)
            if len(self._kept) >= self._most:
                self._kept = self._kept[::2]
                self._stride *= 2
        self._seen += 1

    def __len__(self) -> int:
        return len(self._kept) + (self.last is not None and self._kept[-1] is not self.last)

    def __iter__(self) -> Iterator[T]:
        yield from self._kept
        if self.last is not None and self._kept[-1] is not self.last:
            yield self.last


class Spread:
    """Percentiles of durations, or lengths, to within 2.5 %, by counts in buckets, each 5 % wider than the last."""

    _WIDTH: Final = log(1.05)

    def __init__(self) -> None:
        self.count = 0
        self._buckets: dict[int, int] = {}

    def add(self, duration_ms: float) -> None:
        """Count a duration; one below zero (two machines' clocks) counts as zero."""
        bucket = round(log(max(duration_ms, 0.0) + 1.0) / self._WIDTH)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1
        self.count += 1

    def shares(self) -> Iterator[tuple[float, float]]:
        """Values with the share of all that is about as large, in steps of 22 %."""
        found: dict[int, int] = {}
        for bucket, many in self._buckets.items():
            found[bucket // 4] = found.get(bucket // 4, 0) + many
        for step in range(min(found, default=0), max(found, default=-1) + 1):
            yield 1.05 ** (4 * step + 1.5) - 1.0, found.get(step, 0) / self.count

    def quantile(self, share: float) -> float | None:
        """The duration that this share of all is not above; None if there is none."""
        left = share * self.count
        for bucket in sorted(self._buckets):
            left -= self._buckets[bucket]
            if left <= 0:
                return 1.05**bucket - 1.0
        return None


class Rate:
    """Things a second over the last `window_s` seconds of the records' own time."""

    def __init__(self, window_s: int = 30) -> None:
        self._window_s = window_s
        self._seconds: deque[list[int]] = deque()
        self._first: int | None = None

    def add(self, at_ms: int) -> None:
        """Count one thing."""
        second = at_ms // 1000
        self._first = second if self._first is None else self._first
        if self._seconds and self._seconds[-1][0] >= second:
            self._seconds[-1][1] += 1
        else:
            self._seconds.append([second, 1])
        while self._seconds[0][0] <= second - self._window_s:
            self._seconds.popleft()

    def at(self, now_ms: int) -> float:
        """The rate as it is at a moment; less than a whole window since the first thing counts as that long."""
        now = now_ms // 1000
        counted = sum(count for second, count in self._seconds if second > now - self._window_s)
        span = self._window_s if self._first is None else min(self._window_s, now - self._first + 1)
        return counted / max(span, 1)
