"""Scheduling: the lead, the answers to ended groups, the budget, time, and the run's end."""

import math
from dataclasses import replace
from typing import Any

import pytest

from pipeline.domain import events as e
from pipeline.domain.ports import Issuable
from pipeline.domain.rules import EvaluationRules
from pipeline.domain.scheduling import Scheduler
from pipeline.domain.topology import InvariantBroken, Topic
from pipeline.domain.vocabulary import ExpiryReason, Outcome, Purpose, Reason, StarvationCause, WaiverReason

from .given import (
    EVAL,
    Feed,
    Source,
    accepted,
    expired,
    formed,
    only,
    opened_in,
    rejected,
    returned,
    rules,
    saved,
    skipped,
    started,
    tick,
)
from .given import trained as trained_on


def scheduling(prompts: int = 1000, exam: int = 0, too_long: Any = None, **changes: Any) -> Feed:
    """One domain of 2 groups a batch, a lead of 4, one partition, nothing opened beyond the lead."""
    r = rules(**{"partitions": 1, "filter_partitions": 1, "oversample_max": 1.0, **changes})
    source = Source(prompts, too_long) if too_long else Source(prompts)
    return Feed(Scheduler(r, source, Source(exam) if exam else None, ("exam",) if exam else ()))


def waived(events: list[e.Event]) -> list[tuple[str, WaiverReason]]:
    return [(w.group_id, w.reason) for w in only(events, e.ReplacementWaived)]


def answers(events: list[e.Event]) -> list[str | None]:
    return [p.replaces for p in only(events, e.PromptIssued)]


def evaluated(gid: str) -> e.GroupEvaluated:
    return e.GroupEvaluated(gid, e.PromptRef("x", "exam", 0, 0), EVAL, b"", 0, 1, 0, 0, 1.0, 0)


# ---------------------------------------------------------------------------------------------------------- opening


def test_nothing_is_opened_before_the_first_policy_is_known() -> None:
    feed = scheduling()
    assert feed(tick(), tick(at=5000)) == [e.Tick(0, 0), e.Tick(5000, 2000)]
    assert opened_in(feed(started())) == ["0@0", "1@0", "2@0", "3@0"]


def test_the_policy_is_published_before_the_prompts_that_ask_for_it() -> None:
    outputs = scheduling(partitions=2).outputs(started(1, 0))
    for partition in range(2):
        kinds = [type(o.event) for o in outputs if (o.topic, o.partition) == (Topic.PROMPTS, partition)]
        assert kinds[0] is e.PolicyPublished
        assert set(kinds[1:]) == {e.PromptIssued}


def test_a_group_is_opened_on_prompts_rollouts_and_ledger_and_only_there_without_its_task() -> None:
    outputs = scheduling(async_ratio=0.0, quotas={"maths": 1}).outputs(started())[-3:]
    issued, on_rollouts, on_ledger = (o.event for o in outputs)
    assert [o.topic for o in outputs] == [Topic.PROMPTS, Topic.ROLLOUTS, Topic.LEDGER]
    assert (issued.task, on_rollouts.task, on_ledger.task) == (b"maths 0", b"maths 0", None)  # type: ignore[attr-defined]


def test_a_forked_run_goes_on_with_the_prompts_after_those_of_its_origin_and_has_whole_passes_itself() -> None:
    r = rules(partitions=1, filter_partitions=1, oversample_max=1.0, async_ratio=2.0)
    feed = Feed(Scheduler(replace(r, domains=(replace(r.domains[0], drawn=9),)), Source(4), None))
    places = [(p.prompt.epoch, p.prompt.ordinal) for p in only(feed(started()), e.PromptIssued)]
    assert places == [(2, 1), (2, 2), (2, 3), (3, 0)]
    share = feed.state.shares["maths"]
    assert (share.drawn, share.drawn_this_step, share.exhausted) == (13, 4, True)


