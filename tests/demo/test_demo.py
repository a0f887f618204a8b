"""The demo itself, as a person starts it: short, from the first word to the report."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import psutil
import pytest

from pipeline.config import load_settings
from pipeline.domain import events as e
from pipeline.domain.topology import Topic
from pipeline.local import Services
from pipeline.log.client import Connection
from pipeline.log.reader import read_topic
from pipeline.runs import connection_of
from tests.cli.conftest import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]
DEADLINE_S = 300.0
FIGURES = {
    "Reward and held-out accuracy",
    "Verdicts on training groups",
    "Time to assemble a group",
    "Staleness of batches",
    "Payloads in Redis",
    "Memory of Redis",
}


class Demo:
    """`tamis demo` in a state folder of its own."""

    def __init__(self, state: Path, services: Services) -> None:
        self.state, self.services = state, services
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        addresses = ("--bootstrap", self.services.bootstrap, "--redis-url", self.services.redis_url)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TAMIS_")}
        self.started.append(
            subprocess.Popen(
                [sys.executable, "-m", "pipeline.cli", "demo", *addresses, *words],
                env={**inherited, **environment, "TAMIS_STATE": str(self.state)},
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
        return self.started[-1]

    def run(self, *words: str, **environment: str) -> tuple[int, str]:
        """Its exit code, and what it said."""
        process = self.start(*words, **environment)
        said, _ = process.communicate(timeout=DEADLINE_S)
        assert "Traceback" not in said
        return process.returncode, said

    @property
    def name(self) -> str:
        """Of the last run; empty before there is one."""
        path = self.state / "demo.json"
        return str(json.loads(path.read_text())["run"]) if path.exists() else ""

    def log(self) -> Connection:
        return connection_of(load_settings(bootstrap=self.services.bootstrap, run=self.name, slot="test"))

    def ledger(self) -> list[e.Event]:
        return [record.event() for record in read_topic(self.log(), Topic.LEDGER)] if self.name else []

    def trained(self) -> list[e.BatchTrained]:
        return [event for event in self.ledger() if isinstance(event, e.BatchTrained)]

    def processes(self) -> list[str]:
        """The command lines of this demo's processes that are alive, its own included."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("TAMIS_DATA_DIR", "").startswith(str(self.state)):
                    found.append(" ".join(process.cmdline()))
            except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
                continue
        return found


@pytest.fixture
def demo(tmp_path: Path, services: Services) -> Iterator[Demo]:
    made = Demo(tmp_path / "state", services)
    yield made
    for process in made.started:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(30)
        if process.stdout is not None:
            process.stdout.close()


