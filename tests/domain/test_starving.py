"""Starvation, short batches and the end of a source: scheduler and batcher together."""

import re
from dataclasses import replace

import pytest

from pipeline.domain import events as e
from pipeline.domain.advice import advice, kind_of
from pipeline.domain.batching import Batcher
from pipeline.domain.rules import EvaluationRules, StarvationRules
from pipeline.domain.run_state import Share
from pipeline.domain.scheduling import Scheduler
from pipeline.domain.starvation import note_rejected, note_verdict
from pipeline.domain.vocabulary import (
    ConstantClass,
    Outcome,
    Reason,
    ShortReason,
    StarvationCause,
    StarvationPolicy,
)

from .given import (
    Feed,
    Source,
    accepted,
    formed,
    only,
    opened_in,
    rejected,
    returned,
    rules,
    skipped,
    started,
    starved,
    tick,
)
from .given import trained as trained_on

SHORT = StarvationRules(StarvationPolicy.SHORT_BATCH, 2, 0.0, 0, 0)


def scheduling(prompts: int = 100, **changes: object) -> Feed:
    return Feed(Scheduler(rules(partitions=1, **changes), Source(prompts), None))


def evaluated(gid: str, step: int) -> e.GroupEvaluated:
    """The answer of an evaluation's only group, asked after so many steps."""
    return e.GroupEvaluated(gid, e.PromptRef("x", "exam", 0, 0), e.EvalRef(step, step, "", ""), b"", 0, 1, 0, 0, 1.0, 0)


def test_one_short_batch_is_asked_for_until_the_batcher_answers() -> None:
    feed = scheduling(starvation=SHORT)
    groups = opened_in(feed(started()))
    raised = only(feed(*map(rejected, groups)), e.StarvationRaised)
    assert len(groups) == 4
    assert [r.cause for r in raised] == [StarvationCause.REJECTIONS_IN_A_ROW]
    opened = opened_in(feed(skipped(1)))
    assert opened == []  # the replacements of the four are open
    assert len(only(feed(rejected("4@0"), rejected("5@0")), e.StarvationRaised)) == 1


def test_the_end_of_the_source_waits_for_the_answer_to_a_short_batch() -> None:
    feed = scheduling(prompts=4, starvation=SHORT)
    groups = opened_in(feed(started()))
    raised = only(feed(*map(rejected, groups)), e.StarvationRaised)
    assert [r.cause for r in raised] == [StarvationCause.REJECTIONS_IN_A_ROW]
    assert len(opened_in(feed(skipped(1)))) == 4  # the next step passes the source again


def test_a_short_batch_is_not_formed_while_another_batch_is_untrained() -> None:
    feed = Feed(Batcher(rules(prefetch=1)))
    assert len(only(feed(*(accepted(f"{n}@0") for n in range(3))), e.BatchFormed)) == 1
    assert feed(starved()) == []
    assert feed(starved(StarvationCause.SOURCE_EXHAUSTED)) == []


def test_without_an_accepted_group_the_step_is_skipped_once() -> None:
    feed = Feed(Batcher(rules()))
    assert len(only(feed(starved()), e.BatchSkipped)) == 1


def test_a_short_batch_says_why() -> None:
    feed = Feed(Batcher(rules()))
    feed(accepted("0@0"))
    (batch,) = feed(starved(StarvationCause.SOURCE_EXHAUSTED))
    assert isinstance(batch, e.BatchFormed)
    assert batch.short is ShortReason.SOURCE_EXHAUSTED


def test_a_run_out_of_prompts_ends_although_a_trained_batch_was_returned_after_the_last_call() -> None:
    feed = scheduling(prompts=3, steps=9)
    feed(started())
    feed(accepted("0@0"), accepted("1@0"), formed(1, "0@0", "1@0"), trained_on(1))
    for _ in range(9):
        for gid in [g for g, live in feed.state.live.items() if live.phase == "open"]:
            feed(rejected(gid))
    assert feed.state.last_call == 1
    feed(returned(1, trained=True), formed(2, "0@0", "1@0"))
    assert only(feed(trained_on(2)), e.RunClosing)[0].outcome is Outcome.COMPLETED