def test_later_trainers_change_nothing() -> None:
    feed = scheduling()
    feed(started(1, 0))
    assert feed(started(2, 0)) == []


def test_a_group_goes_to_the_partition_with_the_fewest_open_groups() -> None:
    feed = scheduling(partitions=3)
    assert opened_in(feed(started())) == ["0@0", "1@1", "2@2", "3@0"]
    feed(accepted("1@1"), accepted("2@2"))
    assert opened_in(feed(formed(1, "1@1", "2@2"), trained_on(1))) == ["4@1", "5@2"]


def test_domains_take_turns() -> None:
    feed = scheduling(quotas={"maths": 1, "code": 1}, async_ratio=1.0)
    assert [p.prompt.domain for p in only(feed(started()), e.PromptIssued)] == ["maths", "code", "maths", "code"]


def test_open_groups_have_a_cap_over_all_domains() -> None:
    assert len(opened_in(scheduling(max_open_groups=3)(started()))) == 3


def test_accepted_and_formed_groups_stay_in_the_lead_until_they_are_trained_on() -> None:
    """Case 27: 3 groups are open and 5 accepted; nothing is opened until the trainer takes a step."""
    feed = scheduling(quotas={"maths": 4})
    assert len(opened_in(feed(started()))) == 8
    assert opened_in(feed(*(accepted(f"{n}@0") for n in range(5)))) == []
    assert opened_in(feed(formed(1, "0@0", "1@0", "2@0", "3@0"))) == []
    assert opened_in(feed(tick(at=1000), started(2), tick(at=2000))) == []
    assert len(opened_in(feed(trained_on(1)))) == 4
    assert opened_in(feed(saved(1, 1))) == []


def test_groups_beyond_the_last_step_are_not_opened() -> None:
    feed = scheduling(steps=2)
    feed(started())
    for n in range(2):
        feed(accepted(f"{n}@0"))
    assert opened_in(feed(formed(1, "0@0", "1@0"), trained_on(1))) == []


@pytest.mark.parametrize(("ratio", "lead"), [(0.0, 3), (0.5, 5), (1.0, 6), (2.0, 9)])
def test_the_lead_is_a_batch_and_the_asynchronous_part_of_one_rounded_up(ratio: float, lead: int) -> None:
    assert len(opened_in(scheduling(quotas={"maths": 3}, async_ratio=ratio)(started()))) == lead


def test_where_many_are_rejected_more_are_opened_up_to_the_factor() -> None:
    feed = scheduling(oversample_max=2.0)
    feed(started())
    for n in range(30):
        feed(rejected(f"{n}@0"))
    assert feed.state.open_training() == 8


def test_only_a_filters_verdict_moves_the_acceptance() -> None:
    feed = scheduling()
    feed(started(), rejected("0@0", Reason.DEADLINE, filter="assembler"))
    feed(rejected("1@0", Reason.RESPONSE_RETRIES_EXHAUSTED, filter="assembler"))
    assert feed.state.shares["maths"].acceptance == 1.0
    feed(rejected("2@0"))
    assert feed.state.shares["maths"].acceptance == 0.9


# --------------------------------------------------------------------------------------------------- payload budget


def test_ahead_of_the_next_batch_groups_are_opened_only_within_the_budget() -> None:
    each = 4 * 1000
    assert len(opened_in(scheduling(payload_budget=3 * each)(started()))) == 3
    assert len(opened_in(scheduling(payload_budget=0)(started()))) == 2


def test_once_sizes_are_known_more_fits_into_the_budget() -> None:
    feed = scheduling(payload_budget=12_000, async_ratio=2.0)
    assert len(opened_in(feed(started()))) == 3
    assert len(opened_in(feed(accepted("0@0", payload=100)))) == 3


def test_the_size_of_a_rejected_group_is_known_too() -> None:
    feed = scheduling(payload_budget=12_000, async_ratio=2.0)
    assert len(opened_in(feed(started()))) == 3
    assert len(opened_in(feed(rejected("0@0")))) == 4


