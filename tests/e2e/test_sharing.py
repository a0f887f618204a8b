"""Several consumers of each kind: the work is shared, a standby stands by, and whoever is left takes over."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from pipeline.domain import events as e
from pipeline.domain.topology import Topic
from tests.e2e.harness import ROLES, Run

ALONE = ("scheduler", "batcher", "reaper")
"""Stages of which one is active, beside the trainer."""

pytestmark = [pytest.mark.e2e, pytest.mark.faults]


@pytest.mark.parametrize("leave", ["killed", "stopped"])
def test_partitions_are_shared_and_one_that_leaves_is_replaced(leave: str, make_run: Callable[..., Run]):
    run = make_run(steps=8, engine={"factory": "tests.e2e.plugins:Dice", "options": {"batch": 1}})
    run.hold("train-2")
    run.hold("train-6")
    first = run.start(*ROLES, slot="a", until_finished=False)
    run.reached("train-2")
    second = run.start(*ROLES, slot="b", until_finished=False)
    shared = ("generator", "scorer", "assembler", "filter")
    for host in (first, second):
        run.until(lambda host=host: all(_has_one_partition(host, stage) for stage in shared), f"{host} has its part")
    assert not second.said("trainer has the ledger")
    assert not [stage for stage in ALONE if _has_the_ledger(second, stage)]
    run.release("train-2")
    run.reached("train-6")
    assert {event.generator for event in run.events(e.ResponseGenerated, Topic.RESPONSES)} == {"a", "b"}
    if leave == "killed":
        first.kill()
        run.release("train-6")
    else:
        first.signal(signal.SIGTERM)
        run.release("train-6")
        assert first.wait() == 0
    run.finish()
    trainers = [event.trainer for event in run.events(e.TrainerStarted)]
    assert set(trainers) == {"a", "b"} and trainers == sorted(trainers)
    assert len(run.events(e.BatchTrained)) == 8
    assert [stage for stage in ALONE if _has_the_ledger(second, stage)] == list(ALONE)
    second.stop()


def _has_the_ledger(host, stage: str) -> bool:
    """Whether it was given the ledger's one partition, and restored its state."""
    return any(f'"stage": "{stage}", "positions": {{"0"' in line for line in host.log.read_text().splitlines())


def _has_one_partition(host, stage: str) -> bool:
    """Whether the last assignment in its log is one partition of two."""
    lines = [line for line in host.log.read_text().splitlines() if f'"stage": "{stage}", "positions"' in line]
    return bool(lines) and lines[-1].split('"positions": {')[1].split("}")[0].count(":") == 1