def test_what_a_starved_run_raises_ends_it() -> None:
    feed = scheduling(starvation=replace(SHORT, policy=StarvationPolicy.RAISE))
    groups = opened_in(feed(started()))
    outputs = feed(*map(rejected, groups))
    assert [r.policy for r in only(outputs, e.StarvationRaised)] == [StarvationPolicy.RAISE]
    assert only(outputs, e.RunClosing)[0].outcome is Outcome.STARVED


# ----------------------------------------------------------------------------------------------- each policy and bound

WAIT = replace(SHORT, policy=StarvationPolicy.WAIT)
RAISE = replace(SHORT, policy=StarvationPolicy.RAISE)
IDLE = StarvationRules(StarvationPolicy.RAISE, 0, 0.0, 0, 3_000)


def test_who_waits_is_told_again_after_as_many_rejections_and_goes_on() -> None:
    feed = scheduling(starvation=WAIT)
    feed(started())
    told = [len(only(feed(rejected(f"{n}@0")), e.StarvationRaised)) for n in range(6)]
    assert told == [0, 1, 0, 1, 0, 1]
    assert feed.state.closing is None
    assert len([live for live in feed.state.live.values() if live.phase == "open"]) > 0


def test_an_accepted_group_ends_a_row_of_rejections() -> None:
    feed = scheduling(starvation=RAISE)
    feed(started())
    assert only(feed(rejected("0@0"), accepted("1@0"), rejected("2@0")), e.StarvationRaised) == []
    assert len(only(feed(rejected("3@0")), e.StarvationRaised)) == 1


def test_rejections_are_not_counted_while_the_trainer_has_a_batch() -> None:
    feed = scheduling(starvation=RAISE)
    feed(started(), accepted("0@0"), accepted("1@0"), formed(1, "0@0", "1@0"))
    assert only(feed(*(rejected(f"{n}@0") for n in range(2, 6))), e.StarvationRaised) == []


def test_an_acceptance_is_too_low_only_in_a_whole_window() -> None:
    feed = scheduling(starvation=StarvationRules(StarvationPolicy.RAISE, 0, 0.5, 4, 0), quotas={"maths": 4})
    feed(started(), accepted("0@0"))
    assert only(feed(rejected("1@0"), rejected("2@0")), e.StarvationRaised) == []
    (raised,) = only(feed(rejected("3@0")), e.StarvationRaised)
    assert (raised.cause, raised.accepted, raised.low_information) == (StarvationCause.LOW_ACCEPTANCE, 1, 3)
    assert raised.advice.startswith("1 of the last 4 groups were accepted, under starvation.min_acceptance; ")


def test_an_acceptance_is_of_the_newest_groups_alone() -> None:
    feed = scheduling(starvation=StarvationRules(StarvationPolicy.RAISE, 0, 0.5, 4, 0), quotas={"maths": 6})
    feed(started())
    outputs = feed(accepted("0@0"), accepted("1@0"), rejected("2@0"), rejected("3@0"))
    assert only(outputs, e.StarvationRaised) == []
    assert [r.cause for r in only(feed(rejected("4@0")), e.StarvationRaised)] == [StarvationCause.LOW_ACCEPTANCE]


def test_time_without_progress_is_run_time_with_a_group_open() -> None:
    feed = scheduling(starvation=IDLE)
    feed(tick(at=0), tick(at=60_000), started())
    for at in range(61_000, 63_000, 1000):
        assert only(feed(tick(at=at)), e.StarvationRaised) == []
    (raised,) = only(feed(tick(at=63_000)), e.StarvationRaised)
    assert raised.cause is StarvationCause.NO_PROGRESS
    assert raised.advice == (
        "no group was accepted in 3 s of run time (starvation.no_progress); no group was rejected, so this is no lack "
        "of signal: look at generators and scorers (tamis status)"
    )


