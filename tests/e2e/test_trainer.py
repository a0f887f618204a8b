"""The trainer dies, freezes, and starts again: a batch is reported once, versions never repeat, and the weights are
those of a run in which nothing happened."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from pipeline.domain import events as e
from pipeline.domain.topology import Topic
from pipeline.log.errors import Aborted, Fenced, Stop
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


def test_a_run_with_correction_loss_and_masks_completes_with_their_metrics_and_a_clean_audit(
    make_run: Callable[..., Run],
):
    """The sampler gives each token -0.5, as the learner does at first; its steps move it away from that."""
    rule = {"level": "segment", "ratio_low": 0.5, "ratio_high": 1.5, "diff_enabled": True}
    run = make_run(
        steps=3,
        learner={"factory": "tests.e2e.plugins:Table"},
        correction={"filters": [rule, {"ratio_low": 0.9}], "weight": {"weight_type": "token"}, "catastrophic": 1e-3},
        loss={"aggregation": "seq-mean-token-mean", "impl": "roll", "clip_high": 1.3},
        sample_masks={"difficulty_mask": {}, "max_len_mask": True, "max_tokens": 100},
    )
    run.ended_well(run.start(*FRONT, "trainer"))
    run.finish()
    trained = run.events(e.BatchTrained)
    assert len(trained) == 3
    assert {
        "correction_kept",
        "correction_kept_0_segment_ratio",
        "correction_kept_0_segment_diff",
        "correction_kept_1_token_ratio",
        "correction_kept_catastrophic",
        "correction_weight",
        "correction_ratio_segment",
        "correction_denominator_corrected_tokens",
        "loss_divisor_all_rows",
        "samples_kept_final",
        "clip_fraction",
    } <= trained[0].metrics.keys()
    assert trained[0].metrics["correction_kept"] == trained[0].metrics["samples_kept_final"] == 1.0
    assert trained[0].metrics["loss_divisor_all_rows"] == 4.0
    assert all(abs(value) < float("inf") for event in trained for value in event.metrics.values())
    assert len(set(json.loads(run.weights())["numbers"])) > 1


def test_a_trainer_that_cannot_load_its_checkpoint_stops_and_says_what_to_do(make_run: Callable[..., Run]):
    run = make_run(**STEADY)
    run.hold("train-3")
    front, first = run.start(*FRONT), run.start("trainer")
    run.reached("train-3")
    first.kill()
    run.release("train-3")
    saved = run.folder / run.name / run.until_event(e.CheckpointSaved, 2)[-1].path
    text = saved.read_text()
    saved.write_text(text[:-1])
    second = run.start("trainer")
    assert second.wait() == Stop.exit_code, second.tail()
    assert second.said("the trainer can't start") and second.said(str(saved)) and not second.said("Traceback")
    assert second.said("it was changed or damaged; restore it from a copy")
    saved.write_text(text)
    third = run.start("trainer")
    run.finish()
    run.ended_well(front, third)
