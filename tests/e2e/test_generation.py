"""What engines do to a run: cancelled samples, silence, log-probabilities that are none, a full Redis."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest
import redis

from pipeline.domain import events as e
from pipeline.domain.topology import Topic
from pipeline.domain.vocabulary import Category, Failure, Reason
from pipeline.local import LocalRedis
from tests.e2e.harness import ROLES, Run

pytestmark = pytest.mark.e2e

EVERY_GROUP = {"default": [{"type": "no_filter"}]}
ONE_BY_ONE = {"factory": "tests.e2e.plugins:Dice", "options": {"batch": 1}}


def numbers(**options: Any) -> dict[str, Any]:
    return {"factory": "tests.e2e.plugins:Numbers", "options": options}


@pytest.mark.parametrize(
    ("plan", "failure", "detail"),
    [
        ("cancel", Failure.ABORTED, "cancelled"),
        ("nan", Failure.ENV_FAILED, "logprobs[1] is nan"),
        ("null", Failure.ENV_FAILED, "logprobs[1] is None"),
        ("positive", Failure.ENV_FAILED, "logprobs[0] is 0.5"),
        ("ragged", Failure.ENV_FAILED, "logprobs has 3 items, token_ids 4"),
    ],
)
def test_a_sample_that_is_none_is_said_to_be_so_and_asked_for_again(
    plan: str, failure: Failure, detail: str, make_run: Callable[..., Run]
):
    run = make_run(steps=2, filters=EVERY_GROUP, prompts=numbers(plans={"1": plan}), engine=ONE_BY_ONE)
    run.ended_well(run.start(*ROLES))
    run.finish()
    [failed] = run.events(e.ResponseGenerated, Topic.RESPONSES, lambda event: event.failure is not None)
    assert (failed.slot, failed.round, failed.failure, failed.payload_key) == (0, 1, failure, None)
    assert detail in (failed.detail or "")
    [asked] = run.events(e.ResponsesRequested, Topic.PROMPTS)
    assert (asked.group_id, asked.slots) == (failed.group_id, (e.SlotRound(0, 2),))
    [accepted] = run.events(e.GroupAccepted, where=lambda event: event.group_id == failed.group_id)
    assert not run.events(e.GroupRejected) and accepted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_generator_that_is_told_to_stop_leaves_its_samples_to_the_next(
    number: signal.Signals, make_run: Callable[..., Run]
):
    run = make_run(steps=2, filters=EVERY_GROUP, domains={"a": {"quota": 3}}, async_ratio=0, engine=ONE_BY_ONE)
    run.hold("generate")
    others = run.start(*(role for role in ROLES if role != "generator"))
    first = run.start("generator")
    run.reached("generate")
    first.signal(number)
    assert first.wait(10) == 0, first.tail()
    run.release("generate")
    second = run.start("generator")
    run.finish()
    run.ended_well(others, second)
    responses = run.events(e.ResponseGenerated, Topic.RESPONSES)
    assert len(responses) == 12 and all(event.failure is None and event.round == 1 for event in responses)


def test_a_slot_that_stays_silent_is_asked_again_once_and_then_ends_its_group(make_run: Callable[..., Run]):
    run = make_run(
        steps=2, filters=EVERY_GROUP, prompts=numbers(plans={"0": "half"}), engine=ONE_BY_ONE,
        assembly={"lease": "1s", "deadline": "60s"},
    )  # fmt: skip
    run.hold("slow")
    host = run.start(*ROLES)
    [rejected] = run.until_event(e.GroupRejected)
    run.release("slow")
    run.finish()
    run.ended_well(host)
    assert (rejected.reason, rejected.category) == (Reason.DEADLINE, Category.SYSTEM)
    asked = run.events(e.ResponsesRequested, Topic.PROMPTS, lambda event: event.group_id == rejected.group_id)
    assert [event.slots for event in asked] == [(e.SlotRound(1, 1),)]
    assert [event.group_id for event in run.events(e.GroupClosed, Topic.PROMPTS)] == [rejected.group_id]
    assert [event.replaces for event in run.events(e.GroupOpened)].count(rejected.group_id) == 1


def test_a_redis_that_is_full_is_waited_for(make_run: Callable[..., Run], small_redis: Callable[..., LocalRedis]):
    server = small_redis()
    run = make_run(redis_url=server.url, steps=3, filters=EVERY_GROUP)
    client = redis.Redis.from_url(server.url)
    filled = _fill(client)
    host = run.start(*ROLES)
    run.until(lambda: host.said("redis is full"), "the generator to find it full")
    ticks = len(run.events(e.Tick))
    run.until_event(e.Tick, ticks + 5)
    assert not run.events(e.ResponseGenerated, Topic.RESPONSES)
    client.delete(*filled)
    client.close()
    run.finish()
    run.ended_well(host)
    assert all(event.failure is None and event.round == 1 for event in run.events(e.ResponseGenerated, Topic.RESPONSES))


def _fill(client: redis.Redis) -> list[str]:
    """Put something into Redis until it takes no more; the keys."""
    keys: list[str] = []
    size = 1 << 20
    while size:
        try:
            client.set(f"other:{len(keys)}", bytes(size))
            keys.append(f"other:{len(keys)}")
        except redis.exceptions.OutOfMemoryError:
            size = size // 2 if size > 64 else 0
    return keys


@pytest.mark.faults
def test_a_redis_that_stops_answering_is_waited_for(
    make_run: Callable[..., Run], small_redis: Callable[..., LocalRedis]
):
    server = small_redis(appendonly=True)
    run = make_run(redis_url=server.url, steps=5, filters=EVERY_GROUP)
    run.hold("train-2")
    host = run.start(*ROLES)
    run.reached("train-2")
    server.stop()
    run.release("train-2")
    ticks = len(run.events(e.Tick))
    run.until_event(e.Tick, ticks + 10)
    server.start()
    run.finish()
    run.ended_well(host)
    assert len(run.events(e.BatchTrained)) == 5
    assert not run.events(e.BatchReturned)
