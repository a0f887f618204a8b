"""Batching: oldest first, whole, fresh, and never the same group in two batches."""

from typing import Any

import pytest

from pipeline.domain import events as e
from pipeline.domain.batching import Batcher
from pipeline.domain.vocabulary import ExpiryReason, Outcome, ReturnReason, StarvationCause, StarvationPolicy

from .given import Feed, accepted, only, returned, rules, saved, skipped, started, starved
from .given import trained as trained_on


def batching(**changes: Any) -> Feed:
    """One domain of 2 groups a batch."""
    return Feed(Batcher(rules(**changes)))


def batches(events: list[e.Event]) -> list[tuple[int, list[str]]]:
    return [(b.batch, [g.group_id for g in b.groups]) for b in only(events, e.BatchFormed)]


def expiries(events: list[e.Event]) -> list[tuple[str, ExpiryReason]]:
    return [(x.group_id, x.reason) for x in only(events, e.GroupExpired)]


def fill(feed: Feed, *numbers: int, version: int = 0) -> list[e.Event]:
    return feed(*(accepted(f"{n}@0", version=version) for n in numbers))


def test_a_batch_takes_the_oldest_groups_first() -> None:
    assert batches(fill(batching(), 5, 3, 9)) == [(1, ["5@0", "3@0"])]


def test_a_batch_waits_for_the_quota_of_every_domain() -> None:
    feed = batching(quotas={"maths": 1, "code": 2})
    assert fill(feed, 0, 1, 2) == []
    assert feed(accepted("3@0", "code")) == []
    assert batches(feed(accepted("4@0", "code"))) == [(1, ["0@0", "3@0", "4@0"])]


@pytest.mark.parametrize(("prefetch", "expected"), [(0, 1), (1, 2), (2, 3)])
def test_as_many_batches_are_formed_ahead_as_prefetch_says(prefetch: int, expected: int) -> None:
    feed = batching(prefetch=prefetch, async_ratio=3.0, max_staleness=3, steps=9)
    assert len(batches(fill(feed, *range(10)))) == expected
    assert len(batches(feed(trained_on(1)))) == 1


def test_no_batch_is_formed_beyond_the_last_step() -> None:
    feed = batching(steps=1)
    assert len(batches(fill(feed, *range(8)))) == 1
    assert feed(trained_on(1)) == []


def test_a_batch_says_which_version_it_will_follow() -> None:
    feed = batching(prefetch=1, steps=9)
    feed(started(1, 0))
    assert [b.follows_version for b in only(fill(feed, 0, 1, 2, 3), e.BatchFormed)] == [0, 1]


@pytest.mark.parametrize(("version", "kept"), [(3, True), (2, True), (1, False), (0, False), (-1, False)])
def test_a_group_more_versions_old_than_allowed_expires(version: int, kept: bool) -> None:
    feed = batching(max_staleness=1)
    feed(started(1, 3))
    outputs = fill(feed, 0, 1, version=version)
    assert (batches(outputs) == [(1, ["0@0", "1@0"])]) is kept
    assert expiries(outputs) == ([] if kept else [("0@0", ExpiryReason.STALE), ("1@0", ExpiryReason.STALE)])


def test_a_batch_formed_ahead_is_as_much_later_for_its_groups() -> None:
    feed = batching(prefetch=1, max_staleness=1, steps=9)
    feed(started(1, 1))
    assert batches(fill(feed, 0, 1)) == [(1, ["0@0", "1@0"])]
    outputs = fill(feed, 2, 3)
    assert [(x.group_id, x.staleness) for x in only(outputs, e.GroupExpired)] == [("2@0", 2), ("3@0", 2)]
    assert batches(outputs) == []
    assert batches(fill(feed, 4, 5, version=1)) == [(2, ["4@0", "5@0"])]


def test_what_expires_is_made_up_for_from_the_rest_of_the_pool() -> None:
    feed = batching(prefetch=0, max_staleness=0, async_ratio=0.0)
    fill(feed, 0, 1, 2)
    feed(trained_on(1))
    assert fill(feed, 3, version=1) != []
    outputs = fill(feed, 4, version=1)
    assert batches(outputs) == [(2, ["3@0", "4@0"])]