def test_time_of_an_evaluation_is_no_time_without_progress() -> None:
    made = rules(partitions=1, starvation=IDLE, evaluation=EvaluationRules(1, 1, 1, 0), steps=9)
    feed = Feed(Scheduler(made, Source(100), Source(1), ("exam",)))
    (exam,) = opened_in(feed(started()))
    first, second = opened_in(feed(evaluated(exam, 0)))[:2]
    feed(accepted(first), accepted(second), formed(1, first, second), tick(at=0))
    (again, *_) = opened_in(feed(trained_on(1)))
    assert feed.state.evaluations and feed.state.open_training() > 0
    assert only(feed(*(tick(at=at) for at in range(1_000, 9_000, 1000))), e.StarvationRaised) == []
    feed(evaluated(again, 1))
    assert only(feed(tick(at=9_000), tick(at=10_000)), e.StarvationRaised) == []
    assert len(only(feed(tick(at=11_000)), e.StarvationRaised)) == 1


def test_an_accepted_group_is_progress() -> None:
    feed = scheduling(starvation=IDLE)
    feed(started(), tick(at=0), tick(at=1_000), tick(at=2_000), accepted("0@0"))
    assert only(feed(tick(at=3_000), tick(at=4_000)), e.StarvationRaised) == []
    assert len(only(feed(tick(at=5_000)), e.StarvationRaised)) == 1


def test_a_group_that_ends_by_the_machinery_counts_in_time_alone() -> None:
    feed = scheduling(starvation=RAISE)
    feed(started())
    for n in range(5):
        assert only(feed(rejected(f"{n}@0", Reason.DEADLINE, filter="assembler")), e.StarvationRaised) == []


# -------------------------------------------------------------------------------------------------------- what is said


def told(*rejections: e.GroupRejected, cause: StarvationCause = StarvationCause.REJECTIONS_IN_A_ROW) -> str:
    """The advice after these rejections, without what triggered it."""
    share = Share()
    for event in rejections:
        note_rejected(share, event)
    return advice(share, cause).partition("; ")[2]


def lost(reason: Reason = Reason.RESPONSE_RETRIES_EXHAUSTED, **measured: float) -> e.GroupRejected:
    """What an assembler rejects."""
    return replace(rejected("0@0", reason, filter="assembler"), measurements=measured, detail="the judge is down")


def constant(kind: ConstantClass) -> e.GroupRejected:
    return replace(rejected("0@0"), constant_class=kind)


def bounded(reason: Reason, measured: float, threshold: float) -> e.GroupRejected:
    return replace(rejected("0@0", reason), measured=measured, threshold=threshold)


def test_an_outage_is_told_as_one_and_never_as_lack_of_signal() -> None:
    ways = [
        lost(ungraded=5.0),
        lost(timeout=1.0, ungraded=3.0, silent=1.0),
        lost(Reason.DEADLINE, ungraded=4.0, silent=1.0),
        rejected("0@0", Reason.UNGRADED),
    ]
    for way in ways:
        text = told(way)
        assert text.startswith(
            "1 of 1 rejected groups had responses that no verifier judged: an outage, no lack of signal"
        )
        assert "easier" not in text and "harder" not in text
    assert told(ways[0]).endswith("the last that nobody judged: the judge is down")
    shares = Share()
    for way in ways:
        note_rejected(shares, way)
    assert (shares.invalid, shares.low_information, shares.system) == (3, 0, 1)


