"""Back-pressure: generation stops at the lead, a small Redis slows a run, and nothing deadlocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pipeline.domain import events as e
from pipeline.domain.topology import Topic
from pipeline.domain.vocabulary import Failure, Purpose
from pipeline.local import LocalRedis
from tests.e2e.harness import ROLES, Run

pytestmark = pytest.mark.e2e

MB = 1_000_000
EVERY_GROUP = {"default": [{"type": "no_filter"}]}


def numbers(**options: Any) -> dict[str, Any]:
    return {"factory": "tests.e2e.plugins:Numbers", "options": options}


def dice(**options: Any) -> dict[str, Any]:
    return {"factory": "tests.e2e.plugins:Dice", "options": options}


@pytest.mark.parametrize("async_ratio", [0, 0.5, 1, 2])
def test_generation_stops_at_the_lead_while_the_trainer_stands_and_the_run_completes(
    async_ratio: float, make_run: Callable[..., Run]
):
    run = make_run(steps=5, async_ratio=async_ratio, filters=EVERY_GROUP)
    run.hold("train-1")
    host = run.start(*ROLES)
    lead = run.rules.lead(run.rules.domains[0])
    run.reached("train-1")
    run.until_event(e.GroupAccepted, lead)
    ticks = len(run.events(e.Tick))
    run.until_event(e.Tick, ticks + 4)
    assert len(run.events(e.GroupOpened)) == len(run.events(e.GroupAccepted)) == lead
    assert len(run.events(e.ResponseGenerated, Topic.RESPONSES)) == lead * 2
    run.release("train-1")
    run.finish()
    run.ended_well(host)
    assert len(run.events(e.BatchTrained)) == 5


@pytest.mark.slow
def test_a_small_redis_slows_a_run_whose_payloads_would_need_many_times_its_memory(
    make_run: Callable[..., Run], small_redis: Callable[..., LocalRedis]
):
    """Each payload takes 1.6 MB; the run makes 320 of them, 500 MB, in 64 MB."""
    server = small_redis()
    run = make_run(
        redis_url=server.url, steps=20, group_size=4, domains={"a": {"quota": 4}}, async_ratio=2, filters=EVERY_GROUP,
        engine=dice(tokens=180_000, batch=1), payload={"budget": "30MB", "max": "1.8MB"}, checkpoint_every=5,
    )  # fmt: skip
    host = run.start(*ROLES)
    run.finish()
    run.ended_well(host)
    made = [event.payload_bytes for event in run.events(e.ResponseGenerated, Topic.RESPONSES)]
    assert sum(made) > 450 * MB
    assert len(run.events(e.BatchTrained)) == 20
    assert not run.events(e.ResponseGenerated, Topic.RESPONSES, lambda event: event.failure is not None)


def test_checkpoints_rarer_than_the_budget_bears_are_written_earlier(make_run: Callable[..., Run]):
    """A batch takes 100 KB, the budget holds three of them, a checkpoint is due after the sixth."""
    run = make_run(
        steps=6, checkpoint_every=6, async_ratio=1, filters=EVERY_GROUP, engine=dice(tokens=2_700),
        payload={"budget": "330KB", "max": "60KB"},
    )  # fmt: skip
    host = run.start(*ROLES)
    run.finish()
    run.ended_well(host)
    assert len(run.events(e.CheckpointSaved)) > 2


def test_unequal_quotas_complete_when_one_domain_accepts_little(make_run: Callable[..., Run]):
    run = make_run(
        steps=3, domains={"a": {"quota": 1}, "b": {"quota": 4}},
        prompts=numbers(sizes={"a": 1000, "b": 1000}, every={"2": "constant", "3": "constant", "5": "constant"}),
    )  # fmt: skip
    host = run.start(*ROLES)
    run.finish()
    run.ended_well(host)
    assert all(len(event.groups) == 5 for event in run.events(e.BatchFormed))


def test_an_evaluation_while_the_budget_is_full_completes(make_run: Callable[..., Run]):
    run = make_run(
        steps=4, async_ratio=2, filters=EVERY_GROUP, engine=dice(tokens=6_000), checkpoint_every=4,
        payload={"budget": "260KB", "max": "60KB"}, eval_prompts=numbers(sizes={"a": 5}),
        evaluation={"every": 1, "samples": 2, "max_open": 2},
    )  # fmt: skip
    host = run.start(*ROLES)
    run.finish()
    run.ended_well(host)
    assert [event.step for event in run.events(e.EvaluationFinished)] == [0, 1, 2, 3, 4]
    opened = run.events(e.GroupOpened, where=lambda event: event.purpose is Purpose.EVAL)
    assert len(opened) == 25


def test_one_payload_far_above_the_others_does_not_stop_the_run(make_run: Callable[..., Run]):
    run = make_run(
        steps=5, filters=EVERY_GROUP, prompts=numbers(plans={"1": "large"}), engine=dice(large=200_000),
        payload={"budget": "8MB", "max": "2MB"},
    )  # fmt: skip
    host = run.start(*ROLES)
    run.finish()
    run.ended_well(host)
    sizes = sorted(event.payload_bytes for event in run.events(e.ResponseGenerated, Topic.RESPONSES))
    assert sizes[-1] > 1000 * sizes[0]


def test_a_payload_that_can_never_fit_fails_alone(make_run: Callable[..., Run], small_redis: Callable[..., LocalRedis]):
    """4 million tokens take 36 MB, more than a Redis of 64 MB takes even when it is empty; 20 others are small."""
    server = small_redis()
    run = make_run(
        redis_url=server.url, steps=4, domains={"a": {"quota": 2}}, group_size=2, partitions=1, filters=EVERY_GROUP,
        prompts=numbers(plans={"1": "large"}), engine=dice(large=4_000_000, batch=1), max_attempts=2,
        payload={"budget": "10MB", "max": "1MB"}, assembly={"max_rounds": 2},
    )  # fmt: skip
    host = run.start(*ROLES)
    run.finish()
    run.ended_well(host)
    failed = run.events(e.ResponseGenerated, Topic.RESPONSES, lambda event: event.failure is not None)
    assert {event.failure for event in failed} == {Failure.TOO_LONG}
    assert {event.group_id.split("@")[0] for event in failed} == {"1"}
    assert all("a payload of" in (event.detail or "") for event in failed)
    assert [event.group_id.split("@")[0] for event in run.events(e.GroupRejected)] == ["1"]
