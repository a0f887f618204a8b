"""Ctrl-C ends the demo: in order where something is to be put in order, at once where not, and always soon."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.demo.interrupt import PATIENCE_S, supervise

ROOT = Path(__file__).parents[2]
Start = Callable[[str], "subprocess.Popen[str]"]

SCRIPT = """
import sys, time
from pipeline.demo.interrupt import supervise

def begun(): print("begun", flush=True)
def at_once(): print("at once", flush=True)

{work}

sys.exit(supervise(work, at_once))
"""


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a process that supervises this work, and waits until it has begun."""
    made: list[subprocess.Popen[str]] = []

    def begin(work: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", SCRIPT.format(work=textwrap.dedent(work))]
        made.append(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        assert made[-1].stdout is not None and made[-1].stdout.readline() == "begun\n"
        return made[-1]

    yield begin
    for process in made:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    said, _ = process.communicate(timeout=60)
    return process.returncode, said


IN_ORDER = """
    def work(stopping):
        with stopping.in_order():
            begun()
            while not stopping():
                time.sleep(0.01)
            {last}
        return 0
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_work_that_looks_ends_in_order(start: Start, number: signal.Signals) -> None:
    process = start(IN_ORDER.format(last='print("in order", flush=True)'))
    process.send_signal(number)
    assert ended(process) == (128 + number, "in order\n")


def test_work_with_nothing_to_put_in_order_is_left_where_it_stands(start: Start) -> None:
    process = start("""
        def work(stopping):
            begun()
            time.sleep(100)
    """)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert ended(process) == (130, "at once\n")
    assert time.monotonic() - began < PATIENCE_S


def test_a_second_signal_is_at_once(start: Start) -> None:
    process = start(IN_ORDER.format(last='print("waits", flush=True); time.sleep(100)'))
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None and process.stdout.readline() == "waits\n"
    process.send_signal(signal.SIGINT)
    assert ended(process) == (130, "at once\n")


def test_patience_ends_with_work_that_takes_too_long_to_end(start: Start) -> None:
    process = start(IN_ORDER.format(last="time.sleep(100)"))
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert ended(process) == (130, "at once\n")
    assert PATIENCE_S - 1 < time.monotonic() - began < 60


def test_work_that_is_asked_to_stop_begins_nothing_that_needs_an_end(start: Start) -> None:
    process = start("""
        def work(stopping):
            begun()
            while not stopping():
                time.sleep(0.01)
            with stopping.in_order():
                print("not reached", flush=True)
    """)
    process.send_signal(signal.SIGINT)
    code, said = ended(process)
    assert code == 130 and said in ("", "at once\n")


def test_the_works_exit_code_and_its_errors_come_through() -> None:
    before = signal.getsignal(signal.SIGINT)
    assert supervise(lambda stopping: 7, lambda: None) == 7
    with pytest.raises(ZeroDivisionError):
        supervise(lambda stopping: 1 // 0, lambda: None)
    assert signal.getsignal(signal.SIGINT) is before