def test_a_returned_batch_loses_what_is_lost_and_the_rest_comes_first_again() -> None:
    feed = batching(prefetch=0)
    fill(feed, 0, 1, 2, 3)
    outputs = feed(returned(1, "0@0"))
    assert expiries(outputs) == [("0@0", ExpiryReason.PAYLOAD_MISSING)]
    assert batches(outputs) == [(2, ["1@0", "2@0"])]


def test_a_step_that_is_returned_may_be_taken_again() -> None:
    feed = batching(prefetch=0, steps=1)
    fill(feed, 0, 1)
    feed(trained_on(1))
    assert batches(feed(returned(1, trained=True))) == [(2, ["0@0", "1@0"])]


def test_the_version_after_a_return_goes_on_from_the_one_published() -> None:
    feed = batching(prefetch=0)
    fill(feed, 0, 1)
    feed(trained_on(1, 1))
    (batch,) = only(feed(returned(1, trained=True)), e.BatchFormed)
    assert batch.follows_version == 1


def test_when_the_run_closes_the_pool_expires_and_so_does_what_still_comes() -> None:
    feed = batching(prefetch=0)
    fill(feed, 0, 1, 2)
    assert expiries(feed(e.RunClosing(Outcome.STOPPED, "", 0))) == [("2@0", ExpiryReason.RUN_OVER)]
    assert expiries(fill(feed, 3)) == [("3@0", ExpiryReason.RUN_OVER)]
    outputs = feed(returned(1, "1@0", reason=ReturnReason.RUN_OVER))
    assert expiries(outputs) == [("0@0", ExpiryReason.RUN_OVER), ("1@0", ExpiryReason.PAYLOAD_MISSING)]
    assert batches(outputs) == []
    assert feed.stage.entries(feed.state) == 0


def test_after_a_failed_trainer_nothing_more_is_formed() -> None:
    feed = batching(prefetch=0)
    fill(feed, 0, 1)
    assert feed(returned(1, reason=ReturnReason.FAILED)) == []
    assert fill(feed, 2, 3) == []


def test_a_batch_is_forgotten_when_it_is_trained_and_saved_in_either_order() -> None:
    for order in ((trained_on(1), saved(1, 1)), (saved(1, 1), trained_on(1))):
        feed = batching()
        fill(feed, 0, 1)
        feed(*order)
        assert feed.state.batches == {}


def test_a_starving_run_that_waits_or_ends_forms_no_short_batch() -> None:
    feed = batching()
    fill(feed, 0)
    for policy in (StarvationPolicy.WAIT, StarvationPolicy.RAISE):
        assert feed(starved(policy=policy)) == []


def test_a_short_batch_takes_no_stale_group() -> None:
    feed = batching(max_staleness=1)
    feed(started(1, 5), accepted("0@0", version=3), accepted("1@0", version=9))
    feed = batching(max_staleness=1)
    feed(started(1, 5), accepted("0@0", version=3))
    outputs = feed(starved())
    assert expiries(outputs) == [("0@0", ExpiryReason.STALE)]
    assert len(only(outputs, e.BatchSkipped)) == 1


def test_after_the_last_call_a_returned_batch_is_formed_again_short() -> None:
    feed = batching()
    fill(feed, 0)
    feed(starved(StarvationCause.SOURCE_EXHAUSTED))
    outputs = feed(returned(1))
    assert batches(outputs) == [(2, ["0@0"])]
    assert len(only(feed(returned(2, "0@0")), e.BatchSkipped)) == 1


def test_a_full_batch_is_not_short_although_the_source_has_ended() -> None:
    feed = batching(prefetch=0)
    fill(feed, 0, 1, 2)
    feed(starved(StarvationCause.SOURCE_EXHAUSTED))
    (again,) = only(feed(returned(1)), e.BatchFormed)
    assert ([g.group_id for g in again.groups], again.short) == (["0@0", "1@0"], None)


def test_own_records_and_those_of_others_change_nothing() -> None:
    feed = batching()
    before = repr(feed.state)
    assert feed(skipped(4), e.StopRequested("x", 0), starved(policy=StarvationPolicy.WAIT)) == []
    assert repr(feed.state) == before
