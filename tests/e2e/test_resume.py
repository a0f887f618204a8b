"""All processes die at once, and are started again: a start is a resume, and a resume does nothing twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pipeline.domain import events as e
from pipeline.domain.topology import Topic
from pipeline.domain.vocabulary import WaiverReason
from tests.e2e.harness import FRONT, ROLES, Run

pytestmark = [pytest.mark.e2e, pytest.mark.faults]

EVERY_GROUP = {"default": [{"type": "no_filter"}]}


def numbers(**options: Any) -> dict[str, Any]:
    return {"factory": "tests.e2e.plugins:Numbers", "options": options}


def test_starting_a_finished_run_again_does_nothing(make_run: Callable[..., Run]):
    run = make_run(steps=2)
    run.ended_well(run.start(*ROLES))
    run.finish()
    before = {topic: len(records) for topic, records in run.log.items()}
    run.ended_well(*(run.start(role) for role in ROLES))
    run.read_to_end()
    assert {topic: len(records) for topic, records in run.log.items()} == before
    run.check()


def test_a_run_that_had_reached_its_last_step_does_no_step_more(make_run: Callable[..., Run]):
    """The trainer dies with its last checkpoint written and not yet reported; then the scheduler before the end."""
    run = make_run(steps=3)
    run.hold("saved-3")
    front = run.start(*FRONT)
    first = run.start("trainer")
    run.reached("saved-3")
    first.kill()
    front.kill()
    run.release("saved-3")
    run.read_to_end()
    issued, sampled = len(run.events(e.GroupOpened)), len(run.events(e.ResponseGenerated, Topic.RESPONSES))
    second = run.start("trainer")
    run.until_event(e.BatchTrained, 3)
    run.ended_well(run.start(*FRONT), second)
    run.finish()
    assert [event.batch for event in run.events(e.BatchTrained)] == [1, 2, 3]
    assert '"steps": 3' in run.weights()
    assert len(run.events(e.GroupOpened)) == issued
    assert len(run.events(e.ResponseGenerated, Topic.RESPONSES)) == sampled
    assert {event.reason for event in run.events(e.ReplacementWaived)} <= {WaiverReason.RUN_COMPLETE}


@pytest.mark.parametrize("plans", [{}, {"20": "constant"}], ids=["no filter", "one constant group"])
def test_no_prompt_between_the_checkpoint_and_the_newest_one_is_skipped_or_repeated(
    plans: dict[str, str], make_run: Callable[..., Run]
):
    """40 prompts are trained on in batches of 8. Everything dies when 16 of them are in a checkpoint, and more are
    under way."""
    filters = {"default": [{"type": "zero_std"}]} if plans else EVERY_GROUP
    run = make_run(
        steps=5, domains={"a": {"quota": 8}}, filters=filters, prompts=numbers(sizes={"a": 200}, plans=plans)
    )
    run.hold("train-3")
    host = run.start(*ROLES)
    run.reached("train-3")
    run.until_event(e.CheckpointSaved, 2)
    host.kill()
    run.release("train-3")
    run.ended_well(run.start(*ROLES))
    run.finish()
    places = {event.group_id: event.prompt.ordinal for event in run.events(e.GroupOpened)}
    assert set(places.values()) == set(range(max(places.values()) + 1))
    first = {event.prompt.ordinal: event.group_id for event in reversed(run.events(e.GroupOpened))}
    again = [event for event in run.events(e.GroupOpened) if first[event.prompt.ordinal] != event.group_id]
    assert all(event.replaces is not None for event in again)
    trained = [group.group_id for event in run.events(e.BatchFormed) for group in event.groups]
    assert len(trained) == len(set(trained)) == 40
    rejected = [event.group_id for event in run.events(e.GroupRejected)]
    assert [places[group] for group in rejected] == [int(ordinal) for ordinal in plans]
    successors = [event.replaces for event in run.events(e.GroupOpened)]
    waived = [event.group_id for event in run.events(e.ReplacementWaived)]
    assert all((successors + waived).count(group) == 1 for group in rejected)
    expired = [event.group_id for event in run.events(e.GroupExpired)]
    assert sorted(places) == sorted([*trained, *rejected, *expired])


def test_a_resumed_run_does_not_overshoot_its_lead(make_run: Callable[..., Run]):
    """A lead of 8: 5 groups are accepted and untrained, 3 are open, one of these with one of its two responses."""
    run = make_run(
        steps=4, domains={"a": {"quota": 4}}, filters=EVERY_GROUP,
        prompts=numbers(plans={"5": "half", "6": "slow", "7": "slow"}),
        engine={"factory": "tests.e2e.plugins:Dice", "options": {"batch": 1}},
    )  # fmt: skip
    run.hold("slow")
    run.hold("train-1")
    host = run.start(*ROLES)
    run.until_event(e.GroupAccepted, 5)
    run.until_event(e.ResponseGenerated, 11, Topic.RESPONSES)
    run.reached("train-1")
    host.kill()
    run.release("train-1")
    front = run.start(*FRONT)
    ticks = len(run.events(e.Tick))
    run.until_event(e.Tick, ticks + 5)
    assert len(run.events(e.GroupOpened)) == 8
    run.release("slow")
    run.until_event(e.GroupAccepted, 8)
    ticks = len(run.events(e.Tick))
    run.until_event(e.Tick, ticks + 5)
    assert len(run.events(e.GroupOpened)) == 8
    run.hold("train-2")
    trainer = run.start("trainer")
    run.until_event(e.BatchTrained)
    run.reached("train-2")
    ticks = len(run.events(e.Tick))
    run.until_event(e.Tick, ticks + 3)
    assert len(run.events(e.GroupOpened)) <= 8 + 4
    run.release("train-2")
    run.finish()
    run.ended_well(front, trainer)
    assert len(run.events(e.GroupOpened)) == 16


def test_a_rejection_that_was_not_answered_yet_is_answered_once(make_run: Callable[..., Run]):
    """The scheduler stands still while a group is rejected; then everything dies."""
    run = make_run(steps=2, prompts=numbers(plans={"0": "slow_constant"}))
    run.hold("slow")
    host, scheduler = run.start(*[role for role in ROLES if role != "scheduler"]), run.start("scheduler")
    run.until_event(e.GroupOpened)
    scheduler.freeze()
    run.release("slow")
    [rejected, *_] = run.until_event(e.GroupRejected)
    scheduler.kill()
    host.kill()
    run.read_to_end()
    assert rejected.group_id not in _answered(run)
    run.ended_well(run.start(*ROLES))
    run.finish()
    assert _answered(run).count(rejected.group_id) == 1


def _answered(run: Run) -> list[str | None]:
    waived = [event.group_id for event in run.events(e.ReplacementWaived)]
    return [event.replaces for event in run.events(e.GroupOpened)] + waived


def test_batches_are_those_of_a_run_that_was_not_killed(make_run: Callable[..., Run]):
    """Everything dies in the third step; no checkpoint covers the first two."""
    steady: dict[str, Any] = {"steps": 4, "async_ratio": 0, "filters": EVERY_GROUP, "checkpoint_every": 4}
    undisturbed, run = make_run(**steady), make_run(**steady)
    undisturbed.ended_well(undisturbed.start(*ROLES))
    undisturbed.finish()
    run.hold("train-3")
    host = run.start(*ROLES)
    run.reached("train-3")
    host.kill()
    run.release("train-3")
    run.ended_well(run.start(*ROLES))
    run.finish()
    assert _batches(run) == _batches(undisturbed)
    assert run.weights() == undisturbed.weights()


def _batches(run: Run) -> list[list[int]]:
    """The places of the prompts of each batch."""
    places = {event.group_id: event.prompt.ordinal for event in run.events(e.GroupOpened)}
    return [sorted(places[group.group_id] for group in event.groups) for event in run.events(e.BatchFormed)]


def test_a_scheduler_that_dies_after_the_last_step_ends_the_run_when_it_comes_back(make_run: Callable[..., Run]):
    steady: dict[str, Any] = {"steps": 3, "async_ratio": 0, "filters": EVERY_GROUP}
    undisturbed, run = make_run(**steady), make_run(**steady)
    undisturbed.ended_well(undisturbed.start(*ROLES))
    undisturbed.finish()
    run.hold("train-3")
    host, scheduler = run.start(*[role for role in ROLES if role != "scheduler"]), run.start("scheduler")
    run.reached("train-3")
    scheduler.freeze()
    run.release("train-3")
    run.until_event(e.BatchTrained, 3)
    scheduler.kill()
    run.read_to_end()
    opened = len(run.events(e.GroupOpened))
    assert run.events(e.RunFinished) == []
    second = run.start("scheduler")
    run.finish()
    run.ended_well(host, second)
    assert len(run.events(e.RunFinished)) == 1 and len(run.events(e.GroupOpened, where=_trains)) <= opened
    assert run.weights() == undisturbed.weights()


def _trains(event: e.GroupOpened) -> bool:
    return event.eval is None
