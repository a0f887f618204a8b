"""Assembly: what belongs to a group, what is asked again, and how a group leaves the table."""

from dataclasses import replace
from math import fsum
from typing import Any

import pytest

from pipeline.domain import events as e
from pipeline.domain.grouping import mean, sample_std
from pipeline.domain.rules import AssemblyRules, Rules
from pipeline.domain.topology import InvariantBroken, Topic
from pipeline.domain.vocabulary import (
    DiscardReason,
    ExpiryReason,
    Failure,
    Grading,
    Outcome,
    Purpose,
    Reason,
)

from .given import MEMBERS, Feed, asked, assembling, failed, filtered, only, opened, rules, scored, tick

LEASE, DEADLINE = 10_000, 60_000


def by(count: str = "valid", max_rounds: int = 5, **changes: Any) -> Rules:
    return rules(assembly=AssemblyRules(count, max_rounds, LEASE, DEADLINE), **changes)  # type: ignore[arg-type]


def wanted(events: list[e.Event]) -> list[tuple[int, int]]:
    """Slots and rounds that are asked for."""
    return [(s.slot, s.round) for r in only(events, e.ResponsesRequested) for s in r.slots]


def discards(events: list[e.Event]) -> list[tuple[str, DiscardReason]]:
    return [(f"{d.group_id}/{d.slot}.{d.round}", d.reason) for d in only(events, e.ResponseDiscarded)]


def rewards(assembled: e.GroupAssembled) -> list[float | None]:
    return [m.reward for m in MEMBERS.decode(assembled.members)]


# ------------------------------------------------------------------------------------------------ complete, and how


def test_a_group_is_assembled_with_its_last_response_in_slot_order() -> None:
    feed = assembling(by(), opened("0@0"))
    assert feed(scored("0@0/3.1", 0.3), scored("0@0/1.1", 0.1), scored("0@0/0.1", 0.0)) == []
    (group,) = feed(scored("0@0/2.1", 0.2))
    assert rewards(group) == [0.0, 0.1, 0.2, 0.3]
    assert group.payload_bytes == 400
    assert feed.state.open == {}


def test_a_group_goes_to_the_filter_partition_of_its_own_or_to_the_only_one() -> None:
    for filters, expected in ((2, 1), (1, 0)):
        feed = assembling(by(filter_partitions=filters), opened("0@1", 1), partition=1)
        (output,) = feed.outputs(scored("0@1/0.1"))
        assert (output.topic, output.partition) == (Topic.GROUPS, expected)


def test_a_second_copy_of_a_response_is_discarded_as_duplicate() -> None:
    feed = assembling(by(), opened("0@0"))
    assert feed(scored("0@0/0.1")) == []
    assert discards(feed(scored("0@0/0.1"))) == [("0@0/0.1", DiscardReason.DUPLICATE)]


def test_a_copy_that_names_a_members_payload_doesnt_have_it_dropped() -> None:
    feed = assembling(by(), opened("0@0"))
    feed(scored("0@0/0.1"))
    (gone,) = feed(scored("0@0/0.1"))
    assert isinstance(gone, e.ResponseDiscarded)
    assert (gone.payload_key, gone.payload_bytes) == (None, 0)


def test_a_response_of_another_round_or_slot_than_was_asked_is_a_duplicate() -> None:
    feed = assembling(by(), opened("0@0"))
    for other in ("0@0/0.2", "0@0/4.1", "0@0/-1.1"):
        assert discards(feed(scored(other))) == [(other, DiscardReason.DUPLICATE)]


def test_a_response_to_a_group_that_is_over_is_late() -> None:
    feed = assembling(by(), opened("0@0", 1))
    feed(scored("0@0/0.1"))
    assert discards(feed(scored("0@0/0.1"))) == [("0@0/0.1", DiscardReason.LATE)]


@pytest.mark.parametrize("gid", ["g7-0", "7", "", "7@1", "9@0", "07@0", "7@0 ", "-1@0", "7@00"])
def test_a_malformed_foreign_or_future_id_is_an_unknown_group(gid: str) -> None:
    feed = assembling(by(), opened("7@0"))
    (gone,) = feed(scored(f"{gid}/0.1"))
    assert gone.reason is DiscardReason.UNKNOWN_GROUP
    assert gone.payload_key == f"key of {gid}/0.1"
    assert len(feed.state.open[7].members) == 0