class Addresses(HTMLParser):
    """Everything that a page would load, or lead to."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "action")]


def check_report(summary: dict[str, Any]) -> None:
    """One self-contained page with every figure."""
    html = Path(summary["report"]).read_text()
    addresses = Addresses()
    addresses.feed(html)
    assert addresses.found == []
    drawn = re.search(r"const figures = (\[.*?\]), gaps = ", html, re.S)
    assert drawn is not None
    assert {figure["title"] for figure in json.loads(drawn[1])} >= FIGURES
    assert summary["run"] in html and "clean" in html


def check_summary(summary: dict[str, Any], steps: int) -> None:
    """Every number is there, and agrees with the others."""
    assert summary["outcome"] == "completed" and summary["steps"] == steps
    assert summary["audit"] == "clean" and summary["keys_left"] == 0
    assert 0 <= summary["accuracy_before"] <= 1 and 0 <= summary["accuracy_after"] <= 1
    assert summary["accepted"] >= 32 * steps
    assert summary["rejected"]["zero_std/all_zero"] > 0
    assert summary["groups"] >= summary["accepted"] + sum(summary["rejected"].values())
    assert 0 < summary["training_seconds"] < DEADLINE_S


def test_the_demo_trains_audits_itself_and_leaves_nothing_behind(demo: Demo, tmp_path: Path) -> None:
    result = tmp_path / "made" / "result.json"
    code, said = demo.run("--steps", "12", "--json", str(result))
    assert code == 0, said
    summary = json.loads(result.read_text())
    check_summary(summary, 12)
    check_report(summary)
    assert "processes are at work, waiting for" in said
    assert re.search(r"step \d+/12 · .*reward .* · accepted \d+ · rejected \d+ \(all zero", said)
    assert f"report             {summary['report']}" in said and "audit              clean" in said
    assert demo.processes() == []


def test_ctrl_c_stops_the_demo_in_order_and_resume_makes_it_one_run(demo: Demo, tmp_path: Path) -> None:
    process = demo.start("--steps", "10")
    eventually(lambda: len(demo.trained()) >= 3 or process.poll() is not None, "three steps", DEADLINE_S)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert time.monotonic() - began < 10
    assert process.returncode == 130, said
    assert said.rstrip().endswith("stopped; go on with: tamis demo --resume   (make demo ARGS=--resume)")
    assert "had to be killed" not in said and "Traceback" not in said
    assert demo.processes() == []
    assert not any(isinstance(event, e.RunFinished) for event in demo.ledger())

    result = tmp_path / "result.json"
    code, said = demo.run("--resume", "--json", str(result))
    assert code == 0, said
    summary = json.loads(result.read_text())
    assert summary["run"] == demo.name
    check_summary(summary, 10)
    check_report(summary)
    ledger = demo.ledger()
    assert [event.version for event in demo.trained()] == list(range(1, 11))
    assert sum(isinstance(event, e.RunFinished) for event in ledger) == 1

    code, said = demo.run("--resume", "--json", str(result))
    assert code == 0
    assert json.loads(result.read_text()) == summary
    check_report(summary)
    assert f"run {demo.name} is complete: 10 of 10 steps, completed; nothing is left" in said
    assert "processes" not in said
    assert demo.ledger() == ledger


@pytest.mark.parametrize("words", [("--task", "walk"), ("--seed", "2"), ("--steps", "2"), ("--no-filter",)])
def test_resume_takes_no_other_decisions(demo: Demo, words: tuple[str, ...]) -> None:
    code, said = demo.run("--resume", *words)
    assert (code, said) == (
        2,
        "error: --resume goes on with the run as it was started: leave --task, --seed, --steps and --no-filter out\n",
    )


def test_there_must_be_a_demo_to_resume(demo: Demo) -> None:
    code, said = demo.run("--resume")
    assert code == 2
    assert f"there is no demo to resume: {demo.state}/demo.json is missing; start one with: tamis demo" in said


def test_ctrl_c_before_the_run_begins_leaves_nothing(demo: Demo) -> None:
    process = demo.start("--steps", "5")
    assert process.stdout is not None and process.stdout.readline().startswith("Kafka ")
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said and "stopped" in said
    assert demo.processes() == []


def test_ctrl_c_while_it_starts_leaves_nothing_and_two_demos_share_no_state(demo: Demo) -> None:
    process = demo.start("--steps", "5")
    eventually(lambda: any("consumers." in line for line in demo.processes()), "its first processes", 60)
    code, said = demo.run("--resume")
    assert code == 1
    assert said.startswith(f"error: another demo is running in {demo.state}: let it end, stop it with Ctrl-C")
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert time.monotonic() - began < 10
    assert process.returncode == 130
    assert "Traceback" not in said and "go on with: tamis demo --resume" in said
    assert demo.processes() == []


def test_a_process_that_cannot_live_ends_the_demo_with_its_last_words(demo: Demo) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, said = demo.run("--steps", "5", TAMIS_METRICS_PORT=str(port))
    assert code == 1
    assert f"error: monitor-1 ended with exit code 2: TAMIS_METRICS_PORT: {port} can't be listened at" in said
    assert re.search(r"\nthe end of .*/monitor-1.log:\n  \{", said)
    assert said.rstrip().endswith("once that is mended, go on with: tamis demo --resume   (make demo ARGS=--resume)")
    assert demo.processes() == []
