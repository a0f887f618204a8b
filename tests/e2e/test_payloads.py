"""Payloads: none is left after a run, whatever happened to who wrote, judged or pulled them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pipeline.config.errors import ConfigError
from pipeline.domain import events as e
from pipeline.domain.topology import Topic
from pipeline.domain.vocabulary import DropReason, ExpiryReason, Failure, ReturnReason
from pipeline.local import LocalRedis
from pipeline.log.codec import Members
from pipeline.store.errors import StoreConfigError
from tests.e2e.harness import ROLES, Run

pytestmark = pytest.mark.e2e

EVERY_GROUP = {"default": [{"type": "no_filter"}]}


@pytest.mark.faults
def test_payloads_that_a_generator_wrote_and_never_published_are_swept(make_run: Callable[..., Run]):
    run = make_run(steps=3)
    others = run.start(*(role for role in ROLES if role != "generator"))
    dying = run.start("generator", TAMIS_CRASH_AT="generator:decided:2")
    assert dying.wait() == -9
    published = {event.payload_key for event in run.events(e.ResponseGenerated, Topic.RESPONSES)}
    written = {key for keys in run.store.scan() for key in keys}
    orphans = written - published
    assert orphans
    generator = run.start("generator")
    run.finish()
    run.ended_well(others, generator)
    swept = run.events(e.PayloadsDropped, Topic.DROPS, lambda event: event.reason is DropReason.SWEPT)
    named = {event.payload_key for event in run.events(e.ResponseGenerated, Topic.RESPONSES)}
    assert orphans - named <= {key for event in swept for key in event.keys}


@pytest.mark.parametrize("damage", ["missing", "corrupted"])
def test_a_payload_that_is_lost_before_training_expires_its_group_which_is_answered(
    damage: str, make_run: Callable[..., Run]
):
    """Both of the batches under way are hit: one formed, one whose groups may have been trained ahead of it."""
    run = make_run(steps=4, filters=EVERY_GROUP)
    run.hold("train-2")
    front = run.start(*(role for role in ROLES if role != "trainer"))
    trainer = run.start("trainer")
    run.reached("train-2")
    [formed] = run.until(
        lambda: run.events(e.BatchFormed, where=lambda event: event.batch == 3), "a batch that waits to be pulled"
    )
    victim = formed.groups[1]
    key = Members().decode(victim.members)[0].payload_key or ""
    if damage == "missing":
        assert run.store.drop([key]) == 1
    else:
        _damage(run, key)
    run.release("train-2")
    run.finish()
    run.ended_well(front, trainer)
    [returned] = run.events(e.BatchReturned)
    assert (returned.batch, returned.reason, returned.lost) == (3, ReturnReason.LOST, (victim.group_id,))
    expired = run.events(e.GroupExpired, where=lambda event: event.reason is ExpiryReason.PAYLOAD_MISSING)
    assert [event.group_id for event in expired] == [victim.group_id]
    answers = [event.replaces for event in run.events(e.GroupOpened)]
    answers += [event.group_id for event in run.events(e.ReplacementWaived)]
    assert answers.count(victim.group_id) == 1
    assert len(run.events(e.BatchTrained)) == 4


def _damage(run: Run, key: str) -> None:
    import redis

    client = redis.Redis.from_url(run.redis_url)
    assert client.setrange(key, client.strlen(key) - 20, b"\xff") > 0
    client.close()


def test_a_payload_that_is_lost_before_it_is_judged_is_asked_for_again(make_run: Callable[..., Run]):
    run = make_run(steps=2, filters=EVERY_GROUP)
    others = run.start(*(role for role in ROLES if role != "scorer"))
    first = run.until_event(e.ResponseGenerated, 4, Topic.RESPONSES)[0]
    assert run.store.drop([first.payload_key or ""]) == 1
    scorer = run.start("scorer")
    run.finish()
    run.ended_well(others, scorer)
    lost = run.events(e.ResponseScored, Topic.ROLLOUTS, lambda event: event.failure is Failure.PAYLOAD_EXPIRED)
    assert [(event.group_id, event.slot, event.round) for event in lost] == [(first.group_id, first.slot, 1)]
    asked = run.events(e.ResponsesRequested, Topic.PROMPTS)
    assert [(event.group_id, event.slots) for event in asked] == [(first.group_id, (e.SlotRound(first.slot, 2),))]


def test_a_redis_that_is_emptied_in_mid_run_costs_groups_and_nothing_else(
    make_run: Callable[..., Run], small_redis: Callable[..., LocalRedis]
):
    """As after a restart of a Redis without persistence: all that was held is gone, and the sweep looks again."""
    server = small_redis()
    run = make_run(redis_url=server.url, steps=4, filters=EVERY_GROUP)
    run.hold("train-2")
    host = run.start(*ROLES)
    run.reached("train-2")
    run.until_event(e.BatchFormed, 3)
    server.kill()
    server.start()
    run.release("train-2")
    run.finish()
    run.ended_well(host)
    assert len(run.events(e.BatchTrained)) == 4
    assert {event.reason for event in run.events(e.BatchReturned)} == {ReturnReason.LOST}


def test_a_redis_that_may_evict_is_refused(make_run: Callable[..., Run], small_redis: Callable[..., LocalRedis]):
    with pytest.raises(StoreConfigError, match="allkeys-lru and would lose payloads"):
        make_run(redis_url=small_redis(policy="allkeys-lru").url)


def test_consumers_refuse_a_redis_that_may_evict(make_run: Callable[..., Run], small_redis: Callable[..., LocalRedis]):
    run = make_run()
    evicting = small_redis(policy="allkeys-lru").url
    for role in ("generator", "scorer", "trainer", "reaper"):
        host = run.start(role, TAMIS_REDIS_URL=evicting)
        assert host.wait() == 2, host.tail()
        assert host.said("expected noeviction")


@pytest.mark.parametrize("option", ["decode_responses=True", "decode_responses=False"])
def test_a_redis_address_that_decodes_payloads_is_refused(option: str, make_run: Callable[..., Run]):
    run = make_run()
    host = run.start("scorer", TAMIS_REDIS_URL=f"{run.redis_url}?{option}")
    assert host.wait() == 2
    assert host.said("payloads are bytes and must never be decoded")


def test_a_budget_too_small_for_one_batch_is_refused(make_run: Callable[..., Run]):
    payload: dict[str, Any] = {"budget": "300KB", "max": "100KB"}
    with pytest.raises(ConfigError, match="less than one batch may take"):
        make_run(payload=payload)


def test_a_budget_that_leaves_no_memory_for_a_batch_is_refused(
    make_run: Callable[..., Run], small_redis: Callable[..., LocalRedis]
):
    with pytest.raises(ConfigError, match="more than Redis' maxmemory"):
        make_run(redis_url=small_redis().url, payload={"budget": "60MB", "max": "2MB"})
