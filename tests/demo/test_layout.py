"""The live view says what the issue of watching is about, at any width, without jumping."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

import pytest
from rich.console import Console

from pipeline.demo.layout import Standing, activity, line, panel
from pipeline.demo.live import Screen
from pipeline.domain import events as e
from pipeline.domain.events import EvalRef
from pipeline.domain.topology import Topic
from pipeline.history.view import RunView

Viewed = Callable[[float], RunView]
ROLES = ("trainer-1", "generator-1", "generator-2", "scheduler-1", "scorer-1")
NOTHING = Standing([(name, False) for name in ROLES], 3.0, 0)
AT_WORK = Standing([(name, True) for name in ROLES], 42.0, 0)


def shown(view: RunView, standing: Standing, width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO(), force_terminal=True, color_system=None)
    with console.capture() as captured:
        console.print(panel(view, standing, width))
    return captured.get().splitlines()


@pytest.mark.parametrize("width", [40, 60, 80, 107, 120, 200])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_no_line_is_wider_than_the_terminal(viewed: Viewed, share: float, width: int) -> None:
    for standing in (NOTHING, AT_WORK):
        assert max(map(len, shown(viewed(share), standing, width))) <= width


@pytest.mark.parametrize("width", [80, 120])
def test_the_height_stays_while_the_run_goes_on(viewed: Viewed, width: int) -> None:
    assert len({len(shown(viewed(share), AT_WORK, width)) for share in (0.05, 0.1, 0.3, 0.5, 0.8, 1.0)}) == 1


@pytest.mark.parametrize("width", [80, 120])
def test_it_says_how_the_run_stands(viewed: Viewed, width: int) -> None:
    view = viewed(0.8)
    text = "\n".join(shown(view, AT_WORK, width))
    first, last = view.progress.first_evaluation, view.progress.last_evaluation
    assert first and last and first.accuracy is not None and last.accuracy is not None
    assert f"step {view.step} of 4" in text
    assert re.search(r"\d+:\d\d left", text)
    assert re.search(r"reward +0\.\d\d", text)
    assert f"{first.accuracy:.1%} → {last.accuracy:.1%}" in text
    assert re.search(r"staleness +\d\.\d\d versions", text)
    assert re.search(rf"open +{view.groups.open_train + view.groups.open_eval}\b", text)
    assert re.search(rf"accepted +{view.groups.accepted}\b", text)
    assert re.search(rf"rejected +{sum(view.groups.rejected.values())}\b", text)
    assert re.search(r"\d+ all (zero|max)", text)
    assert re.search(rf"replaced +{view.groups.replacements}\b", text)
    assert re.search(r"a second +\d+", text)
    assert re.search(r"keys +1,234", text) and "2.3 MB" in text


def test_while_it_starts_it_says_what_is_waited_for_and_no_zeros(viewed: Viewed) -> None:
    standing = Standing([(name, name == "scorer-1") for name in ROLES], 7.0, 0)
    text = "\n".join(shown(viewed(0.0), standing, 80))
    assert "starting: 1 of 5 processes are at work" in text
    assert "● scorer-1" in text and "○ trainer-1" in text
    assert "import torch first" in text and "0:07" in text
    assert "accepted" not in text
    assert line(viewed(0.0), standing) == (
        "7 s · starting: 1 of 5 processes are at work, waiting for trainer-1, generator-1, generator-2, scheduler-1"
    )


def test_the_line_says_the_same(viewed: Viewed) -> None:
    view = viewed(0.8)
    text = line(view, AT_WORK)
    for part in (f"step {view.step}/4", "left", "reward 0.", "accuracy", "open", f"accepted {view.groups.accepted}",
                 "rejected", "all zero", f"replaced {view.groups.replacements}", "staleness", "groups/s",
                 "1234 keys, 2.3 MB in Redis", "training"):  # fmt: skip
        assert part in text
    assert "\n" not in text


def test_each_stage_of_a_run_has_its_words(viewed: Viewed) -> None:
    assert activity(viewed(0.0), AT_WORK).startswith("waiting for the first policy")
    assert activity(viewed(1.0), AT_WORK).startswith("finished")
    assert activity(viewed(1.0), Standing([], 1.0, 0, "replaying")) == "replaying"
    evaluating = viewed(0.0)
    evaluating.note(1, Topic.LEDGER, e.TrainerStarted(1, 0, "p", "", "t", 1))
    evaluating.note(1, Topic.LEDGER, e.EvaluationStarted(EvalRef(0, 0, "p", ""), 0, 200, 1))
    assert activity(evaluating, AT_WORK) == "evaluating on held-out prompts: 0 of 200"
    closing = viewed(0.5)
    closing.closing = "stop"
    assert activity(closing, AT_WORK).startswith("closing")


def test_what_a_person_must_see_is_shown(viewed: Viewed) -> None:
    view = viewed(0.5)
    view.dead_letters["truncated"] = 2
    standing = Standing(AT_WORK.processes, 1.0, 0, problem="Redis at 127.0.0.1:1/0 doesn't answer")
    text = "\n".join(shown(view, standing, 80))
    assert "Redis at 127.0.0.1:1/0 doesn't answer" in text and "dead letters: 2 (truncated 2)" in text
    assert "Redis at 127.0.0.1:1/0 doesn't answer" in line(view, standing)


def test_without_a_terminal_there_is_a_line_every_few_seconds(viewed: Viewed) -> None:
    file = io.StringIO()
    screen = Screen(Console(file=file, width=40))
    for tenth in range(120):
        screen.update(viewed(0.0), NOTHING, tenth / 10)
    screen.say("[brackets] stay as they are")
    lines = file.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("3 s · starting: 0 of 5") and len(lines[0]) > 40
    assert lines[3] == "[brackets] stay as they are"


def test_on_a_terminal_the_screen_goes_away_and_sentences_stay(viewed: Viewed) -> None:
    file = io.StringIO()
    console = Console(file=file, width=80, height=40, force_terminal=True, color_system=None)
    screen = Screen(console)
    screen.update(viewed(0.5), AT_WORK, 0.0)
    screen.say("a sentence")
    screen.close()
    screen.close()
    assert "a sentence" in file.getvalue()
    assert file.getvalue().rstrip().endswith("\x1b[2K")
