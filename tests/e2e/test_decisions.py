"""What decides a run is in its first record, and nowhere else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from pipeline.domain import events as e
from pipeline.domain.topology import Output, Topic
from pipeline.history.audits.audit import audit_run
from pipeline.local import Services
from pipeline.log.admin import create_run
from pipeline.log.client import Connection
from pipeline.log.facts import write_facts
from pipeline.log.reader import read_topic
from tests.e2e.harness import BASE, ROLES, ROOT, Run

pytestmark = pytest.mark.e2e


@contextmanager
def consumers(environment: dict[str, str], *roles: str) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """The consumers as their containers start them."""
    made = {
        role: subprocess.Popen(
            [sys.executable, "-m", f"consumers.{role}", "--until-finished"],
            cwd=ROOT,
            env=os.environ | environment,
            stderr=subprocess.PIPE,
        )
        for role in roles
    }
    try:
        yield made
    finally:
        for process in made.values():
            process.kill()
            process.communicate()


def test_a_file_that_changes_after_init_changes_nothing(services: Services, run_name: str, tmp_path: Path):
    """Every consumer is a process of its own here, started by the command line of its container."""
    environment = {
        "TAMIS_BOOTSTRAP": services.bootstrap,
        "TAMIS_REDIS_URL": services.redis_url,
        "TAMIS_RUN": run_name,
        "TAMIS_DATA_DIR": str(tmp_path / "files"),
        "TAMIS_SLOT": "1",
        "PYTHONPATH": str(ROOT),
    }
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump({**BASE, "run": run_name, "steps": 2}))
    init = [sys.executable, "-m", "pipeline.cli", "init", str(file)]
    subprocess.run(init, cwd=ROOT, env=os.environ | environment, check=True, capture_output=True)
    file.write_text(yaml.safe_dump({**BASE, "run": run_name, "steps": 99, "seed": 8}))
    with consumers(environment, *ROLES, "monitor") as started:
        for role, process in started.items():
            _, said = process.communicate(timeout=120)
            assert process.returncode == 0, f"{role}: {said.decode()}"
    connection = Connection(services.bootstrap, run_name, "test")
    events = [record.event() for record in read_topic(connection, Topic.LEDGER)]
    assert sum(isinstance(event, e.BatchTrained) for event in events) == 2
    assert audit_run(connection).violations == []


@pytest.mark.parametrize("role", ROLES)
def test_a_run_of_another_decision_version_is_refused(role: str, make_run: Callable[..., Run], older: Run):
    host = older.start(role)
    assert host.wait() == 2
    advice = f"go on in a new run: `tamis fork {older.name} --as {older.name}-2`"
    assert host.said(f"use the release that started it, or {advice}"), host.tail()


@pytest.fixture(scope="module")
def older(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A run that another release has started."""
    made = Run(services, f"older{os.getpid()}", tmp_path_factory.mktemp("older"))
    name = f"{made.name}-0"
    started = replace(made.started.started, run=name, decision_versions={"scheduler": 0})
    made.connection, made.name = replace(made.connection, run=name), name
    create_run(made.connection, made.rules)
    write_facts(made.connection, "init", [Output(Topic.LEDGER, 0, started)])
    yield made
    made.close()


def test_prompts_that_changed_since_init_are_refused(make_run: Callable[..., Run], tmp_path: Path):
    file = tmp_path / "prompts.jsonl"
    line = '{"id": "%d", "domain": "a", "prompt": "p", "target": "x"}\n'
    file.write_text("".join(line % n for n in range(20)))
    run = make_run(prompts={"factory": "pipeline.prompts.jsonl:JsonlPrompts", "options": {"path": str(file)}})
    file.write_text("".join(line % n for n in range(21)))
    host = run.start("scheduler")
    assert host.wait() == 2
    assert host.said("prompts has changed since run"), host.tail()
