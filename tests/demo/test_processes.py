"""The consumers as processes: what dies is started again, what can't live ends the demo with its last words."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.demo.errors import ProcessFailed
from pipeline.demo.processes import DEATHS_IN_A_ROW, Processes, Role
from tests.cli.conftest import eventually

FAKE = """
import json, os, signal, sys, time
print("a line that is no JSON", file=sys.stderr)
print(json.dumps({"why": "the [moon] is full", "event": "ends"}), file=sys.stderr, flush=True)
if "FAKE_CODE" in os.environ:
    sys.exit(int(os.environ["FAKE_CODE"]))
if "FAKE_STUBBORN" in os.environ:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(os.environ["TAMIS_HEARTBEAT"], "w").close()
time.sleep(300)
"""
ROLES = [Role("fake", "1"), Role("fake", "2")]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Processes]]:
    """Makes processes of a consumer that does nothing, `FAKE_…` saying how it does that."""
    (tmp_path / "consumers").mkdir()
    (tmp_path / "consumers" / "__init__.py").touch()
    (tmp_path / "consumers" / "fake.py").write_text(FAKE)
    made: list[Processes] = []

    def start(**environment: str) -> Processes:
        made.append(Processes({"PYTHONPATH": str(tmp_path), **environment}, tmp_path / "logs"))
        made[-1].start(ROLES)
        return made[-1]

    here = os.getcwd()
    os.chdir(tmp_path)
    yield start
    os.chdir(here)
    for processes in made:
        processes.kill()
        for child in processes.children:
            child.process.wait()


def all_ready(processes: Processes) -> bool:
    return all(ready for _, ready in processes.standing())


def test_a_process_is_at_work_once_it_gives_a_sign_of_life(make: Callable[..., Processes]) -> None:
    processes = make()
    assert [name for name, _ in processes.standing()] == ["fake-1", "fake-2"]
    eventually(lambda: all_ready(processes), "signs of life")
    assert processes.stop() == []
    assert {child.process.returncode for child in processes.children} == {-signal.SIGTERM}


def test_what_dies_is_started_again(make: Callable[..., Processes]) -> None:
    processes = make()
    eventually(lambda: all_ready(processes), "signs of life")
    first = processes.children[0].process
    first.kill()
    first.wait()
    assert list(processes.tend()) == ["fake-1 ended (signal 9) and was started again"]
    assert not all_ready(processes)
    assert list(processes.tend()) == []
    eventually(lambda: all_ready(processes), "signs of life again")


def test_what_no_restart_mends_ends_it_with_the_end_of_its_log(make: Callable[..., Processes]) -> None:
    processes = make(FAKE_CODE="2")
    processes.children[0].process.wait()
    with pytest.raises(ProcessFailed) as failed:
        list(processes.tend())
    text = str(failed.value)
    assert text.startswith("fake-1 ended with exit code 2: the [moon] is full\nthe end of ")
    assert "a line that is no JSON" in text


def test_what_dies_again_and_again_ends_it(make: Callable[..., Processes]) -> None:
    processes = make(FAKE_CODE="5")
    said: list[str] = []
    with pytest.raises(ProcessFailed, match=f"exit code 5, {DEATHS_IN_A_ROW} times in a row"):
        while True:
            for child in processes.children:
                child.process.wait()
            said += processes.tend()
    assert said.count("fake-1 ended (exit code 5) and was started again") == DEATHS_IN_A_ROW - 1


def test_what_does_not_end_when_asked_is_killed_within_seconds(make: Callable[..., Processes]) -> None:
    processes = make(FAKE_STUBBORN="1")
    eventually(lambda: all_ready(processes), "signs of life")
    began = time.monotonic()
    assert processes.stop() == ["fake-1", "fake-2"]
    assert time.monotonic() - began < 9
    assert {child.process.returncode for child in processes.children} == {-signal.SIGKILL}
