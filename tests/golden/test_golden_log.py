"""The recorded run comes out as it did, byte for byte, under any hash seed and on another Python."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.domain import events as e
from pipeline.domain.rules import DECISION_VERSIONS
from pipeline.domain.topology import Topic
from pipeline.domain.vocabulary import DiscardReason, ExpiryReason, Reason
from pipeline.history.audits.audit import audit
from pipeline.history.records import MemoryLog
from pipeline.log.codec import Members, Poison
from pipeline.log.reader import Record
from tests.golden.log import PINS, given, read, started

ROOT = Path(__file__).parents[2]
OTHER = "python3.13"


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return read()


@pytest.fixture(scope="module")
def pins() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(PINS.read_text())
    return found


def test_the_log_holds_what_stages_may_meet(records: list[Record]):
    events, poison = list[e.Event](), 0
    for record in records:
        try:
            events.append(record.event())
        except Poison:
            poison += 1
    assert len(records) > 200 and poison == 1
    assert {event.reason for event in events if isinstance(event, e.ResponseDiscarded)} >= {
        DiscardReason.DUPLICATE,
        DiscardReason.LATE,
        DiscardReason.FAILED,
    }
    assert {event.reason for event in events if isinstance(event, e.GroupRejected)} == {
        Reason.ZERO_STD,
        Reason.UNDECODABLE,
    }
    assert ExpiryReason.STALE in {event.reason for event in events if isinstance(event, e.GroupExpired)}
    assert any(isinstance(event, e.PromptIssued) and event.replaces for event in events)
    assert sum(isinstance(event, e.BatchTrained) for event in events) == 5


def test_the_stages_answer_as_they_did_and_keep_the_invariants(records: list[Record]):
    """It was recorded under version 1 of every stage; what is decided otherwise since then doesn't occur in it."""
    first = replace(started(records), decision_versions=DECISION_VERSIONS)
    found = audit(MemoryLog(records), first, Members())
    poison = next(r for r in records if r.topic is Topic.ROLLOUTS and r.cause is None)
    assert found.drained
    assert [text for text in found.violations if not text.startswith("cause")] == []
    assert [text.split()[1] for text in found.violations] in ([], [f"rollouts/{poison.partition}/{poison.offset}"])
    assert found.checked["inputs replayed"] > 200


def test_the_states_end_as_they_did(records: list[Record], pins: dict[str, Any]):
    assert given(records)[1] == pins["states"]


def test_the_domain_alone_says_the_same_under_any_hash_seed_and_on_another_python(
    records: list[Record], pins: dict[str, Any]
):
    inputs = json.dumps(given(records)[0])
    for python in pythons():
        for seed in ("0", "1"):
            assert _fold(python, seed, inputs) == pins["fold"], f"{python}, PYTHONHASHSEED={seed}"


def pythons() -> list[str]:
    """This one, and another where there is one."""
    other = shutil.which(OTHER)
    works = other and subprocess.run([other, "-c", ""], capture_output=True).returncode == 0
    return [sys.executable, other] if other and works else [sys.executable]


def _fold(python: str, seed: str, inputs: str) -> Any:
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
    command = [python, "-m", "tests.golden.fold"]
    done = subprocess.run(command, input=inputs, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