def test_a_metric_that_no_verifier_gives_is_told_as_that_and_not_as_an_outage() -> None:
    detail = "slot 0 was judged and has no number 'exactt'; known: reward, raw, exact"
    event = replace(rejected("0@0", Reason.UNGRADED, filter="zero_std"), metric="exactt", detail=detail)
    text = told(event, event)
    assert text.startswith("2 of 2 rejected groups had responses that were judged and lack the number")
    assert text.endswith(f"the last that lacks its number: {detail}")
    assert "metric" in text and "no verifier judged" not in text and "timeout_s" not in text
    of_an_older_filter = told(replace(event, detail=None))
    assert "no verifier judged" in of_an_older_filter and "lacks its number" not in of_an_older_filter
    counted_as_zero = told(replace(event, measured=0.0, detail="3 of 4 rewards are unknown, counted as 0"))
    assert "no verifier judged" in counted_as_zero
    assert told(event, lost(ungraded=5.0), event).endswith("the last that nobody judged: the judge is down")


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (lost(Reason.DEADLINE, silent=4.0), "generators or scorers are away"),
        (lost(env_failed=5.0, ungraded=1.0), "the generators' log"),
        (lost(too_long=5.0), "raise payload.max"),
        (lost(payload_expired=5.0), "raise payload.ttl"),
        (lost(filtered=3.0, timeout=2.0), "response_filter"),
        (rejected("0@0", Reason.UNDECODABLE), "dead-letters"),
        (constant(ConstantClass.ALL_ZERO), "too hard"),
        (constant(ConstantClass.ALL_MAX), "exclude_above_pass_rate"),
        (constant(ConstantClass.CONSTANT), "smaller tol"),
        (rejected("0@0", Reason.MEAN_LOW), "too hard"),
        (rejected("0@0", Reason.MEAN_HIGH), "too easy"),
        (bounded(Reason.BAND, 0.1, 0.2), "too hard"),
        (bounded(Reason.BAND, 0.9, 0.8), "too easy"),
        (rejected("0@0", Reason.STD), "std_threshold"),
        (rejected("0@0", Reason.CUSTOM), "custom filter"),
        (rejected("0@0", Reason.FILTER_ERROR), "on_error"),
        (rejected("0@0", Reason.NON_FINITE_REWARD), "mend the verifier"),
        (rejected("0@0", Reason.DROP_FLAG), "environment"),
        (rejected("0@0", Reason.ABORTED), "the generators' log"),
        (rejected("0@0", Reason.PROVENANCE), "one_version"),
        (rejected("0@0", Reason.INSUFFICIENT_FINISHED_RESPONSES), "token limit"),
    ],
)  # fmt: skip
def test_each_cause_has_its_own_advice(event: e.GroupRejected, words: str) -> None:
    assert words in told(event)


def test_every_reason_of_a_rejection_is_a_known_cause() -> None:
    named = [reason for reason in Reason if reason not in (Reason.ZERO_STD, Reason.BAND)]
    unknown = [reason for reason in named if kind_of(rejected("0@0", reason)) == "other"]
    assert unknown == [Reason.FORMAT, Reason.RESPONSE_RETRIES_EXHAUSTED]  # nobody writes the one; the other has counts


def test_the_advice_counts_by_cause_the_most_frequent_first() -> None:
    wrong, right = constant(ConstantClass.ALL_ZERO), constant(ConstantClass.ALL_MAX)
    parts = told(right, wrong, lost(ungraded=2.0), wrong).split("; ")
    assert [re.match(r"\d of 4", part) and part[0] for part in parts[:3]] == ["2", "1", "1"]
    assert "too hard" in parts[0] and "no verifier judged" in parts[1] and "too easy" in parts[2]


def test_a_batch_makes_the_counts_begin_anew() -> None:
    share = Share(idle_ms=7)
    for event in (lost(ungraded=2.0), lost(Reason.DEADLINE, silent=4.0), constant(ConstantClass.ALL_ZERO)):
        note_rejected(share, event)
        note_verdict(share, False, StarvationRules(StarvationPolicy.RAISE, 9, 0.5, 4, 0))
    share.accepted = 1
    share.progressed()
    assert share == Share()
