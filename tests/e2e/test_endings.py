"""Every way in which a run ends: RunFinished says how, it goes down the line to all of drops, and nothing is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pipeline.domain import events as e
from pipeline.domain.topology import Topic
from pipeline.domain.vocabulary import ExpiryReason, Outcome, Reason, ReturnReason, StarvationCause, WaiverReason
from tests.e2e.harness import ROLES, Run

pytestmark = pytest.mark.e2e


def numbers(**options: Any) -> dict[str, Any]:
    return {"factory": "tests.e2e.plugins:Numbers", "options": options}


def test_a_run_that_does_all_its_steps_is_completed(make_run: Callable[..., Run]):
    run = make_run(steps=3, eval_prompts=numbers(sizes={"a": 3}), evaluation={"every": 2, "samples": 2})
    run.ended_well(run.start(*ROLES))
    run.finish()
    assert len(run.events(e.BatchTrained)) == 3
    assert [event.step for event in run.events(e.EvaluationFinished)] == [0, 2, 3]
    assert all((event.groups, event.graded, event.cut) == (3, 6, False) for event in run.events(e.EvaluationFinished))
    assert run.events(e.CheckpointSaved)[-1].version == 3


def test_a_run_that_is_asked_to_stop_is_stopped(make_run: Callable[..., Run]):
    run = make_run(steps=50)
    run.hold("train-3")
    host = run.start(*ROLES)
    run.reached("train-3")
    run.hold("generate")
    run.release("train-3")
    run.reached("generate")
    run.ask_to_stop()
    run.until_event(e.RunClosing)
    run.release("generate")
    run.finish(Outcome.STOPPED)
    run.ended_well(host)
    assert len(run.events(e.BatchTrained)) < 10
    assert {event.reason for event in run.events(e.GroupExpired)} == {ExpiryReason.RUN_OVER}


def test_a_run_that_is_asked_to_stop_before_anything_has_started_is_stopped(make_run: Callable[..., Run]):
    run = make_run(steps=3)
    run.ask_to_stop()
    run.ended_well(run.start(*ROLES))
    run.finish(Outcome.STOPPED)
    assert not run.events(e.BatchTrained) and not run.events(e.ResponseGenerated, Topic.RESPONSES)


def test_a_run_whose_groups_teach_nothing_is_starved(make_run: Callable[..., Run]):
    run = make_run(prompts=numbers(every={"1": "constant"}), starvation={"rejections_in_a_row": 5})
    run.ended_well(run.start(*ROLES))
    run.finish(Outcome.STARVED)
    [raised] = run.events(e.StarvationRaised)
    assert (raised.cause, raised.low_information) == (StarvationCause.REJECTIONS_IN_A_ROW, 5)


def test_a_run_whose_verifier_is_down_is_starved_by_an_outage(make_run: Callable[..., Run]):
    broken = {"exact": {"factory": "tests.e2e.plugins:Broken"}}
    run = make_run(verifiers=broken, starvation={"no_progress": "5s"})
    run.ended_well(run.start(*ROLES))
    run.finish(Outcome.STARVED)
    [raised] = run.events(e.StarvationRaised)
    assert (raised.cause, raised.accepted, raised.low_information) == (StarvationCause.NO_PROGRESS, 0, 0)
    assert raised.invalid > 0
    assert "an outage, no lack of signal" in raised.advice and "the judge is down" in raised.advice
    assert "easier" not in raised.advice
    rejected = run.events(e.GroupRejected)
    assert {event.reason for event in rejected} == {Reason.RESPONSE_RETRIES_EXHAUSTED}
    assert all(event.measurements["ungraded"] >= 5 for event in rejected)


def test_a_run_whose_learner_fails_is_failed_and_returns_its_batches(make_run: Callable[..., Run]):
    run = make_run(steps=5, learner={"factory": "tests.e2e.plugins:Counting", "options": {"fails_at": 4}})
    run.ended_well(run.start(*ROLES))
    run.finish(Outcome.FAILED)
    [failed] = run.events(e.StageFailed)
    assert failed.stage == "trainer" and "this step fails" in failed.detail
    assert {event.reason for event in run.events(e.BatchReturned)} <= {ReturnReason.FAILED, ReturnReason.RUN_OVER}
    assert [event.batches for event in run.events(e.CheckpointSaved)][1:] == [(1, 2)]


def test_a_run_whose_verifier_may_not_fail_is_failed(make_run: Callable[..., Run]):
    broken = {"exact": {"factory": "tests.e2e.plugins:Broken", "on_failure": "raise"}}
    run = make_run(verifiers=broken)
    run.ended_well(run.start(*ROLES))
    run.finish(Outcome.FAILED)
    assert {event.stage for event in run.events(e.StageFailed)} == {"scorer"}


def test_a_run_whose_source_ends_trains_on_what_there_is_and_is_completed(make_run: Callable[..., Run]):
    run = make_run(steps=9, domains={"a": {"quota": 3}}, async_ratio=0, prompts=numbers(
        sizes={"a": 4}, every={"2": "constant"}
    ))  # fmt: skip
    run.ended_well(run.start(*ROLES))
    run.finish()
    assert run.events(e.StarvationRaised)[-1].cause is StarvationCause.SOURCE_EXHAUSTED
    assert [len(event.groups) for event in run.events(e.BatchFormed)] == [2]
    assert {event.reason for event in run.events(e.ReplacementWaived)} == {WaiverReason.SOURCE_EXHAUSTED}