def test_a_group_opened_twice_or_out_of_order_stops_the_assembler() -> None:
    feed = assembling(by(), opened("3@0"))
    for gid in ("3@0", "2@0"):
        with pytest.raises(InvariantBroken):
            feed(opened(gid))


def test_redundant_responses_are_discarded_as_late_and_generators_are_told_to_stop() -> None:
    feed = assembling(by(), opened("0@0", 2, redundancy=2))
    outputs = feed(scored("0@0/3.1"), scored("0@0/0.1"))
    assert [type(o).__name__ for o in outputs] == ["GroupAssembled", "GroupClosed"]
    assert discards(feed(scored("0@0/1.1"))) == [("0@0/1.1", DiscardReason.LATE)]


def test_a_group_whose_slots_all_answered_needs_no_closing() -> None:
    feed = assembling(by(), opened("0@0", 1))
    assert only(feed(scored("0@0/0.1")), e.GroupClosed) == []


# ------------------------------------------------------------------------------------------------- asking again


def test_a_failed_response_is_discarded_and_asked_again_in_its_next_round() -> None:
    feed = assembling(by(), opened("0@0"))
    outputs = feed(failed("0@0/2.1"))
    assert discards(outputs) == [("0@0/2.1", DiscardReason.FAILED)]
    assert wanted(outputs) == [(2, 2)]
    assert only(outputs, e.ResponsesRequested)[0].task == b"task"


def test_a_filtered_response_is_asked_again_too() -> None:
    feed = assembling(by(), opened("0@0"))
    outputs = feed(filtered("0@0/1.1"))
    assert (discards(outputs), wanted(outputs)) == ([("0@0/1.1", DiscardReason.FILTERED)], [(1, 2)])


def test_with_redundancy_only_what_would_be_missing_is_asked_again() -> None:
    feed = assembling(by(), opened("0@0", 2, redundancy=2))
    assert wanted(feed(failed("0@0/0.1"), failed("0@0/1.1"))) == []
    assert wanted(feed(failed("0@0/3.1"))) == [(0, 2)]  # lowest round, then lowest slot
    assert wanted(feed(failed("0@0/2.1"))) == [(1, 2)]
    assert wanted(feed(failed("0@0/0.2"))) == [(2, 2)]


def test_a_slot_has_five_rounds_the_first_included() -> None:
    feed = assembling(by(), opened("0@0", 1))
    asked_for = [wanted(feed(failed(f"0@0/0.{round}"))) for round in range(1, 5)]
    assert asked_for == [[(0, 2)], [(0, 3)], [(0, 4)], [(0, 5)]]
    (group,) = only(feed(failed("0@0/0.5")), e.GroupRejected)
    assert group.reason is Reason.RESPONSE_RETRIES_EXHAUSTED
    assert group.category == "invalid"


def test_a_group_without_rounds_left_keeps_its_members_payloads_to_be_dropped() -> None:
    feed = assembling(by(max_rounds=1), opened("0@0", 2, redundancy=1))
    feed(scored("0@0/0.1"), failed("0@0/1.1"))
    outputs = feed(failed("0@0/2.1"))
    (group,) = only(outputs, e.GroupRejected)
    assert [m.payload_key for m in MEMBERS.decode(group.members)] == ["key of 0@0/0.1"]
    assert only(outputs, e.GroupClosed) == []


def test_of_failed_slots_those_of_the_lowest_round_are_asked_then_the_lowest_slots() -> None:
    feed = assembling(by(), opened("0@0", 3, redundancy=2))
    feed(failed("0@0/4.1"), failed("0@0/1.1"))
    assert wanted(feed(failed("0@0/3.1"))) == [(1, 2)]
    assert wanted(feed(failed("0@0/1.2"))) == [(3, 2)]
    assert wanted(feed(failed("0@0/3.2"))) == [(4, 2)]
    assert wanted(feed(failed("0@0/4.2"))) == [(1, 3)]


