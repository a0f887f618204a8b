"""The trainer dies, freezes, and starts again: a batch is reported once, versions never repeat, and the weights are
those of a run in which nothing happened."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipeline.domain import events as e
from pipeline.domain.topology import Topic
from pipeline.log.errors import Aborted, Fenced
from pipeline.training.files import sha256_of
from tests.e2e.harness import FRONT, Run

pytestmark = [pytest.mark.e2e, pytest.mark.faults]

STEADY = {"steps": 4, "async_ratio": 0, "filters": {"default": [{"type": "no_filter"}]}}
"""Batches that don't depend on who is quicker: each prompt is accepted, and none is ahead."""


@pytest.fixture
def undisturbed(make_run: Callable[..., Run]) -> str:
    """The weights at the end of a run in which nothing happens."""
    run = make_run(**STEADY)
    run.ended_well(run.start(*FRONT, "trainer"))
    run.finish()
    return run.weights()


def test_weights_are_those_of_an_undisturbed_run_wherever_the_trainer_is_killed(
    make_run: Callable[..., Run], undisturbed: str
):
    """Checkpoints are due after steps 2 and 4."""
    moments = ("save-0", "train-1", "train-2", "save-2", "saving-2", "saved-2", "train-3", "train-4", "saved-4")
    run = make_run(**STEADY)
    front = run.start(*FRONT)
    for moment in moments:
        run.hold(moment)
        trainer = run.start("trainer")
        run.reached(moment)
        trainer.kill()
        run.release(moment)
    last = run.start("trainer")
    run.finish()
    run.ended_well(front, last)
    assert run.weights() == undisturbed
    started = [event.incarnation for event in run.events(e.TrainerStarted)]
    assert started == list(range(1, len(started) + 1)) and len(started) > 5
    assert [event.batch for event in run.events(e.BatchTrained)] == [1, 2, 3, 4]
    named = [event.path for event in run.events(e.CheckpointSaved)]
    assert len(set(named)) == len(named)


def test_a_batch_is_trained_again_without_a_second_report_when_no_checkpoint_covers_it(make_run: Callable[..., Run]):
    run = make_run(**STEADY | {"steps": 3, "checkpoint_every": 3})
    run.hold("train-3")
    front, first = run.start(*FRONT), run.start("trainer")
    run.reached("train-3")
    first.kill()
    run.release("train-3")
    second = run.start("trainer")
    run.finish()
    run.ended_well(front, second)
    assert [event.batch for event in run.events(e.BatchTrained)] == [1, 2, 3]
    assert [event.incarnation for event in run.events(e.TrainerStarted)] == [1, 2]
    assert [event.version for event in run.events(e.TrainerStarted)] == [0, 2]
    assert '"steps": 3' in run.weights()


def test_a_trainer_that_was_frozen_in_a_step_drops_it_or_is_refused_when_a_standby_has_taken_over(
    make_run: Callable[..., Run], undisturbed: str
):
    run = make_run(**STEADY)
    run.hold("train-3")
    run.hold("train-4")
    front, first = run.start(*FRONT), run.start("trainer", slot="a")
    run.reached("train-3")
    first.freeze()
    second = run.start("trainer", slot="b")
    run.until_event(e.TrainerStarted, 2)
    run.release("train-3")
    run.reached("train-4")
    first.thaw()
    run.until(lambda: first.said('"event": "lost"') or first.exit_code is not None, "it notices")
    run.release("train-4")
    run.finish()
    run.ended_well(front, second)
    assert first.wait() in (0, Fenced.exit_code), first.tail()
    _nothing_was_overwritten(run, undisturbed)


def test_a_trainer_that_was_frozen_in_its_transaction_is_refused_when_a_standby_has_taken_over(
    make_run: Callable[..., Run], undisturbed: str
):
    run = make_run(**STEADY)
    front = run.start(*FRONT)
    first = run.start("trainer", slot="a", TAMIS_CRASH_AT="trainer:offsets_sent:3:STOP")
    run.until(first.is_frozen, "it is frozen")
    second = run.start("trainer", slot="b")
    run.until_event(e.TrainerStarted, 2)
    first.thaw()
    assert first.wait() in (Fenced.exit_code, Aborted.exit_code), first.tail()
    run.finish()
    run.ended_well(front, second)
    _nothing_was_overwritten(run, undisturbed)


def _nothing_was_overwritten(run: Run, undisturbed: str) -> None:
    assert [event.trainer for event in run.events(e.TrainerStarted)][:2] == ["a", "b"]
    assert run.weights() == undisturbed
    for saved in run.events(e.CheckpointSaved):
        assert sha256_of(run.folder / run.name / saved.path) == saved.sha256


def test_a_generator_that_starts_in_mid_run_finds_its_policy_again(make_run: Callable[..., Run]):
    run = make_run(steps=5)
    others = run.start(*(role for role in (*FRONT, "trainer") if role != "generator"))
    run.hold("train-3")
    first = run.start("generator", until_finished=False)
    run.reached("train-3")
    first.stop()
    run.release("train-3")
    run.until_event(e.BatchTrained, 3)
    before = len(run.events(e.ResponseGenerated, Topic.RESPONSES))
    second = run.start("generator")
    run.finish()
    run.ended_well(others, second)
    after = run.events(e.ResponseGenerated, Topic.RESPONSES)[before:]
    assert after and min(event.oldest_version for event in after) >= 2
