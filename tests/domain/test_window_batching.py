"""Windows: each accepted group stands in one, is kept or deselected, and weighs what selection says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from typing import Any

import pytest

from pipeline.domain import events as e
from pipeline.domain.rules import FilterRule, SelectionSettings, StarvationRules
from pipeline.domain.selection import SelectionRules
from pipeline.domain.selection.custom import Candidate, Selector
from pipeline.domain.vocabulary import (
    ExpiryReason,
    Outcome,
    ReturnReason,
    ShortReason,
    SkipReason,
    StarvationCause,
    StarvationPolicy,
)
from pipeline.domain.window_batching import batcher
from pipeline.log.codec import decode, encode
from pipeline.log.state import StateCodec

from .given import MEMBERS, Feed, accepted, only, rejected, returned, rules, saved, started, starved, trained

HALF = SelectionRules("top_k", 0.5)
POSITIVE = SelectionRules("top_p", 1.0, include_zero=False)


def settings(ranked: SelectionRules | None = HALF, window: int = 4, **changes: Any) -> SelectionSettings:
    plain = SelectionSettings(window, True, "none", False, ranked, False, None)
    return replace(plain, **changes)


def batching(selection: SelectionSettings, **changes: Any) -> Feed:
    """One domain of 2 groups a batch."""
    return Feed(batcher(rules(**{"steps": 9, "selection": selection, **changes})))


def asking(selector: Selector, on_error: str = "reject", **changes: Any) -> Feed:
    rule = FilterRule("custom", {"factory": "my:code", "options": {}, "on_error": on_error})
    made = rules(steps=9, selection=settings(None, custom=rule, **changes))
    return Feed(batcher(made, MEMBERS, lambda _: selector))


def group(n: int, std: float = 1.0, version: int = 0) -> e.GroupAccepted:
    event = accepted(f"{n}@0", version=version)
    return replace(event, scores=replace(event.scores, reward_std=std))


def stand(feed: Feed, *stds: float, first: int = 0, version: int = 0) -> list[e.Event]:
    return feed(*(group(n, std, version) for n, std in enumerate(stds, first)))


def batches(events: Sequence[e.Event]) -> list[list[str]]:
    return [[g.group_id for g in b.groups] for b in only(events, e.BatchFormed)]


def deselected(events: Sequence[e.Event]) -> list[tuple[str, int, float | None]]:
    return [(d.group_id, d.window, d.score) for d in only(events, e.GroupDeselected)]


# -------------------------------------------------------------------------------------------------------------- refill


def test_a_window_waits_until_it_is_whole_and_then_is_decided_at_once() -> None:
    feed = batching(settings())
    assert stand(feed, 0.1, 0.4, 0.2) == []
    outputs = stand(feed, 0.3, first=3)
    assert deselected(outputs) == [("0@0", 1, 0.1), ("2@0", 1, 0.2)]
    assert batches(outputs) == [["1@0", "3@0"]]


def test_windows_are_consecutive_and_kept_groups_wait_in_the_pool_for_a_whole_batch() -> None:
    feed = batching(settings(window=3))
    first = stand(feed, 0.3, 0.2, 0.1)
    assert (deselected(first), batches(first)) == ([("1@0", 1, 0.2), ("2@0", 1, 0.1)], [])
    second = stand(feed, 0.1, 0.2, 0.3, first=3)
    assert deselected(second) == [("3@0", 2, 0.1), ("4@0", 2, 0.2)]
    assert batches(second) == [["0@0", "5@0"]]


def test_windows_are_decided_while_the_trainer_is_busy_and_the_kept_form_the_next_batch() -> None:
    feed = batching(settings(SelectionRules()), prefetch=0)
    assert batches(stand(feed, *[1.0] * 4)) == [["0@0", "1@0"]]
    assert batches(feed(trained(1))) == [["2@0", "3@0"]]


def test_an_empty_window_is_no_step() -> None:
    feed = batching(settings(POSITIVE, 2))
    outputs = stand(feed, 0.0, 0.0)
    assert [type(o) for o in outputs] == [e.GroupDeselected, e.GroupDeselected]
    assert (feed.state.steps_done, feed.state.next_batch, feed.state.windows.scores) == (0, 1, {})


def test_a_group_that_is_too_old_leaves_its_window_before_it_is_decided() -> None:
    feed = batching(settings(window=2), max_staleness=1)
    feed(started(1, 5))
    outputs = feed(group(0, version=3), group(1, version=5))
    assert [(x.group_id, x.reason, x.staleness) for x in only(outputs, e.GroupExpired)] == [
        ("0@0", ExpiryReason.STALE, 2)
    ]
    assert deselected(outputs) == []
    assert deselected(feed(group(2, 0.5, version=5))) == [("2@0", 1, 0.5)]


def test_a_kept_group_that_grows_too_old_in_the_pool_expires() -> None:
    feed = batching(settings(window=1))
    outputs = feed(group(0), started(1, 2), group(1, version=2))
    assert [x.group_id for x in only(outputs, e.GroupExpired)] == ["0@0"]
    assert batches(feed(group(2, version=2))) == [["1@0", "2@0"]]


def test_a_returned_batch_is_not_selected_again_but_comes_first() -> None:
    feed = batching(settings(SelectionRules(), 3), prefetch=0)
    assert batches(stand(feed, 1.0, 1.0, 1.0)) == [["0@0", "1@0"]]
    outputs = feed(returned(1, "0@0"))
    assert [x.reason for x in only(outputs, e.GroupExpired)] == [ExpiryReason.PAYLOAD_MISSING]
    assert (batches(outputs), deselected(outputs)) == ([["1@0", "2@0"]], [])


# --------------------------------------------------------------------------------------------------------- no refill


def test_without_refill_a_window_is_spent_whole_and_its_kept_are_the_batch() -> None:
    feed = batching(settings(refill=False), quotas={"maths": 4})
    outputs = stand(feed, 0.1, 0.4, 0.2, 0.3)
    assert deselected(outputs) == [("0@0", 1, 0.1), ("2@0", 1, 0.2)]
    (batch,) = only(outputs, e.BatchFormed)
    assert ([g.group_id for g in batch.groups], batch.candidates, batch.short) == (
        ["1@0", "3@0"], 4, ShortReason.SELECTION,
    )  # fmt: skip


def test_without_refill_a_whole_window_makes_no_short_batch_and_a_large_one_a_large_batch() -> None:
    feed = batching(settings(SelectionRules(), 3, refill=False))
    (batch,) = only(stand(feed, 1.0, 1.0, 1.0), e.BatchFormed)
    assert (len(batch.groups), batch.short) == (3, None)


def test_without_refill_a_window_that_keeps_nothing_skips_the_step() -> None:
    feed = batching(settings(POSITIVE, 2, refill=False))
    outputs = stand(feed, 0.0, 0.0)
    assert [type(o) for o in outputs] == [e.GroupDeselected, e.GroupDeselected, e.BatchSkipped]
    assert only(outputs, e.BatchSkipped) == [e.BatchSkipped(1, SkipReason.EMPTY_AFTER_FILTER, 0)]
    assert feed.state.steps_done == 1


def test_without_refill_no_window_is_spent_before_a_batch_may_be_formed() -> None:
    feed = batching(settings(window=2, refill=False), prefetch=0)
    assert batches(stand(feed, *[1.0] * 6)) == [["0@0"]]
    outputs = feed(trained(1))
    assert (batches(outputs), deselected(outputs)) == ([["2@0"]], [("3@0", 2, 1.0)])


def test_without_refill_no_window_is_spent_beyond_the_last_step() -> None:
    feed = batching(settings(window=2, refill=False), steps=1)
    assert len(deselected(stand(feed, *[1.0] * 6))) == 1
    assert feed(trained(1)) == []


def test_without_refill_what_a_returned_batch_left_is_formed_again_short() -> None:
    feed = batching(settings(SelectionRules(), 2, refill=False, loss_rescale="linear"), prefetch=0)
    stand(feed, 1.0, 1.0, 1.0)
    outputs = feed(returned(1, "1@0"))
    (batch,) = only(outputs, e.BatchFormed)
    assert ([g.group_id for g in batch.groups], batch.short) == (["0@0"], ShortReason.PAYLOADS_LOST)
    assert (batch.candidates, batch.loss_scale) == (2, 1.0)
    assert batches(feed(returned(2, "0@0"), group(3))) == [["2@0", "3@0"]]


# ------------------------------------------------------------------------------------------------- weights and scales


@pytest.mark.parametrize(("rescale", "scale"), [("none", 1.0), ("linear", 0.5), ("sqrt", sqrt(0.5))])
@pytest.mark.parametrize("refill", [True, False])
def test_the_loss_is_scaled_by_the_share_that_the_windows_kept(rescale: Any, scale: float, refill: bool) -> None:
    feed = batching(settings(window=4, refill=refill, loss_rescale=rescale))
    (batch,) = only(stand(feed, 0.1, 0.2, 0.3, 0.4), e.BatchFormed)
    assert (batch.loss_scale, batch.candidates) == (scale, 4)


def test_a_batch_of_two_windows_counts_both() -> None:
    feed = batching(settings(SelectionRules("top_k_abs", 1.0), 3, loss_rescale="linear"))
    (batch,) = only(stand(feed, *[1.0] * 6), e.BatchFormed)
    assert (batch.loss_scale, batch.candidates) == (2 / 6, 6)


def test_soft_weights_are_deviations_over_the_largest_of_the_batch() -> None:
    feed = batching(settings(SelectionRules(), 2, soft_weights=True))
    (batch,) = only(stand(feed, 0.25, 0.5), e.BatchFormed)
    assert [g.weight for g in batch.groups] == [0.25 / 0.500001, 0.5 / 0.500001]


def test_a_deviation_that_is_not_finite_weighs_nothing() -> None:
    feed = batching(settings(SelectionRules(), 2, soft_weights=True))
    (batch,) = only(stand(feed, float("inf"), 0.5), e.BatchFormed)
    assert batch.groups[0].weight == 0.0


# -------------------------------------------------------------------------------------------------------------- stops


def raised(events: Sequence[e.Event]) -> list[tuple[StarvationCause, StarvationPolicy]]:
    return [(s.cause, s.policy) for s in only(events, e.StarvationRaised)]


def starving(policy: StarvationPolicy) -> StarvationRules:
    return StarvationRules(policy, 0, 0.0, 0, 0)


@pytest.mark.parametrize("refill", [True, False])
def test_so_many_empty_windows_in_a_row_are_starvation(refill: bool) -> None:
    feed = batching(
        settings(POSITIVE, 1, refill=refill), empty_stop_steps=3, starvation=starving(StarvationPolicy.WAIT)
    )
    outputs = stand(feed, 0.0, 0.0, 1.0, 0.0, 0.0)
    assert raised(outputs) == []
    assert raised(stand(feed, 0.0, first=5)) == [(StarvationCause.EMPTY_SELECTIONS, StarvationPolicy.WAIT)]


@pytest.mark.parametrize("refill", [True, False])
def test_after_that_empty_windows_are_counted_anew(refill: bool) -> None:
    feed = batching(
        settings(POSITIVE, 1, refill=refill), empty_stop_steps=2, starvation=starving(StarvationPolicy.WAIT)
    )
    assert [len(raised(stand(feed, 0.0, first=n))) for n in range(6)] == [0, 1, 0, 1, 0, 1]


def test_its_explanation_counts_what_ended_since_the_last_batch() -> None:
    feed = batching(settings(POSITIVE, 1), empty_stop_steps=2)
    feed(rejected("7@0"), rejected("8@0"))
    (event,) = only(stand(feed, 0.0, 0.0), e.StarvationRaised)
    assert (event.accepted, event.low_information, event.invalid, event.system) == (2, 2, 0, 0)
    assert "selection.value" in event.advice and "2 of 2 rejected groups" in event.advice
    assert len(batches(stand(feed, 1.0, 1.0, first=2))) == 1
    (event,) = only(stand(feed, 0.0, 0.0, first=4), e.StarvationRaised)
    assert (event.accepted, event.low_information) == (2, 0)


def test_a_run_that_ends_for_it_forms_nothing_more() -> None:
    feed = batching(settings(POSITIVE, 1), empty_stop_steps=1, starvation=starving(StarvationPolicy.RAISE))
    assert raised(stand(feed, 0.0)) == [(StarvationCause.EMPTY_SELECTIONS, StarvationPolicy.RAISE)]
    assert stand(feed, 1.0, 1.0, first=1) == []
    outputs = feed(e.RunClosing(Outcome.STARVED, "", 0))
    assert [x.reason for x in only(outputs, e.GroupExpired)] == [ExpiryReason.RUN_OVER] * 2
    assert feed.stage.entries(feed.state) == 0 and feed.state.windows.scores == {}


def test_a_short_batch_is_formed_from_what_the_pool_has() -> None:
    policy = starving(StarvationPolicy.SHORT_BATCH)
    feed = batching(settings(POSITIVE, 1), empty_stop_steps=2, starvation=policy)
    (batch,) = only(stand(feed, 1.0, 0.0, 0.0), e.BatchFormed)
    assert ([g.group_id for g in batch.groups], batch.short) == (["0@0"], ShortReason.STARVATION)
    feed = batching(settings(POSITIVE, 1), empty_stop_steps=2, starvation=policy)
    assert len(only(stand(feed, 0.0, 0.0), e.BatchSkipped)) == 1


def test_rewards_that_hardly_vary_any_more_are_starvation() -> None:
    feed = batching(
        settings(SelectionRules(), 2, variance_stop=True), starvation=starving(StarvationPolicy.SHORT_BATCH), steps=99
    )
    outputs: list[e.Event] = []
    for step in range(20):
        std = 1.0 if step < 10 else 0.05
        outputs += stand(feed, std, std, first=2 * step, version=step)
        assert raised(outputs) == [] or step == 19
        outputs += feed(trained(step + 1))
    assert raised(outputs) == [(StarvationCause.REWARD_VARIANCE_COLLAPSE, StarvationPolicy.WAIT)]


@pytest.mark.parametrize(("stds", "stops"), [((0.01, 0.5), False), ((0.0, 0.18), True)])
def test_how_rewards_vary_is_looked_at_in_the_whole_window(stds: tuple[float, float], stops: bool) -> None:
    feed = batching(settings(window=2, variance_stop=True), quotas={"maths": 1}, steps=99)
    outputs: list[e.Event] = []
    for step in range(20):
        std = (1.0, 1.0) if step < 10 else stds
        outputs += stand(feed, *std, first=2 * step, version=step)
        outputs += feed(trained(step + 1))
    assert [cause for cause, _ in raised(outputs)] == [StarvationCause.REWARD_VARIANCE_COLLAPSE] * stops


# --------------------------------------------------------------------------------------------------- the source's end


@pytest.mark.parametrize("refill", [True, False])
def test_an_unfinished_window_counts_as_one_at_the_source_s_end(refill: bool) -> None:
    feed = batching(settings(refill=refill))
    assert stand(feed, 0.1, 0.2, 0.3) == []
    outputs = feed(starved(StarvationCause.SOURCE_EXHAUSTED))
    assert deselected(outputs) == [("0@0", 1, 0.1), ("1@0", 1, 0.2)]
    (batch,) = only(outputs, e.BatchFormed)
    assert ([g.group_id for g in batch.groups], batch.short) == (["2@0"], ShortReason.SOURCE_EXHAUSTED)


@pytest.mark.parametrize("refill", [True, False])
def test_an_unfinished_window_waits_while_the_trainer_has_a_batch(refill: bool) -> None:
    feed = batching(settings(SelectionRules(), 2, refill=refill), max_staleness=2)
    assert batches(stand(feed, *[1.0] * 3)) == [["0@0", "1@0"]]
    assert feed(starved()) == feed(starved(StarvationCause.SOURCE_EXHAUSTED)) == []
    (batch,) = only(feed(trained(1)), e.BatchFormed)
    assert ([g.group_id for g in batch.groups], batch.short) == (["2@0"], ShortReason.SOURCE_EXHAUSTED)


@pytest.mark.parametrize("refill", [True, False])
def test_an_unfinished_window_that_keeps_nothing_skips_one_step(refill: bool) -> None:
    feed = batching(settings(POSITIVE, refill=refill))
    stand(feed, 0.0)
    outputs = feed(starved(StarvationCause.SOURCE_EXHAUSTED))
    assert [s.reason for s in only(outputs, e.BatchSkipped)] == [SkipReason.EMPTY_AFTER_FILTER]
    assert [s.reason for s in only(feed(starved()), e.BatchSkipped)] == [SkipReason.NOTHING_ACCEPTED]


def test_when_the_run_closes_standing_groups_expire_and_so_does_what_a_batch_gives_back() -> None:
    feed = batching(settings(window=2))
    stand(feed, 1.0, 0.5, 1.0, 0.5, 1.0)
    outputs = feed(e.RunClosing(Outcome.STOPPED, "", 0), returned(1, reason=ReturnReason.RUN_OVER))
    assert [x.group_id for x in only(outputs, e.GroupExpired)] == ["4@0", "0@0", "2@0"]
    assert feed.stage.entries(feed.state) == 0


def test_nothing_is_held_of_what_is_over_and_the_state_survives_a_snapshot() -> None:
    feed = batching(settings(window=2))
    stand(feed, 1.0, 0.5, 1.0, 0.5, 1.0)
    codec = StateCodec(feed.stage.state_type)
    assert codec.decode(codec.encode(feed.state)) == feed.state
    feed(trained(1), saved(1, 1))
    assert list(feed.state.windows.scores) == ["4@0"] and feed.state.windows.origins == {}


# -------------------------------------------------------------------------------------------------- the user's own code


def test_own_code_names_the_groups_or_weighs_them() -> None:
    def longest(window: Sequence[Candidate]) -> list[str]:
        assert [len(c.members) for c in window] == [4] * 4
        return [c.group_id for c in window if c.scores.reward_std == 1.0]

    outputs = stand(asking(longest), 1.0, 0.5, 0.5, 1.0)
    assert batches(outputs) == [["0@0", "3@0"]]
    assert deselected(outputs) == [("1@0", 1, None), ("2@0", 1, None)]

    weighing = asking(lambda window: {c.group_id: i for i, c in enumerate(window) if i > 1})
    (batch,) = only(stand(weighing, *[1.0] * 4), e.BatchFormed)
    assert [(g.group_id, g.weight) for g in batch.groups] == [("2@0", 2.0), ("3@0", 3.0)]


WRONG: list[tuple[Any, str]] = [
    (lambda window: 1 / 0, "ZeroDivisionError"),
    (lambda window: None, "answered NoneType"),
    (lambda window: "0@0", "answered str"),
    (lambda window: ["9@0"], "'9@0', which is not there"),
    (lambda window: ["0@0", "0@0"], "named twice"),
    (lambda window: {"0@0": float("nan")}, "weight nan"),
    (lambda window: {"0@0": -1.0}, "weight -1.0"),
    (lambda window: {"0@0": True}, "weight True"),
]


@pytest.mark.parametrize(("selector", "why"), WRONG)
def test_what_is_wrong_with_own_code_follows_its_policy(selector: Any, why: str) -> None:
    assert len(deselected(stand(asking(selector), *[1.0] * 4))) == 4
    assert batches(stand(asking(selector, "keep"), *[1.0] * 4)) == [["0@0", "1@0"], ["2@0", "3@0"]]
    feed = asking(selector, "raise")
    outputs = stand(feed, *[1.0] * 4)
    assert stand(feed, *[1.0] * 4, first=4) == []
    (failed,) = only(outputs, e.StageFailed)
    assert (failed.stage, failed.group_id) == ("batcher", None)
    assert why in failed.detail and "my:code" in failed.detail
    assert len(deselected(outputs)) == 4


def test_whatever_own_code_raises_can_be_written() -> None:
    def muttering(window: Sequence[Candidate]) -> list[str]:
        raise ValueError("\ud800" + "long " * 1_000_000)

    for output in stand(asking(muttering, "raise"), *[1.0] * 4):
        assert len(encode(output)) < 20_000 and decode(encode(output)) == output


def test_own_code_that_nobody_built_is_refused() -> None:
    rule = FilterRule("custom", {"factory": "my:code", "options": {}, "on_error": "reject"})
    with pytest.raises(ValueError, match="nobody built"):
        batcher(rules(selection=settings(None, custom=rule)))


def test_after_the_source_s_end_all_that_was_kept_is_trained_on_batch_by_batch() -> None:
    feed = batching(settings(SelectionRules(), 9), max_staleness=2)
    stand(feed, *[1.0] * 5)
    assert batches(feed(starved(StarvationCause.SOURCE_EXHAUSTED))) == [["0@0", "1@0"], ["2@0", "3@0"]]
    outputs = feed(trained(1), trained(2))
    (batch,) = only(outputs, e.BatchFormed)
    assert ([g.group_id for g in batch.groups], batch.short) == (["4@0"], ShortReason.SOURCE_EXHAUSTED)
    assert feed(trained(3)) == []


def test_what_is_too_old_after_the_source_s_end_expires_and_skips_no_step() -> None:
    feed = batching(settings(SelectionRules(), 9))
    stand(feed, *[1.0] * 5)
    outputs = feed(starved(StarvationCause.SOURCE_EXHAUSTED), trained(1), trained(2))
    assert [x.group_id for x in only(outputs, e.GroupExpired)] == ["4@0"]
    assert feed.state.steps_done == 2