def test_trained_payloads_are_held_until_a_checkpoint_covers_them() -> None:
    feed = scheduling()
    feed(started(), accepted("0@0"), accepted("1@0"), formed(1, "0@0", "1@0"), trained_on(1))
    assert feed.state.held_bytes == 800
    feed(saved(1, 1))
    assert (feed.state.held_bytes, feed.state.batches) == (0, {})


# -------------------------------------------------------------------------------------------------- ended groups


def test_a_rejection_is_answered_by_the_next_prompt_in_its_line() -> None:
    feed = scheduling()
    feed(started())
    (issued,) = only(feed(rejected("1@0")), e.PromptIssued)
    assert (issued.replaces, issued.root, issued.attempt, issued.prompt.ordinal) == ("1@0", "1@0", 2, 4)
    (again,) = only(feed(rejected("4@0")), e.PromptIssued)
    assert (again.replaces, again.root, again.attempt) == ("4@0", "1@0", 3)


@pytest.mark.parametrize("replacement", ["same_prompt", "new_seed"])
def test_a_rejection_may_be_answered_by_the_same_prompt_with_another_seed(replacement: str) -> None:
    feed = scheduling(replacement=replacement)
    first = only(feed(started()), e.PromptIssued)[1]
    (issued,) = only(feed(rejected("1@0")), e.PromptIssued)
    assert issued.prompt == first.prompt
    assert issued.seed != first.seed


def test_a_line_has_a_highest_number_of_attempts() -> None:
    feed = scheduling(max_attempts=2)
    feed(started(), rejected("0@0"))
    outputs = feed(rejected("4@0"))
    assert waived(outputs) == [("4@0", WaiverReason.ATTEMPTS_EXHAUSTED)]
    assert answers(outputs) == [None]  # the room is there: another line begins


def test_without_room_the_answer_is_surplus() -> None:
    feed = scheduling(oversample_max=2.0)
    feed(started())
    feed(*(rejected(f"{n}@0") for n in range(8)))
    more = [g for g, live in feed.state.live.items()]
    feed(*(accepted(gid) for gid in more[:3]))
    assert waived(feed(rejected(more[3]))) == [(more[3], WaiverReason.SURPLUS)]


def test_what_nobody_needs_is_surplus_also_after_the_last_attempt() -> None:
    feed = scheduling(oversample_max=2.0, max_attempts=1)
    feed(started())
    assert waived(feed(rejected("0@0"))) == [("0@0", WaiverReason.ATTEMPTS_EXHAUSTED)]
    *enough, one_more = feed.state.live
    feed(*map(accepted, enough))
    assert len(enough) == 4
    assert waived(feed(rejected(one_more))) == [(one_more, WaiverReason.SURPLUS)]


def test_an_expired_group_is_answered_by_its_prompt_again() -> None:
    feed = scheduling()
    feed(started(), accepted("0@0"))
    (issued,) = only(feed(expired("0@0")), e.PromptIssued)
    assert (issued.replaces, issued.prompt.ordinal) == ("0@0", 0)


def test_a_group_of_a_returned_batch_is_accepted_again_and_a_lost_one_answered() -> None:
    feed = scheduling()
    feed(started(), accepted("0@0"), accepted("1@0"), formed(1, "0@0", "1@0"))
    assert feed(returned(1, "0@0")) == []
    assert answers(feed(expired("0@0", ExpiryReason.PAYLOAD_MISSING))) == ["0@0"]
    assert feed.state.shares["maths"].pool == 1


def test_a_step_that_is_returned_is_taken_back() -> None:
    feed = scheduling()
    feed(started(), accepted("0@0"), accepted("1@0"), formed(1, "0@0", "1@0"), trained_on(1))
    assert feed.state.steps_done == 1
    feed(returned(1, trained=True))
    assert feed.state.steps_done == 0
    assert feed.state.shares["maths"].pool == 2