def test_a_failed_fifth_round_rejects_the_group_and_never_shortens_it() -> None:
    feed = assembling(by(), opened("0@0", 4))
    feed(*(scored(f"0@0/{slot}.1") for slot in (0, 1, 2)))
    outputs = feed(*(failed(f"0@0/3.{round}") for round in range(1, 6)))
    kinds = [type(o).__name__ for o in outputs if not isinstance(o, e.ResponseDiscarded)]
    assert kinds == [*["ResponsesRequested"] * 4, "GroupRejected"]
    assert feed.state.open == {}


def test_a_group_that_was_never_whole_says_what_its_responses_came_to() -> None:
    feed = assembling(by(max_rounds=2), opened("0@0", 2))
    feed(failed("0@0/0.1", Failure.TIMEOUT), scored("0@0/1.1", None))
    (group,) = only(feed(filtered("0@0/0.2")), e.GroupRejected)
    assert group.measurements == {"timeout": 1.0, "ungraded": 1.0, "filtered": 1.0}
    feed = assembling(by(), opened("0@0", 2), opened("1@0", 1))
    why = "verifier 'judge' raised ConnectionError: it is down"
    feed(*(replace(scored(f"1@0/0.{round}", None), detail=why) for round in range(1, 5)))
    (over,) = only(feed(replace(scored("1@0/0.5", None), detail=why * 9)), e.GroupRejected)
    assert over.measurements == {"ungraded": 5.0}
    assert over.detail == f"5 ungraded: {(why * 9)[:200]}"
    feed(failed("0@0/0.1", Failure.ENV_FAILED), tick(LEASE))
    (late,) = only(feed(tick(DEADLINE)), e.GroupRejected)
    assert (late.reason, late.measurements) == (Reason.DEADLINE, {"env_failed": 1.0, "silent": 2.0})
    assert late.detail == "1 env_failed, 2 silent: env_failed"


def test_an_ungraded_response_is_asked_again_and_never_counted_as_zero() -> None:
    feed = assembling(by(), opened("0@0"))
    outputs = feed(scored("0@0/0.1", 1.0), scored("0@0/1.1", 1.0), scored("0@0/2.1", None), scored("0@0/3.1", 0.0))
    assert wanted(outputs) == [(2, 2)]
    (group,) = feed(scored("0@0/2.2", 1.0))
    values = [r for r in rewards(group) if r is not None]
    assert values == [1.0, 1.0, 1.0, 0.0]
    assert (mean(values), sample_std(values)) == (0.75, 0.5)
    assert [v - mean(values) for v in values] == [0.25, 0.25, 0.25, -0.75]


def test_an_ungraded_response_under_the_policy_zero_is_a_member_that_says_so() -> None:
    feed = assembling(by(), opened("0@0"))
    unknown = scored("0@0/2.1", 0.0, grading=Grading.UNGRADED)
    (group,) = feed(scored("0@0/0.1", 1.0), scored("0@0/1.1", 1.0), unknown, scored("0@0/3.1", 0.0))
    assert rewards(group) == [1.0, 1.0, 0.0, 0.0]
    assert [m.grading for m in MEMBERS.decode(group.members)][2] is Grading.UNGRADED
    assert group.scores.reward_mean == 0.5


def test_a_response_that_is_never_graded_ends_the_group_after_five_rounds() -> None:
    feed = assembling(by(), opened("0@0"))
    feed(scored("0@0/0.1"), scored("0@0/1.1"), scored("0@0/3.1"))
    outputs = feed(*(scored(f"0@0/2.{round}", None) for round in range(1, 6)))
    (group,) = only(outputs, e.GroupRejected)
    assert group.reason is Reason.RESPONSE_RETRIES_EXHAUSTED
    assert only(outputs, e.GroupAssembled) == []


def test_counting_any_takes_failed_arrivals_as_members() -> None:
    feed = assembling(by("any"), opened("0@0", 2, redundancy=1))
    (group, closed) = feed(failed("0@0/1.1"), scored("0@0/0.1"))
    assert isinstance(group, e.GroupAssembled) and isinstance(closed, e.GroupClosed)
    assert [m.failure for m in MEMBERS.decode(group.members)] == [None, Failure.ABORTED]
    assert group.scores.reward_mean is None


