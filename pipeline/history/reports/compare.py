"""Several runs side by side in one HTML file: as they ended, at equal wall time, at equal generated tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

from pipeline.history.reports.course import Course, Point
from pipeline.history.reports.curves import Figure, bins, figure, shares_of
from pipeline.history.reports.report import duration, page
from pipeline.history.reports.tables import percent
from pipeline.history.view import RunView

COLOURS: Final = ("main", "good", "solved", "bad", "flat", "other0", "other1", "other2")
Table = list[tuple[str, list[str]]]


def write_comparison(path: Path, views: Sequence[RunView]) -> None:
    """Write the comparison of two runs or more."""
    path.write_text(render_comparison(views), encoding="utf-8")


def render_comparison(views: Sequence[RunView]) -> str:
    """The comparison as HTML."""
    courses = [Course(view) for view in views]
    ends = [course.end() for course in courses]
    minutes, tokens = min(end.minutes for end in ends), min(end.tokens for end in ends)
    time, volume = f"At equal wall time: {duration(60 * minutes)}", f"At equal generated tokens: {tokens:,}"
    tables = [
        ("As they ended", "", whole(courses)),
        (time, "pauses left out", until(courses, lambda point: point.minutes <= minutes)),
        (volume, "of responses that didn't fail", until(courses, lambda point: point.tokens <= tokens)),
    ]
    return page("compare.html.j2").render(
        names=[course.name for course in courses], tables=tables, figures=figures(courses), plotly=get_plotlyjs()
    )


def whole(courses: Sequence[Course]) -> Table:
    """What each run came to."""
    rows: list[tuple[str, Callable[[Course], str]]] = [
        ("ended", lambda c: str(c.view.outcome or c.view.phase)),
        ("seed", lambda c: str(c.view.seed)),
        ("steps", lambda c: f"{c.view.step:,} of {c.view.steps:,}"),
        ("held-out accuracy", lambda c: f"{_number(_first(c))} → {_number(_last(c))}"),
        ("training groups", lambda c: f"{c.view.groups.opened:,}"),
        ("accepted", lambda c: percent(c.view.groups.accepted, c.judged())),
        ("tokens", lambda c: f"{c.end().tokens:,}"),
        ("tokens per accepted group", lambda c: _per(c.end().tokens, c.view.groups.accepted)),
        ("wall time", lambda c: duration(60 * c.end().minutes)),
        ("accepted groups a second", lambda c: _rate(c.view.groups.accepted, c.end().minutes)),
    ]
    return [(name, [value(course) for course in courses]) for name, value in rows]


def until(courses: Sequence[Course], within: Callable[[Point], bool]) -> Table:
    """Where each run stood when `within` held last."""
    rows: Table = [
        ("held-out accuracy", []),
        ("of step", []),
        ("steps", []),
        ("reward, all groups", []),
        ("accepted", []),
    ]
    for course in courses:
        evaluated, batch = course.accuracy_until(within), course.batch_until(within)
        counts = batch.counts if batch else None
        values = (
            _number(evaluated[0] if evaluated else None),
            f"{evaluated[1].step:,}" if evaluated else "–",
            f"{batch.step:,}" if batch else "0",
            _number(batch.sampled_reward if batch else None),
            percent(counts.accepted, counts.judged) if counts else "–",
        )
        for (_, cells), value in zip(rows, values, strict=True):
            cells.append(value)
    return rows


def figures(courses: Sequence[Course]) -> list[Figure]:
    """The same curve of every run in one figure."""
    drawn: list[tuple[str, str, bool, Callable[[Course, str], Any]]] = [
        ("Held-out accuracy", "mean reward", False, lambda c, colour: c.held_out(colour)),
        ("Reward, all groups sampled", "mean reward", False, _by_batch(lambda row: row.sampled_reward)),
        ("Acceptance", "share of groups", True, _acceptance),
        ("Staleness of batches", "policy versions", False, _by_batch(lambda row: row.staleness_mean)),
        ("Seconds a step", "seconds", False, _by_batch(lambda row: row.seconds)),
        ("Response length", "tokens", False, _by_batch(lambda row: row.counts.lengths.of_all)),
    ]
    made = []
    for i, (title, unit, is_share, draw) in enumerate(drawn):
        traces = [draw(course, COLOURS[n % len(COLOURS)]) for n, course in enumerate(courses)]
        made.append(figure(title, unit, traces, wide=i == 0, percent=is_share))
    return [each for each in made if any(trace["y"] for trace in each["traces"])]


def _by_batch(value: Callable[[Any], float | None]) -> Callable[[Course, str], Any]:
    return lambda course, colour: course.by_batch(colour, value)


def _acceptance(course: Course, colour: str) -> Any:
    ends = bins(course.batches)
    return course.of_rows(colour, ends, shares_of(ends, lambda counts: counts.accepted))


def _first(course: Course) -> float | None:
    return course.evaluations[0].accuracy if course.evaluations else None


def _last(course: Course) -> float | None:
    return course.evaluations[-1].accuracy if course.evaluations else None


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _per(part: int, many: int) -> str:
    return f"{part / many:,.0f}" if many else "–"


def _rate(many: int, minutes: float) -> str:
    return f"{many / (60 * minutes):,.1f}" if minutes else "–"