def test_an_ending_of_a_group_that_is_not_open_stops_the_scheduler() -> None:
    feed = scheduling()
    feed(started())
    for event in (rejected("9@0"), accepted("9@0")):
        with pytest.raises(InvariantBroken):
            feed(event)


def test_a_second_unreadable_copy_of_an_ended_group_is_nothing() -> None:
    feed = scheduling()
    feed(started(), rejected("0@0"))
    assert feed(rejected("0@0", Reason.UNDECODABLE)) == []


# -------------------------------------------------------------------------------------------------------- the source


def test_prompts_are_drawn_in_order_and_a_pass_begins_again_with_the_next_step() -> None:
    feed = scheduling(prompts=3, steps=9)
    places = [(p.prompt.epoch, p.prompt.ordinal) for p in only(feed(started()), e.PromptIssued)]
    assert places == [(0, 0), (0, 1), (0, 2)]
    feed(accepted("0@0"), accepted("1@0"), formed(1, "0@0", "1@0"))
    places = [(p.prompt.epoch, p.prompt.ordinal) for p in only(feed(trained_on(1)), e.PromptIssued)]
    assert places == [(1, 0), (1, 1), (1, 2)]


def test_a_prompt_that_is_too_long_is_skipped_and_said_so() -> None:
    outputs = scheduling(too_long=lambda ordinal: ordinal in (0, 2))(started())
    assert [s.prompt.ordinal for s in only(outputs, e.PromptSkipped)] == [0, 2]
    assert [p.prompt.ordinal for p in only(outputs, e.PromptIssued)] == [1, 3, 4, 5]


def test_a_prompt_that_is_too_long_may_end_the_run() -> None:
    changes: dict[str, Any] = {"too_long": lambda ordinal: ordinal == 2}
    r = rules(partitions=1, too_long="error")
    outputs = Feed(Scheduler(r, Source(9, changes["too_long"]), None))(started())
    assert [c.group_id for c in only(outputs, e.GroupCancelled)] == ["0@0", "1@0"]
    assert only(outputs, e.RunClosing)[0].outcome is Outcome.FAILED


def test_a_source_of_prompts_that_are_all_too_long_ends_the_run() -> None:
    feed = scheduling(prompts=5, too_long=lambda ordinal: True)
    outputs = feed(started())
    assert len(only(outputs, e.PromptSkipped)) == 5
    assert [s.cause for s in only(outputs, e.StarvationRaised)] == [StarvationCause.SOURCE_EXHAUSTED]
    assert only(feed(skipped(1)), e.RunFinished)[0].outcome is Outcome.COMPLETED


def test_the_answer_to_a_group_after_the_last_prompt_is_that_there_is_none() -> None:
    feed = scheduling(prompts=4)
    feed(started())
    assert waived(feed(rejected("0@0"))) == [("0@0", WaiverReason.SOURCE_EXHAUSTED)]


def solved(gid: str, rate: float = 1.0) -> e.GroupRejected:
    """A rejection of a group of which this share was right."""
    return replace(rejected(gid), scores=e.Scores(rate, 0.0, 4 * rate, 20.0, None, None))


def kept(gid: str) -> e.GroupAccepted:
    """An acceptance of a group of which half was right."""
    return replace(accepted(gid), scores=e.Scores(0.5, 0.5, 2.0, 20.0, None, None))


class Named(Source):
    """Prompts that keep their ids from pass to pass."""

    def at(self, domain: str, ordinal: int, epoch: int) -> Issuable:
        return replace(super().at(domain, ordinal, epoch), id=f"p{ordinal}")


def passes(prompts: int, least: float | None) -> Feed:
    """A batch of 2 and a lead of 2 over few prompts."""
    r = rules(partitions=1, oversample_max=1.0, async_ratio=0.0, prefetch=0, steps=9, exclude_above_pass_rate=least)
    return Feed(Scheduler(r, Named(prompts), None))