def test_counting_any_replaces_what_the_response_filter_refuses() -> None:
    feed = assembling(by("any"), opened("0@0", 2))
    outputs = feed(filtered("0@0/0.1", 1.0))
    assert (discards(outputs), wanted(outputs)) == ([("0@0/0.1", DiscardReason.FILTERED)], [(0, 2)])
    assert feed(scored("0@0/1.1", None)) == []  # nobody judged it: an arrival
    (group,) = feed(scored("0@0/0.2", 0.5))
    assert [(m.round, m.reward) for m in MEMBERS.decode(group.members)] == [(2, 0.5), (1, None)]


def test_counting_any_a_refused_response_is_made_up_for_by_redundancy_and_asked_for_in_its_rounds() -> None:
    feed = assembling(by("any", max_rounds=2), opened("0@0", 2, redundancy=1), opened("1@0", 1))
    assert wanted(feed(filtered("0@0/0.1"), failed("0@0/1.1"))) == []
    (group,) = feed(scored("0@0/2.1"))
    assert [m.slot for m in MEMBERS.decode(group.members)] == [1, 2]
    (over,) = only(feed(filtered("1@0/0.1"), filtered("1@0/0.2")), e.GroupRejected)
    assert (over.reason, over.measurements) == (Reason.RESPONSE_RETRIES_EXHAUSTED, {"filtered": 2.0})


# ------------------------------------------------------------------------------------------------------------ time


def test_a_lease_that_ends_asks_once_more_for_the_same_slot_and_round() -> None:
    feed = assembling(by(), opened("0@0", 2))
    feed(scored("0@0/0.1"))
    assert feed(tick(LEASE - 1)) == []
    assert wanted(feed(tick(LEASE))) == [(1, 1)]
    assert feed(tick(2 * LEASE - 1)) == []
    (group, closed) = feed(tick(2 * LEASE))
    assert (group.reason, group.category) == (Reason.DEADLINE, "system")
    assert closed.group_id == "0@0"


def test_a_silent_slot_costs_nothing_while_redundancy_covers_it() -> None:
    feed = assembling(by(), opened("0@0", 2, redundancy=1))
    feed(scored("0@0/0.1"), tick(LEASE))
    feed(scored("0@0/2.1"))
    assert feed.state.open == {}


def test_a_failed_slot_makes_up_for_a_silent_one_in_either_order() -> None:
    silent_first = assembling(by(), opened("0@0", 2, redundancy=1))
    silent_first(failed("0@0/0.1"), tick(LEASE), failed("0@0/2.1"), tick(2 * LEASE - 1))
    assert wanted(silent_first(tick(2 * LEASE))) == [(2, 2), (0, 2)]
    assert wanted(silent_first(failed("0@0/0.2"))) == [(0, 3)]
    failed_first = assembling(by(), opened("0@0", 2, redundancy=1))
    failed_first(scored("0@0/2.1"), failed("0@0/0.1"), tick(LEASE))
    assert wanted(failed_first(tick(2 * LEASE))) == [(0, 2)]
    assert 0 in failed_first.state.open


def test_a_response_that_comes_after_its_lease_still_counts() -> None:
    feed = assembling(by(), opened("0@0", 2))
    feed(scored("0@0/0.1"), tick(LEASE))
    (group, closed) = feed(scored("0@0/1.1"))
    assert isinstance(closed, e.GroupClosed)  # the second request may still wait at a generator
    assert isinstance(group, e.GroupAssembled)


def test_a_group_ends_at_its_deadline_however_busy_it_is() -> None:
    feed = assembling(by(max_rounds=100), opened("0@0", 1))
    for n in range(1, 9):
        feed(tick(n * 7_000), failed(f"0@0/0.{n}"))
    (group, _) = feed(tick(DEADLINE))
    assert group.reason is Reason.DEADLINE


