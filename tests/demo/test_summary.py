"""What a demo came to, in words and as JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.demo.recipe import note_of, recipe
from pipeline.demo.summary import summarise, told, training_seconds
from pipeline.demo.tasks import DEFAULT, TASKS, choices
from pipeline.history.audits.audit import Audit
from pipeline.history.rows import Gap
from pipeline.history.view import RunView

Viewed = Callable[[float], RunView]
REPORT = Path("/state/reports/t.html")


def test_a_clean_run_is_summed_up(viewed: Viewed) -> None:
    view = viewed(1.0)
    found = summarise(view, Audit(), 0, REPORT)
    assert found["audit"] == "clean" and found["keys_left"] == 0 and found["outcome"] == "completed"
    assert found["rejected"] == view.groups.rejected
    assert found["accepted"] + sum(found["rejected"].values()) <= found["groups"]
    text = told(found)
    assert "completed after 4 steps" in text and "audit              clean" in text and str(REPORT) in text


def test_violations_are_listed(viewed: Viewed) -> None:
    found = summarise(viewed(1.0), Audit(["I1: [a] twice", "I4: b"]), 3, REPORT)
    assert found["audit"] == ["I1: [a] twice", "I4: b"]
    assert "audit              2 violations\n    I1: [a] twice\n    I4: b" in told(found)


def test_a_run_without_a_step_has_numbers_too(viewed: Viewed) -> None:
    found = summarise(viewed(0.0), Audit(), 0, REPORT)
    assert (found["accuracy_before"], found["training_seconds"]) == (None, 0.0)
    assert "held-out accuracy  not measured" in told(found)


def test_pauses_are_no_training(viewed: Viewed) -> None:
    view = viewed(1.0)
    rows = list(view.progress.batches)
    begin, end = rows[0].at_ms - rows[0].seconds * 1000, rows[-1].at_ms
    assert training_seconds(view) == (end - begin) / 1000
    view.gaps = [Gap(0, round(begin) + 1000), Gap(end - 2000, end + 60_000), Gap(end + 1, end + 2)]
    assert training_seconds(view) == pytest.approx((end - begin) / 1000 - 3, abs=0.01)


def test_the_recipe_differs_by_its_filter_alone() -> None:
    with_filter, without = recipe("a", 1, 5, True).model_dump(), recipe("a", 1, 5, False).model_dump()
    assert [link["type"] for link in with_filter.pop("filters")["default"]] == ["zero_std"]
    assert [link["type"] for link in without.pop("filters")["default"]] == ["no_filter"]
    assert with_filter == without


def test_the_walk_is_played_with_an_environment_whose_broken_episodes_are_filtered() -> None:
    with_filter, without = (recipe("a", 1, 5, filtered, "walk") for filtered in (True, False))
    assert [link.type for link in with_filter.chain("walk")] == ["drop_flag", "zero_std"]
    assert [link.type for link in without.chain("walk")] == ["drop_flag"]
    assert with_filter.environment is not None and with_filter.environment.on_failure == "zero"
    assert (with_filter.redundancy, with_filter.assembly.count, with_filter.publication) == (1, "any", "refresh")
    assert "random weights" in note_of(with_filter) and "warm-started" in note_of(recipe("a", 1, 5, True))


def test_every_task_is_explained() -> None:
    assert [line.partition(":")[0] for line in choices()] == ["sorting", "walk"]
    assert all(len(line) > 20 for line in choices()) and DEFAULT in TASKS