def ordinals(events: list[e.Event]) -> list[int]:
    return [p.prompt.ordinal for p in only(events, e.PromptIssued)]


def test_a_solved_prompt_is_left_out_of_later_passes_and_said_so() -> None:
    feed = passes(4, 0.75)
    assert ordinals(feed(started())) == [0, 1]
    assert ordinals(feed(solved("0@0", 0.75), solved("1@0", 0.5))) == [2, 3]
    feed(kept("2@0"), kept("3@0"), formed(1, "2@0", "3@0"))
    later = feed(trained_on(1))
    assert ordinals(later) == [1, 2]
    (skipped_one,) = only(later, e.PromptSkipped)
    assert (skipped_one.prompt.id, skipped_one.prompt.epoch) == ("p0", 1)
    assert skipped_one.detail == "solved: pass rate 0.75, exclude_above_pass_rate 0.75"


def test_an_accepted_group_may_solve_its_prompt_too() -> None:
    feed = passes(4, 0.25)
    feed(started(), accepted("0@0"))
    assert feed.state.shares["maths"].solved == {"p0": 1.5}


def test_a_mean_that_is_no_number_solves_nothing() -> None:
    feed = passes(4, 0.25)
    feed(started(), solved("0@0", math.nan))
    assert feed.state.shares["maths"].solved == {}


def test_without_the_setting_no_prompt_is_left_out() -> None:
    feed = passes(2, None)
    feed(started(), solved("0@0"), solved("1@0"))
    assert feed.state.shares["maths"].solved == {}


def test_where_all_prompts_are_solved_the_run_ends_and_says_so() -> None:
    feed = passes(4, 0.9)
    feed(started(), solved("0@0"), solved("1@0"), kept("2@0"), kept("3@0"), formed(1, "2@0", "3@0"))
    assert ordinals(feed(trained_on(1))) == [2, 3]
    outputs = feed(solved("4@0"), solved("5@0"))
    (raised,) = only(outputs, e.StarvationRaised)
    assert raised.cause is StarvationCause.SOURCE_EXHAUSTED
    assert "4 solved ones are left out (exclude_above_pass_rate)" in raised.advice
    assert only(feed(skipped(2)), e.RunClosing)[0].outcome is Outcome.COMPLETED


class Changing(Source):
    """Each pass has prompts, and ids, of its own."""

    def at(self, domain: str, ordinal: int, epoch: int) -> Issuable:
        return replace(super().at(domain, ordinal, epoch), id=f"{domain}:{epoch}.{ordinal}")


def test_as_many_solved_prompts_are_remembered_as_a_pass_has() -> None:
    r = rules(partitions=1, oversample_max=1.0, steps=99, exclude_above_pass_rate=0.9)
    feed = Feed(Scheduler(r, Changing(3), None))
    feed(started())
    for step in range(1, 9):
        first, second, *rest = [gid for gid, live in feed.state.live.items() if live.phase == "open"]
        feed(accepted(first), accepted(second), *map(solved, rest), formed(step, first, second), trained_on(step))
        assert len(feed.state.shares["maths"].solved) <= 3


# ---------------------------------------------------------------------------------------------------------------- time


def test_run_time_is_wall_time_without_pauses_and_without_steps_back() -> None:
    feed = scheduling(partitions=2)
    clock = [1_000_000, 1_001_000, 1_001_000, 900_000, 901_000, 9_000_000]
    outputs = feed(*(tick(at=at) for at in clock))
    assert [t.run_ms for t in outputs] == [n for n in (0, 1000, 1000, 1000, 2000, 4000) for _ in range(2)]


# ---------------------------------------------------------------------------------------------------------- evaluation


