"""Several runs in one file: as they ended, at equal time and at equal tokens."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from pipeline.history.reports.compare import render_comparison
from pipeline.history.reports.course import Course
from pipeline.history.view import RunView

from .drive import Drive


def view_of(drive: Drive, name: str, until: float = 1.0, slower: int = 1) -> RunView:
    """A run's view under another name, as far as it went, with a clock that runs `slower` times as long."""
    made = RunView()
    start = drive.records[0].timestamp_ms
    for record in drive.records[: int(until * len(drive.records))]:
        made.note(start + slower * (record.timestamp_ms - start), record.topic, record.event())
    made.run = name
    return made


@pytest.fixture(scope="module")
def views(drive: Drive) -> list[RunView]:
    return [view_of(drive, "whole"), view_of(drive, "part", until=0.6), view_of(drive, "slow", slower=3)]


def figures(html: str) -> list[dict[str, Any]]:
    found = re.search(r"const figures = (\[.*?\]), gaps = ", html, re.S)
    assert found is not None
    made: list[dict[str, Any]] = json.loads(found[1])
    return made


def test_every_run_has_a_curve_by_step_by_time_and_by_tokens(views: list[RunView]) -> None:
    for drawn in figures(render_comparison(views)):
        assert [trace["name"] for trace in drawn["traces"]] == ["whole", "part", "slow"]
        for trace in drawn["traces"]:
            assert len(trace["x"]) == len(trace["minutes"]) == len(trace["tokens"]) == len(trace["y"]) > 0
            assert trace["tokens"] == sorted(trace["tokens"])


def test_equal_wall_time_and_equal_tokens_are_those_of_the_run_that_has_least(views: list[RunView]) -> None:
    courses = [Course(view) for view in views]
    html = render_comparison(views)
    least = min(course.end().tokens for course in courses)
    assert f"At equal generated tokens: {least:,}" in html
    assert least == courses[1].end().tokens < courses[0].end().tokens
    minutes = min(course.end().minutes for course in courses)
    whole, _, slow = (course.batch_until(lambda point: point.minutes <= minutes) for course in courses)
    assert whole is not None and (0 if slow is None else slow.step) < whole.step  # a third of the speed


def test_a_pause_is_no_wall_time(drive: Drive) -> None:
    made, start = RunView(), drive.records[0].timestamp_ms
    half = len(drive.records) // 2
    for i, record in enumerate(drive.records):
        pause = 3_600_000 if i >= half else 0
        made.note(record.timestamp_ms + pause, record.topic, record.event())
    assert Course(made).end().minutes == pytest.approx((drive.records[-1].timestamp_ms - start) / 60_000, abs=0.1)


def test_the_time_from_init_to_the_first_process_is_no_wall_time(drive: Drive) -> None:
    made, soon = RunView(), RunView()
    for i, record in enumerate(drive.records):
        soon.note(record.timestamp_ms, record.topic, record.event())
        made.note(record.timestamp_ms + (3_600_000 if i else 0), record.topic, record.event())
    assert Course(made).end() == Course(soon).end()
    assert made.active_s == soon.active_s == Course(soon).end().minutes * 60
    assert [Course(made).at(row.at_ms) for row in made.progress.batches] == [
        Course(soon).at(row.at_ms) for row in soon.progress.batches
    ]


def test_the_file_needs_nothing_else(views: list[RunView]) -> None:
    page = render_comparison(views)
    assert not re.search(r"""(?:src|href)=["']""", page[: page.index("<script>")])
