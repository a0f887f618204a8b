"""Runs that select groups by windows, on the real broker: audited, replayed byte for byte, nothing left in Redis."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipeline.domain import events as e
from pipeline.domain.topology import Topic
from pipeline.domain.vocabulary import DropReason, Outcome, WaiverReason
from tests.e2e.harness import ROLES, Run

pytestmark = pytest.mark.e2e

BEST_HALF = {"strategy": "top_k", "value": 0.5, "window": 4, "loss_rescale": "sqrt", "weights": "soft"}


def test_a_run_trains_on_the_best_half_of_each_window_and_replaces_the_rest(make_run: Callable[..., Run]):
    run = make_run(steps=3, selection=BEST_HALF)
    host = run.start(*ROLES)
    run.until_event(e.GroupDeselected)
    host.kill()
    run.ended_well(run.start(*ROLES))
    run.finish()
    for batch in run.events(e.BatchFormed):
        assert (len(batch.groups), batch.short, batch.loss_scale) == (2, None, 0.5**0.5)
        assert all(0.99 < group.weight < 1.0 for group in batch.groups)
    left_out = {event.group_id for event in run.events(e.GroupDeselected)}
    assert len(left_out) >= 6
    assert left_out & {event.replaces for event in run.events(e.GroupOpened)}
    dropped = {event.group_id for event in run.events(e.PayloadsDropped, Topic.DROPS, _deselected)}
    assert dropped == left_out


def test_own_code_that_fails_ends_the_run_with_every_group_accounted_for(make_run: Callable[..., Run]):
    selection = {"type": "custom", "factory": "tests.e2e.plugins:Refuses", "on_error": "raise", "refill": False}
    run = make_run(steps=3, selection=selection)
    run.ended_well(run.start(*ROLES))
    run.finish(Outcome.FAILED)
    (failed,) = run.events(e.StageFailed)
    assert failed.stage == "batcher" and "Refuses: RuntimeError: no window pleases" in failed.detail
    assert len(run.events(e.GroupDeselected)) == 2
    reasons = {event.reason for event in run.events(e.ReplacementWaived)}
    assert reasons <= {WaiverReason.SURPLUS, WaiverReason.RUN_COMPLETE}
    assert run.started.started.sources.keys() >= {"tests.e2e.plugins:Refuses"}


def _deselected(event: e.PayloadsDropped) -> bool:
    return event.reason is DropReason.DESELECTED
