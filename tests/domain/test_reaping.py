"""Reaping: each payload is dropped once, when nobody can need it any more, and what is unnamed is swept."""

import pytest

from pipeline.domain import events as e
from pipeline.domain.reaping import DiscardReaper, Reaper
from pipeline.domain.topology import InvariantBroken, Topic
from pipeline.domain.vocabulary import DiscardReason, DropReason, Outcome, Reason

from .given import EVAL, MEMBERS, Feed, accepted, expired, formed, member, opened, rejected, returned, saved
from .given import trained as trained_on


def reaping(*groups: str) -> Feed:
    feed = Feed(Reaper(MEMBERS))
    feed(*(opened(gid) for gid in groups))
    return feed


def dropped(events: list[e.Event]) -> list[tuple[str | None, tuple[str, ...], DropReason]]:
    assert all(isinstance(event, e.PayloadsDropped) for event in events)
    return [(d.group_id, d.keys, d.reason) for d in events if isinstance(d, e.PayloadsDropped)]


def test_a_rejected_groups_payloads_are_dropped_in_its_partition() -> None:
    (output,) = reaping("0@3").outputs(rejected("0@3"))
    assert (output.topic, output.partition) == (Topic.DROPS, 3)
    assert dropped([output.event]) == [("0@3", ("0@3/0",), DropReason.REJECTED)]


def test_a_trained_batch_keeps_its_payloads_until_a_checkpoint_covers_it() -> None:
    feed = reaping("0@0", "1@0")
    assert feed(accepted("0@0"), accepted("1@0"), formed(1, "0@0", "1@0"), trained_on(1)) == []
    assert dropped(feed(saved(1, 1))) == [
        ("0@0", ("0@0/0",), DropReason.TRAINED),
        ("1@0", ("1@0/0",), DropReason.TRAINED),
    ]
    assert (feed.state.live, feed.state.batches) == ({}, {})


def test_a_checkpoint_is_read_before_the_training_it_covers() -> None:
    feed = reaping("0@0")
    assert len(feed(formed(1, "0@0"), saved(1, 1), trained_on(1))) == 1


def test_a_returned_batch_drops_nothing_and_its_groups_live_on() -> None:
    feed = reaping("0@0", "1@0")
    assert feed(formed(1, "0@0", "1@0"), returned(1, "0@0")) == []
    assert feed(expired("0@0")) == []  # it names no payload
    assert list(feed.state.live) == ["1@0"]
    assert len(feed(formed(2, "1@0"), saved(1, 2))) == 1


def test_an_evaluated_group_is_dropped() -> None:
    who = MEMBERS.encode((member(0, payload_key="k"), member(1, payload_key=None)))
    event = e.GroupEvaluated("0@0", e.PromptRef("", "", 0, 0), EVAL, who, 0, 1, 0, 1, 1.0, 0)
    assert dropped(reaping("0@0")(event)) == [("0@0", ("k",), DropReason.EVALUATED)]


def test_a_group_that_ends_twice_stops_the_reaper() -> None:
    feed = reaping("0@0")
    feed(rejected("0@0"))
    with pytest.raises(InvariantBroken):
        feed(rejected("0@0"))


def test_an_unreadable_copy_of_an_ended_group_is_nothing() -> None:
    feed = reaping("0@0")
    feed(rejected("0@0"))
    assert feed(rejected("0@0", Reason.UNDECODABLE)) == []


def test_the_sweep_leaves_live_groups_and_all_that_may_have_been_opened_since() -> None:
    feed = reaping("0@0", "1@1", "2@0")
    feed(rejected("0@0"))
    assert [feed.state.is_live(g) for g in ("0@0", "1@1", "2@0", "3@1", "0@1")] == [False, True, True, True, False]


def test_the_ledgers_reaper_adds_its_copy_of_the_end_to_the_first_partition() -> None:
    end = e.RunFinished(Outcome.COMPLETED, 1, 0)
    assert [(o.topic, o.partition, o.event) for o in reaping().outputs(end)] == [(Topic.DROPS, 0, end)]


def discarded(key: str | None) -> e.ResponseDiscarded:
    return e.ResponseDiscarded("nonsense", 0, 1, key, 9, 5, DiscardReason.LATE, None, 0)


def test_a_discarded_response_is_dropped_whatever_group_it_names() -> None:
    feed = Feed(DiscardReaper(), 2)
    (output,) = feed.outputs(discarded("k"))
    assert (output.topic, output.partition) == (Topic.DROPS, 2)
    assert dropped([output.event]) == [("nonsense", ("k",), DropReason.DISCARDED)]
    assert feed(discarded(None), e.Undecodable("0@0", False)) == []
    with pytest.raises(InvariantBroken):
        feed(rejected("0@0"))
