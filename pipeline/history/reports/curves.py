"""Curves as Plotly takes them, for `figures`. Colours are names that the page resolves, for dark and light."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from pipeline.history.rows import BatchRow, Counts, Moment
from pipeline.history.view import RunView

Trace = dict[str, Any]
Figure = dict[str, Any]

MOST_BINS: Final = 80


def figure(
    title: str, unit: str, traces: list[Trace], wide: bool = False, both: bool = True, percent: bool = False
) -> Figure:
    """What the page draws; `both`: by step and by time; `percent`: the values are shares."""
    return {
        "title": title,
        "unit": unit,
        "traces": traces,
        "wide": wide,
        "both": both,
        "percent": percent,
        "note": "",
        "across": "",
    }


def curve(name: str, colour: str, x: Sequence[float], y: Sequence[Any], width: int = 2) -> Trace:
    """A line."""
    return {
        "type": "scatter", "mode": "lines", "name": name, "x": list(x), "y": list(y), "colour": colour,
        "line": {"width": width},
    }  # fmt: skip


def by_batch(view: RunView, name: str, colour: str, value: Callable[[BatchRow], float | None], width: int = 2) -> Trace:
    """A line with a point for each batch that has the value."""
    rows = [row for row in view.progress.batches if value(row) is not None]
    line = curve(name, colour, [row.step for row in rows], [value(row) for row in rows], width)
    return line | {"minutes": minutes(start_ms(view), [row.at_ms for row in rows])}


def by_time(view: RunView, name: str, colour: str, value: Callable[[Moment], float | None], width: int = 2) -> Trace:
    """A line over time with a point for each moment that has the value."""
    points = [(moment.at_ms, value(moment)) for moment in view.moments]
    return over_time(view, name, colour, [(at, y) for at, y in points if y is not None], width)


def over_time(view: RunView, name: str, colour: str, points: list[tuple[int, float]], width: int = 2) -> Trace:
    """A curve that is broken where nothing ran."""
    broken: list[tuple[int, float | None]] = sorted(
        [*points, *((gap.start_ms + 1, None) for gap in view.gaps)], key=_at
    )
    x = minutes(start_ms(view), [at for at, _ in broken])
    return curve(name, colour, x, [y for _, y in broken] if points else [], width)


def _at(point: tuple[int, float | None]) -> int:
    return point[0]


def area(name: str, colour: str, view: RunView, rows: list[BatchRow], shares: list[float]) -> Trace:
    """A part of a stack of shares."""
    line = curve(name, colour, [row.step for row in rows], shares, width=0)
    return line | {"stackgroup": "all", "minutes": minutes(start_ms(view), [row.at_ms for row in rows])}


def shares_of(rows: list[BatchRow], many: Callable[[Counts], int]) -> list[float]:
    """The share of a verdict among all since the row before."""
    before, shares = Counts(0, {}), list[float]()
    for row in rows:
        judged = row.counts.judged - before.judged
        shares.append((many(row.counts) - many(before)) / judged if judged else 0.0)
        before = row.counts
    return shares


def acceptance(rows: list[BatchRow], domain: str) -> Iterator[float | None]:
    """The share of a domain's groups that was accepted, of those judged since the row before."""
    accepted, judged = 0, 0
    for row in rows:
        now_accepted, now_judged = row.counts.domains.get(domain, (0, 0))
        yield (now_accepted - accepted) / (now_judged - judged) if now_judged > judged else None
        accepted, judged = now_accepted, now_judged


def of_rows(view: RunView, rows: list[BatchRow], name: str, colour: str, values: Sequence[float | None]) -> Trace:
    """A line with the values that belong to these batches, as far as there are any."""
    points = [(row, value) for row, value in zip(rows, values, strict=True) if value is not None]
    line = curve(name, colour, [row.step for row, _ in points], [value for _, value in points])
    return line | {"minutes": minutes(start_ms(view), [row.at_ms for row, _ in points])}


def bins(rows: list[BatchRow]) -> list[BatchRow]:
    """The batches that end a bin, each with about the same number of verdicts."""
    each = max(1, rows[-1].counts.judged // MOST_BINS) if rows else 1
    before, ends = 0, list[BatchRow]()
    for row in rows:
        if row.counts.judged - before >= each:
            before = row.counts.judged
            ends.append(row)
    return ends


def start_ms(view: RunView) -> int:
    """When the run began to do something, or was made."""
    return view.begun_ms or view.started_ms or 0


def minutes(start_ms: int, times_ms: Iterable[int]) -> list[float]:
    """Times as minutes since the start."""
    return [round((at - start_ms) / 60_000, 4) for at in times_ms]


def seconds(duration_ms: float | None) -> float | None:
    """A duration in seconds, to the millisecond."""
    return None if duration_ms is None else round(duration_ms / 1000, 3)