def test_the_first_evaluation_comes_before_any_training_group() -> None:
    feed = scheduling(exam=3, evaluation=EvaluationRules(2, 1, 2, 0))
    outputs = feed(started())
    assert [p.purpose for p in only(outputs, e.PromptIssued)] == [Purpose.EVAL, Purpose.EVAL]
    assert only(outputs, e.EvaluationStarted)[0].groups == 3
    assert opened_in(feed(evaluated("0@0"))) == ["2@0"]
    assert opened_in(feed(evaluated("1@0"))) == []
    outputs = feed(evaluated("2@0"))
    (finished,) = only(outputs, e.EvaluationFinished)
    assert (finished.graded, finished.mean_reward, finished.cut) == (3, 1.0, False)
    assert [p.purpose for p in only(outputs, e.PromptIssued)] == [Purpose.TRAIN] * 4


def test_evaluation_groups_count_in_no_lead() -> None:
    feed = scheduling(exam=1, evaluation=EvaluationRules(1, 1, 2, 0))
    feed(started(), evaluated("0@0"), accepted("1@0"), accepted("2@0"), formed(1, "1@0", "2@0"))
    outputs = feed(trained_on(1))
    assert [p.purpose for p in only(outputs, e.PromptIssued)] == [Purpose.EVAL, Purpose.TRAIN, Purpose.TRAIN]


def test_an_evaluation_waits_for_the_one_before_it() -> None:
    feed = scheduling(exam=2, evaluation=EvaluationRules(1, 1, 1, 0), steps=9)
    feed(started(), evaluated("0@0"), evaluated("1@0"))
    for batch in (1, 2):
        first, second = sorted(
            g for g, live in feed.state.live.items() if live.purpose is Purpose.TRAIN and live.phase == "open"
        )[:2]
        feed(accepted(first), accepted(second), formed(batch, first, second), trained_on(batch))
    assert [(ev.step, ev.opened) for ev in feed.state.evaluations] == [(1, 1), (2, 0)]


def test_an_evaluation_is_started_once_also_when_its_step_comes_again() -> None:
    feed = scheduling(exam=1, evaluation=EvaluationRules(1, 1, 1, 0), steps=9)
    feed(started(), evaluated("0@0"), accepted("1@0"), accepted("2@0"), formed(1, "1@0", "2@0"))
    assert len(only(feed(trained_on(1)), e.EvaluationStarted)) == 1
    assert only(feed(returned(1, trained=True), formed(2, "1@0", "2@0")), e.EvaluationStarted) == []
    assert only(feed(trained_on(2)), e.EvaluationStarted) == []


def test_the_last_evaluation_comes_before_the_end() -> None:
    feed = scheduling(exam=1, evaluation=EvaluationRules(5, 1, 1, 0), steps=1, async_ratio=0.0)
    feed(started(), evaluated("0@0"), accepted("1@0"), accepted("2@0"), formed(1, "1@0", "2@0"), saved(1, 1))
    outputs = feed(trained_on(1))
    assert [s.step for s in only(outputs, e.EvaluationStarted)] == [1]
    assert only(outputs, e.RunClosing) == []
    (gid,) = opened_in(outputs)
    last = feed(e.GroupEvaluated(gid, e.PromptRef("x", "exam", 0, 0), e.EvalRef(1, 1, "", ""), b"", 0, 1, 0, 0, 0.0, 0))
    assert [type(o).__name__ for o in last] == ["EvaluationFinished", "RunClosing", "RunFinished", "RunFinished"]


def test_a_skipped_step_is_a_step_for_evaluation() -> None:
    feed = scheduling(exam=1, evaluation=EvaluationRules(1, 1, 1, 0), steps=9)
    feed(started(), evaluated("0@0"))
    assert [s.step for s in only(feed(skipped(1)), e.EvaluationStarted)] == [1]


