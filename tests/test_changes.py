"""A line of log for each batch and each change of state, as JSON, with its numbers."""

from __future__ import annotations

import json
import threading

import pytest

from pipeline.changes import CHANGES, announce
from pipeline.config import ProcessSettings
from pipeline.domain.topology import ON_TOPIC, Output, Topic
from pipeline.process import configure_logs, who
from tests.log.samples import bare, full


def test_every_change_is_one_line_of_json_with_its_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("info")
    events = [make(kind) for kind in CHANGES for make in (full, bare)]
    announce([Output(Topic.LEDGER, 0, event) for event in events])
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in lines] == [CHANGES[type(event)][1] for event in events]
    assert {line["level"] for line in lines} == {"info", "warning", "error"}
    assert lines[0]["batch"] == full(next(iter(CHANGES))).batch


def test_each_line_says_whose_it_is_whatever_thread_it_comes_from(capsys: pytest.CaptureFixture[str]) -> None:
    whose = {"consumer": "filter", "slot": "filter-1", "run": "first"}
    settings = ProcessSettings(slot="filter-1", run="first")
    configure_logs("info", **who("filter", settings))
    told = [Output(Topic.LEDGER, 0, full(next(iter(CHANGES))))]
    thread = threading.Thread(target=announce, args=(told,))
    thread.start()
    thread.join()
    announce(told)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert len(lines) == 2
    assert all(whose.items() <= line.items() for line in lines)


def test_copies_and_single_groups_are_not_lines(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("info")
    others = [kind for kind in ON_TOPIC[Topic.LEDGER] if kind not in CHANGES]
    announce([Output(Topic.LEDGER, 0, full(kind)) for kind in others])
    announce([Output(Topic.PROMPTS, 0, full(kind)) for kind in CHANGES])
    assert capsys.readouterr().err == ""
