"""The help teaches the flow, and every command that a sentence names is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from pipeline.cli import commands
from pipeline.cli.commands import app

from .conftest import ROOT, Tamis, completed

COMMANDS: dict[str, Any] = vars(typer.main.get_command(app))["commands"]
NAMES = sorted(COMMANDS)


def test_the_help_shows_the_way_from_demo_to_audit(offline: Tamis) -> None:
    answer = offline("--help")
    assert answer.code == 0
    shown = " ".join(answer.out.split())
    places = [shown.index(f"tamis {word}") for word in ("demo", "up", "init", "consume", "status", "trace", "audit")]
    assert places[:5] == sorted(places[:5])
    assert "Exit codes: 0 done" in shown
    assert "A refusal is a sentence on standard error and an exit code, with --json too." in shown


def test_no_words_at_all_shows_the_help(offline: Tamis) -> None:
    answer = offline()
    assert answer.code == 2 and "See it work" in answer.out + answer.err


@pytest.mark.parametrize("name", NAMES)
def test_every_command_explains_itself(offline: Tamis, name: str) -> None:
    answer = offline(name, "--help")
    assert answer.code == 0
    assert COMMANDS[name].help


def leaves(commands: dict[str, Any], before: str = "") -> dict[str, Any]:
    """All commands by their whole names."""
    found: dict[str, Any] = {}
    for name, command in commands.items():
        inner = getattr(command, "commands", None)
        found |= leaves(inner, f"{before}{name} ") if inner else {before + name: command}
    return found


@pytest.mark.parametrize("name", sorted(leaves(COMMANDS)))
def test_every_command_has_an_option_for_json(name: str) -> None:
    command = leaves(COMMANDS)[name]
    options = {option for parameter in command.params for option in getattr(parameter, "opts", ())}
    assert "--json" in options


@pytest.mark.parametrize(
    ("name", "option", "begun", "words"),
    [
        ("tail", "--reason", "zero", ["zero_std"]),
        ("tail", "--event", "GroupRe", ["GroupRejected"]),
        ("tail", "--domain", "", []),  # of a run that isn't known
        ("config import", "--from", "r", ["roll", "ragen"]),
        ("demo", "--task", "wa", ["walk"]),
    ],
)
def test_words_that_an_option_takes_are_offered(home: Path, name: str, option: str, begun: str, words: str) -> None:
    command = leaves(COMMANDS)[name]
    parameter = next(parameter for parameter in command.params if option in getattr(parameter, "opts", ()))
    context = command.make_context("tamis", ["nosuch"], resilient_parsing=True)
    assert [found.value for found in parameter.shell_complete(context, begun)] == words


def test_a_shell_can_complete(home: Path) -> None:
    assert completed("tamis sta", home) == ["status"]
    assert completed("tamis consume sc", home) == ["scheduler", "scorer"]
    assert completed("tamis tail some dead", home) == ["dead-letters"]


def test_every_command_that_is_named_in_a_text_exists() -> None:
    texts = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "Makefile"]
    texts += [path for folder in ("pipeline", "examples", "docs") for path in (ROOT / folder).rglob("*")]
    named: dict[str, Path] = {}
    for path in texts:
        if path.suffix in (".py", ".md", ".yaml", ".j2") or path.name == "Makefile":
            for name in re.findall(r"(?:`| )tamis ([a-z]{2,})(?=[ `)]| RUN|$)", path.read_text(), re.M):
                named.setdefault(name, path)
    assert {"demo", "up", "init", "recover", "delete"} <= named.keys()
    prose = {name for name in named if name not in NAMES}
    assert prose == set(), {name: str(named[name]) for name in prose}


def test_a_command_that_does_not_exist_is_refused(offline: Tamis) -> None:
    answer = offline("statsu", "first")
    assert answer.code == 2
    assert "No such command 'statsu'" in answer.err


def test_the_entry_point_runs_as_a_process(home: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pipeline.cli", "config", "check", "nowhere.yaml"],
        env={"PYTHONPATH": str(ROOT), "COLUMNS": "200"}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 2
    assert "file 'nowhere.yaml' does not exist" in ended.stderr


def test_a_fault_of_our_own_is_told_as_that_and_kept(
    offline: Tamis, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    def broken(*words: object, **named: object) -> None:
        raise ZeroDivisionError("nothing to divide by")

    monkeypatch.setattr(commands, "app", broken)
    answer = offline("runs")
    assert answer.code == 70 and "ZeroDivisionError: nothing to divide by. That is a bug in Tamis" in answer.err
    kept = Path(answer.err.partition("bug in Tamis; ")[2].partition(" says where")[0])
    assert (home / kept).read_text().startswith("Traceback")
    monkeypatch.setattr(commands, "STATE", Path("/proc/nope"))
    answer = offline("runs")
    assert answer.code == 70 and "no report can be written under /proc/nope: set TAMIS_STATE" in answer.err