def test_an_unfinished_evaluation_is_cut_when_the_run_closes() -> None:
    feed = scheduling(exam=3, evaluation=EvaluationRules(2, 1, 2, 0))
    feed(started(), evaluated("0@0"))
    outputs = feed(e.StopRequested("me", 0))
    (cut,) = only(outputs, e.EvaluationFinished)
    assert (cut.cut, cut.graded) == (True, 1)
    assert [c.group_id for c in only(outputs, e.GroupCancelled)] == ["1@0", "2@0"]


# ------------------------------------------------------------------------------------------------------------- the end


def test_a_run_that_is_stopped_cancels_what_is_open_and_waives_what_ends() -> None:
    feed = scheduling()
    feed(started(), accepted("0@0"))
    outputs = feed(e.StopRequested("me", 0))
    assert only(outputs, e.RunClosing)[0].outcome is Outcome.STOPPED
    assert [c.group_id for c in only(outputs, e.GroupCancelled)] == ["1@0", "2@0", "3@0"]
    ended = feed(*(expired(f"{n}@0", ExpiryReason.RUN_OVER) for n in range(4)))
    assert waived(ended) == [(f"{n}@0", WaiverReason.RUN_COMPLETE) for n in range(4)]
    assert [type(o).__name__ for o in ended[-2:]] == ["RunFinished", "RunFinished"]


def test_the_first_reason_to_end_is_the_outcome() -> None:
    feed = scheduling()
    feed(started())
    feed(e.StopRequested("me", 0))
    assert only(feed(e.StageFailed("scorer", None, "x", 0)), e.RunClosing) == []
    assert feed.state.closing is Outcome.STOPPED


def test_a_run_stopped_before_it_began_is_finished_at_once() -> None:
    outputs = scheduling(partitions=2)(e.StopRequested("me", 0))
    assert [type(o).__name__ for o in outputs] == ["RunClosing", "RunFinished", "RunFinished", "RunFinished"]


def test_a_run_waits_for_the_checkpoint_of_its_last_batch() -> None:
    """Case 21: after the last step no prompt is issued, and the end comes once everything is accounted for."""
    feed = scheduling(steps=1, async_ratio=0.0)
    feed(started(), accepted("0@0"), accepted("1@0"), formed(1, "0@0", "1@0"))
    outputs = feed(trained_on(1))
    assert [type(o).__name__ for o in outputs] == ["PolicyPublished", "RunClosing"]
    outputs = feed(saved(1, 1))
    assert [(o.outcome, o.steps) for o in only(outputs, e.RunFinished)] == [(Outcome.COMPLETED, 1)] * 2


def test_after_the_end_nothing_is_decided_any_more() -> None:
    """Case 21 (c): a resume of a finished run issues nothing."""
    feed = scheduling()
    feed(e.StopRequested("me", 0))
    assert feed(started(1), tick(at=10**7), e.StopRequested("me", 0), started(2)) == []


def test_a_failed_stage_ends_the_run_as_failed() -> None:
    feed = scheduling()
    feed(started())
    closing = only(feed(e.StageFailed("filter", None, "custom filter raised", 0)), e.RunClosing)[0]
    assert (closing.outcome, closing.detail) == (Outcome.FAILED, "filter: custom filter raised")


def test_the_cursor_is_that_of_the_log_not_of_the_checkpoint() -> None:
    """Case 25: prompts drawn ahead of the checkpoint are neither skipped nor drawn again by a scheduler that folds
    the log anew."""
    feed, again = scheduling(steps=5), scheduling(steps=5)
    history: list[e.Event] = [started(), accepted("0@0"), accepted("1@0"), formed(1, "0@0", "1@0"), trained_on(1)]
    history += [saved(1, 1), accepted("2@0"), rejected("3@0")]
    feed(*history)
    again(*history)
    assert again.state == feed.state
    drawn = [live.prompt.ordinal for live in feed.state.live.values()]
    assert sorted([*drawn, 0, 1, 3]) == list(range(7))
    later: list[e.Event] = [accepted("4@0"), formed(2, "2@0", "4@0"), trained_on(2)]
    assert feed(*later) == again(*later)
