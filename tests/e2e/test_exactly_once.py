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


def test_nothing_is_lost_or_doubled_when_consumers_are_killed_again_and_again(
    make_run: Callable[..., Run], chance: random.Random
):
    """Two of each that may be several; now and then a pair dies at once."""
    run = make_run(
        steps=6,
        redundancy=1,
        prompts={"factory": "tests.e2e.plugins:Numbers", "options": {"every": {"3": "constant", "4": "cancel"}}},
        eval_prompts={"factory": "tests.e2e.plugins:Numbers", "options": {"sizes": {"a": 2}}},
        evaluation={"every": 2},
    )
    places = [(role, "a") for role in ROLES] + [(role, "b") for role in ("generator", "scorer", "assembler", "filter")]
    alive = {place: run.start(*place[:1], slot=place[1]) for place in places}
    moments = sorted(chance.sample(range(1, 300), 10))
    for moment in moments:
        run.until(lambda moment=moment: sum(map(len, run.log.values())) >= moment, f"{moment} records")
        for place in chance.sample(places, chance.choice((1, 1, 2))):
            alive[place].kill()
            alive[place] = run.start(place[0], slot=place[1])
    run.finish()
    run.ended_well(*alive.values())
    assert len(run.events(e.BatchTrained)) == 6