def test_training_leases_stand_still_while_an_evaluation_group_is_open_here() -> None:
    feed = assembling(by(), opened("0@0", 1), asked("1@0"))
    feed(tick(LEASE - 1))
    assert feed(tick(LEASE - 1)) == []
    outputs = feed(tick(3 * LEASE))
    assert [o.group_id for o in outputs] == ["1@0"]  # the evaluation's own lease goes on
    feed(scored("1@0/0.1"))
    assert feed(tick(4 * LEASE - 1)) == []
    assert wanted(feed(tick(4 * LEASE))) == [(0, 1)]


def test_the_lease_of_a_later_round_stands_still_too() -> None:
    feed = assembling(by(), opened("0@0", 1), asked("1@0"))
    feed(tick(5_000))
    assert wanted(feed(failed("0@0/0.1"))) == [(0, 2)]
    feed(scored("1@0/0.1"))
    assert feed(tick(5_000 + LEASE - 1)) == []
    assert wanted(feed(tick(5_000 + LEASE))) == [(0, 2)]


def test_the_lease_of_an_evaluation_s_later_round_does_not() -> None:
    feed = assembling(by(), asked("0@0"))
    feed(tick(5_000))
    assert wanted(feed(failed("0@0/0.1"))) == [(0, 2)]
    assert feed(tick(5_000 + LEASE - 1)) == []
    assert wanted(feed(tick(5_000 + LEASE))) == [(0, 2)]


def test_training_deadlines_stand_still_while_an_evaluation_group_is_open_here() -> None:
    feed = assembling(by(max_rounds=100), opened("0@0", 1))
    for n in range(1, 9):
        feed(tick(n * 7_000), failed(f"0@0/0.{n}"))
    feed(asked("1@0"), tick(DEADLINE), tick(DEADLINE + 4_000), scored("1@0/0.1", 1.0))
    assert wanted(feed(failed("0@0/0.9"))) == [(0, 10)]
    assert feed(tick(DEADLINE + 7_999)) == []
    (group, _) = feed(tick(DEADLINE + 8_000))
    assert (group.reason, group.measurements) == (Reason.DEADLINE, {"aborted": 9.0, "silent": 1.0})


def test_run_time_never_goes_back() -> None:
    feed = assembling(by())
    feed(tick(5))
    with pytest.raises(InvariantBroken):
        feed(tick(4))


# -------------------------------------------------------------------------------------------------------- evaluation


def test_a_failed_evaluation_sample_is_tried_once_more_and_is_then_the_answer() -> None:
    feed = assembling(by(), asked("0@0", 2))
    feed(scored("0@0/0.1", 1.0))
    assert wanted(feed(failed("0@0/1.1"))) == [(1, 2)]
    (group,) = feed(failed("0@0/1.2"))
    assert [m.grading for m in MEMBERS.decode(group.members)] == [Grading.GRADED, Grading.FAILED]
    assert group.purpose is Purpose.EVAL


def test_an_evaluation_sample_that_never_comes_is_a_failed_member() -> None:
    feed = assembling(by(), asked("0@0", 2))
    feed(scored("0@0/0.1", 1.0), tick(LEASE))
    (group, closed) = feed(tick(2 * LEASE))
    assert [m.failure for m in MEMBERS.decode(group.members)] == [None, Failure.TIMEOUT]
    assert isinstance(closed, e.GroupClosed)


# ---------------------------------------------------------------------------------------------- ends from elsewhere


def test_a_cancelled_group_expires_with_the_payloads_it_has() -> None:
    feed = assembling(by(), opened("0@0", 2))
    feed(scored("0@0/0.1"))
    (gone, closed) = feed(e.GroupCancelled("0@0", 5))
    assert (gone.reason, gone.at) == (ExpiryReason.RUN_OVER, 5)
    assert [m.payload_key for m in MEMBERS.decode(gone.members)] == ["key of 0@0/0.1"]
    assert isinstance(closed, e.GroupClosed)


def test_a_cancelled_group_that_is_over_needs_nothing() -> None:
    feed = assembling(by(), opened("0@0", 1))
    feed(scored("0@0/0.1"))
    assert feed(e.GroupCancelled("0@0", 5)) == []


