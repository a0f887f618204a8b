"""The curves of a report as plain Plotly figures. Colours are names that the page resolves, for dark and light.

A trace has its points by step (`x`) and by time (`minutes`); the page changes between the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from pipeline.history.rows import BatchRow, Counts, Moment
from pipeline.history.view import RunView

Trace = dict[str, Any]
Figure = dict[str, Any]

MOST_BINS: Final = 80
MOST_METRICS: Final = 6
REASON_COLOURS: Final = {"zero_std/all_zero": "bad", "zero_std/all_max": "solved", "zero_std/constant": "flat"}


def figures(view: RunView) -> list[Figure]:
    """Every figure for which the run has something to show."""
    made = [learning(view), verdicts(view), staleness(view), assembly(view), rate(view), memory(view), keys(view)]
    made += metrics(view)
    return [figure for figure in made if any(trace["y"] for trace in figure["traces"])]


def learning(view: RunView) -> Figure:
    """Held-out accuracy, and the reward of training groups before and after the filter."""
    start, rows = _start(view), list(view.progress.batches)
    tests = [row for row in view.progress.evaluations if row.accuracy is not None]
    held_out = _line("held-out accuracy", "main", [r.step for r in tests], [r.accuracy for r in tests], width=3)
    held_out |= {"mode": "lines+markers", "minutes": _minutes(start, [r.at_ms for r in tests])}
    sampled = _by_batch(view, "reward, all groups sampled", "good", lambda row: row.sampled_reward)
    trained = _by_batch(view, "reward, groups trained on", "quiet", lambda row: row.reward, width=1)
    return _figure(
        "Reward and held-out accuracy", "mean reward", [held_out, sampled, trained], wide=True, both=bool(rows)
    )


def verdicts(view: RunView) -> Figure:
    """How the filter judged the groups, in shares of all, from batch to batch."""
    rows = list(view.progress.batches)
    ends = _bins(rows)
    names = sorted(rows[-1].counts.rejected, key=lambda name: -rows[-1].counts.rejected[name]) if rows else []
    traces = [_area("accepted", "good", view, ends, _shares(ends, lambda counts: counts.accepted))]
    for i, name in enumerate(names):
        shares = _shares(ends, lambda counts, name=name: counts.rejected.get(name, 0))  # type: ignore[misc]
        traces.append(_area(name.replace("_", " "), REASON_COLOURS.get(name, f"other{i % 3}"), view, ends, shares))
    return _figure("Verdicts on training groups", "share of groups", traces, wide=True, percent=True)


def staleness(view: RunView) -> Figure:
    """How old the groups of each batch were."""
    mean = _by_batch(view, "mean", "main", lambda row: row.staleness_mean)
    most = _by_batch(view, "oldest", "quiet", lambda row: row.staleness_max, width=1)
    return _figure("Staleness of batches", "policy versions", [mean, most])


def assembly(view: RunView) -> Figure:
    """From a group's opening to its last response."""
    median = _by_time(view, "median", "main", lambda m: _seconds(m.assembly_p50_ms))
    slow = _by_time(view, "90th percentile", "quiet", lambda m: _seconds(m.assembly_p90_ms), width=1)
    return _figure("Time to assemble a group", "seconds", [median, slow], both=False)


def rate(view: RunView) -> Figure:
    """Throughput, and what is under way."""
    ended = _by_time(view, "groups ended a second", "main", lambda m: m.groups_per_s)
    return _figure("Throughput", "groups / s", [ended], both=False)


def memory(view: RunView) -> Figure:
    """What Redis says it uses."""
    line = _over_time(view, "used memory", "main", [(p.at_ms, p.used_bytes / 2**20) for p in view.redis])
    return _figure("Memory of Redis", "MiB", [line], both=False)


def keys(view: RunView) -> Figure:
    """Payloads that live in Redis."""
    line = _over_time(view, "payload keys", "main", [(p.at_ms, float(p.keys)) for p in view.redis])
    return _figure("Payloads in Redis", "keys", [line], both=False)


def metrics(view: RunView) -> list[Figure]:
    """What the learner says of its steps."""
    last = view.progress.batches.last
    names = list(last.metrics)[:MOST_METRICS] if last else []
    return [
        _figure(f"Learner: {name}", name, [_by_batch(view, name, "main", lambda row, n=name: row.metrics.get(n))])  # type: ignore[misc]
        for name in names
    ]


# ------------------------------------------------------------------------------------------------------------- traces


def _figure(
    title: str, unit: str, traces: list[Trace], wide: bool = False, both: bool = True, percent: bool = False
) -> Figure:
    return {"title": title, "unit": unit, "traces": traces, "wide": wide, "both": both, "percent": percent}


def _line(name: str, colour: str, x: Sequence[float], y: Sequence[Any], width: int = 2) -> Trace:
    return {
        "type": "scatter", "mode": "lines", "name": name, "x": list(x), "y": list(y), "colour": colour,
        "line": {"width": width},
    }  # fmt: skip


def _by_batch(
    view: RunView, name: str, colour: str, value: Callable[[BatchRow], float | None], width: int = 2
) -> Trace:
    rows = [row for row in view.progress.batches if value(row) is not None]
    line = _line(name, colour, [row.step for row in rows], [value(row) for row in rows], width)
    return line | {"minutes": _minutes(_start(view), [row.at_ms for row in rows])}


def _by_time(view: RunView, name: str, colour: str, value: Callable[[Moment], float | None], width: int = 2) -> Trace:
    points = [(moment.at_ms, value(moment)) for moment in view.moments]
    return _over_time(view, name, colour, [(at, y) for at, y in points if y is not None], width)


def _over_time(view: RunView, name: str, colour: str, points: list[tuple[int, float]], width: int = 2) -> Trace:
    """A curve that is broken where nothing ran."""
    broken: list[tuple[int, float | None]] = sorted(
        [*points, *((gap.start_ms + 1, None) for gap in view.gaps)], key=_at
    )
    x = _minutes(_start(view), [at for at, _ in broken])
    return _line(name, colour, x, [y for _, y in broken] if points else [], width)


def _at(point: tuple[int, float | None]) -> int:
    return point[0]


def _area(name: str, colour: str, view: RunView, rows: list[BatchRow], shares: list[float]) -> Trace:
    line = _line(name, colour, [row.step for row in rows], shares, width=0)
    return line | {"stackgroup": "all", "minutes": _minutes(_start(view), [row.at_ms for row in rows])}


def _shares(rows: list[BatchRow], many: Callable[[Counts], int]) -> list[float]:
    """The share of a verdict among all since the row before."""
    before, shares = Counts(0, {}), list[float]()
    for row in rows:
        judged = row.counts.judged - before.judged
        shares.append((many(row.counts) - many(before)) / judged if judged else 0.0)
        before = row.counts
    return shares


def _bins(rows: list[BatchRow]) -> list[BatchRow]:
    """The batches that end a bin, each with about the same number of verdicts."""
    each = max(1, rows[-1].counts.judged // MOST_BINS) if rows else 1
    before, ends = 0, list[BatchRow]()
    for row in rows:
        if row.counts.judged - before >= each:
            before = row.counts.judged
            ends.append(row)
    return ends


def _start(view: RunView) -> int:
    return view.started_ms or 0


def _minutes(start_ms: int, times_ms: Iterable[int]) -> list[float]:
    return [round((at - start_ms) / 60_000, 4) for at in times_ms]


def _seconds(duration_ms: float | None) -> float | None:
    return None if duration_ms is None else round(duration_ms / 1000, 3)
