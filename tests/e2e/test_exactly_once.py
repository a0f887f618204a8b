"""Each kind of consumer is killed at a moment that chance decides, and started again. The audit finds every fact once,
every decision equal to the pure fold of its input, and nothing left behind."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from pipeline.domain import events as e
from pipeline.domain.topology import Topic
from tests.e2e.harness import ROLES, Run

pytestmark = [pytest.mark.e2e, pytest.mark.faults]


@pytest.mark.parametrize("victim", ROLES)
def test_nothing_is_lost_or_doubled_when_this_consumer_is_killed(
    victim: str, make_run: Callable[..., Run], chance: random.Random
):
    run = make_run(steps=3, prompts={"factory": "tests.e2e.plugins:Numbers", "options": {"every": {"3": "constant"}}})
    others = run.start(*(role for role in ROLES if role != victim))
    first = run.start(victim)
    moment = chance.randint(1, 60)
    print(f"{victim} is killed after {moment} records")
    run.until(lambda: sum(map(len, run.log.values())) >= moment, f"{moment} records")
    first.kill()
    second = run.start(victim)
    run.finish()
    run.ended_well(others, second)
    assert len(run.events(e.BatchTrained)) == 3
    assert run.events(e.GroupRejected) and run.events(e.PayloadsDropped, Topic.DROPS)
