"""The report is one file that needs nothing else, and says what the view knows."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pipeline.domain import events as e
from pipeline.domain.topology import Topic
from pipeline.history.audits.audit import Audit
from pipeline.history.reports.report import render, write_report
from pipeline.history.view import RunView

from .drive import Drive


@pytest.fixture(scope="module")
def view(drive: Drive) -> RunView:
    made = RunView()
    for record in drive.records:
        made.note(record.timestamp_ms, record.topic, record.event())
    for i in range(20):
        made.sample_redis(drive.records[0].timestamp_ms + 1000 * i, 10_000_000 + i, i)
    return made


class Links(HTMLParser):
    """Collects every address that a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "action")]


def figures(html: str) -> list[dict[str, object]]:
    found = re.search(r"const figures = (\[.*?\]), gaps = ", html, re.S)
    assert found is not None
    made: list[dict[str, object]] = json.loads(found[1])
    return made


def test_the_report_fetches_nothing(view: RunView) -> None:
    links = Links()
    links.feed(render(view))
    assert links.found == []


def test_the_report_says_what_the_view_knows(view: RunView) -> None:
    html = render(view, Audit(checked={"outputs compared": 1234}), keys_left=0, note="Warm-started for 40 steps.")
    page = html[: html.index("<script>")]
    for text in ("Warm-started for 40 steps.", "4 of 4", "1,234 decisions replayed", "Keys left in Redis", "zero_std/"):
        assert text in page


def test_every_curve_has_points(view: RunView) -> None:
    titles = [figure["title"] for figure in figures(render(view))]
    assert titles == [
        "Reward and held-out accuracy", "Verdicts on training groups", "Rejections by category",
        "Response length: mean", "Response length: distribution", "Staleness of batches",
        "Time to assemble a group", "Throughput", "Memory of Redis", "Payloads in Redis", "Learner: loss",
    ]  # fmt: skip


def test_shares_of_verdicts_add_up_to_one(view: RunView) -> None:
    traces = next(f for f in figures(render(view)) if f["title"] == "Verdicts on training groups")["traces"]
    assert isinstance(traces, list)
    for shares in zip(*(trace["y"] for trace in traces), strict=True):
        assert sum(shares) == pytest.approx(1.0)


def test_violations_are_shown_and_markup_is_not_obeyed(view: RunView, tmp_path: Path) -> None:
    write_report(tmp_path / "report.html", view, Audit(violations=["I1 <script>alert(1)</script>"]), note="<b>bold</b>")
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "1 violations" in html
    assert "I1 &lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "<b>bold</b>" not in html


def test_a_forked_run_says_where_it_goes_on_from(drive: Drive) -> None:
    started = drive.records[0].event()
    assert isinstance(started, e.RunStarted)
    config = json.loads(started.config) | {"start": {"run": "first", "step": 30, "prompts": {"sort": 7}}}
    for run, told in ((started, False), (replace(started, config=json.dumps(config)), True)):
        made = RunView()
        made.note(0, Topic.LEDGER, run)
        assert ("goes on from run first, step 30" in render(made)) is told


def test_a_run_that_has_not_begun_has_a_report_too() -> None:
    html = render(RunView())
    assert "no evaluation was finished" in html
    assert figures(html) == []