def test_an_unreadable_record_ends_the_group_that_its_key_names() -> None:
    feed = assembling(by(), opened("0@0", 2))
    (group, _) = feed(e.Undecodable("0@0", False))
    assert (group.reason, group.category) == (Reason.UNDECODABLE, "system")


@pytest.mark.parametrize("key", ["0@1", "9@0", "nonsense", ""])
def test_an_unreadable_record_of_no_group_that_is_open_here_ends_nothing(key: str) -> None:
    feed = assembling(by(), opened("0@0", 2))
    assert feed(e.Undecodable(key, False)) == []
    assert list(feed.state.open) == [0]


def test_the_end_is_copied_to_filter_and_discards() -> None:
    feed = assembling(by(), partition=1)
    end = e.RunFinished(Outcome.COMPLETED, 3, 0)
    assert [(o.topic, o.partition, o.event) for o in feed.outputs(end)] == [
        (Topic.GROUPS, 1, end),
        (Topic.DISCARDS, 1, end),
    ]


def test_the_end_with_a_group_open_stops_the_assembler() -> None:
    with pytest.raises(InvariantBroken):
        assembling(by(), opened("0@0"))(e.RunFinished(Outcome.COMPLETED, 3, 0))


def test_an_event_of_another_topic_stops_the_assembler() -> None:
    with pytest.raises(InvariantBroken):
        assembling(by())(e.StopRequested("x", 0))


# --------------------------------------------------------------------------------- situations that users met


def test_a_wrong_id_never_makes_a_group_of_one() -> None:
    """Case 5 (c): a generator appended the slot to the group's id."""
    feed = assembling(by(), opened("7@0"))
    outputs = feed(*(scored(f"7@0-{slot}/{slot}.1") for slot in range(4)))
    assert [d.reason for d in only(outputs, e.ResponseDiscarded)] == [DiscardReason.UNKNOWN_GROUP] * 4
    assert wanted(feed(tick(LEASE))) == [(0, 1), (1, 1), (2, 1), (3, 1)]


def test_a_cancelled_rollout_is_asked_again_and_a_lost_one_costs_its_lease() -> None:
    """Case 23: every issued slot has an owner or a lease."""
    feed = assembling(by(), opened("0@0"), opened("1@0"))
    assert wanted(feed(failed("0@0/2.1", Failure.ABORTED))) == [(2, 2)]
    feed(*(scored(f"1@0/{slot}.1", float(slot)) for slot in range(3)))
    feed(*(scored(f"0@0/{slot}.1", float(slot)) for slot in (0, 1, 3)), scored("0@0/2.2"))
    assert list(feed.state.open) == [1]
    assert wanted(feed(tick(LEASE))) == [(3, 1)]
    (group, _) = feed(tick(2 * LEASE))
    assert group.reason is Reason.DEADLINE
    assert feed.state.open == {}


def test_a_payload_that_expired_is_a_failed_response() -> None:
    feed = assembling(by(), opened("0@0", 1))
    gone = replace(failed("0@0/0.1", Failure.PAYLOAD_EXPIRED), payload_key="key", payload_bytes=10)
    (discarded, again) = feed(gone)
    assert (discarded.payload_key, discarded.failure) == ("key", Failure.PAYLOAD_EXPIRED)
    assert isinstance(again, e.ResponsesRequested)


def test_sums_of_sizes_and_of_floats_do_not_depend_on_arrival() -> None:
    values = [0.1, 0.7, 0.2, 1e16]
    ways = []
    for order in ((0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)):
        feed = assembling(by(), opened("0@0"))
        (group,) = feed(*(scored(f"0@0/{slot}.1", values[slot]) for slot in order))
        ways.append((group.members, group.scores))
    assert ways[0] == ways[1] == ways[2]
    assert ways[0][1].reward_mean == fsum(values) / 4


def test_the_state_holds_nothing_of_closed_groups() -> None:
    feed = Feed(assembling(by()).stage)
    sizes = []
    for n in range(300):
        feed(opened(f"{n}@0", 1), scored(f"{n}@0/0.1"), tick(n))
        sizes.append((len(feed.state.open), sum(len(b) for b in feed.state.timers.values())))
    assert sizes[10] == sizes[-1] == (0, 0)
