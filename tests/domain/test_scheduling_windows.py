"""The scheduler of a run with a selection: windows make up the lead, and each deselected group has one answer."""

from __future__ import annotations

from typing import Any

from pipeline.domain import events as e
from pipeline.domain.lifecycle import Ledger
from pipeline.domain.rules import EvaluationRules, SelectionSettings
from pipeline.domain.scheduling import Scheduler
from pipeline.domain.selection import SelectionRules
from pipeline.domain.vocabulary import (
    ExpiryReason,
    Outcome,
    SkipReason,
    StarvationCause,
    StarvationPolicy,
    WaiverReason,
)

from .given import (
    MEMBERS,
    Feed,
    Source,
    accepted,
    expired,
    formed,
    only,
    opened,
    opened_in,
    returned,
    rules,
    saved,
    started,
    starved,
)
from .given import trained as trained_on


def settings(window: int, refill: bool) -> SelectionSettings:
    return SelectionSettings(window, refill, "none", False, SelectionRules(), False, None)


def scheduling(window: int, refill: bool, **changes: Any) -> tuple[Feed, list[str]]:
    """One domain of 2 groups a batch; the groups opened by the first policy."""
    feed = Feed(
        Scheduler(rules(steps=9, oversample_max=1.0, selection=settings(window, refill), **changes), Source(99), None)
    )
    return feed, opened_in(feed(started()))


def deselected(gid: str, window: int = 1) -> e.GroupDeselected:
    return e.GroupDeselected(gid, "maths", MEMBERS.encode(()), 400, window, 0.0, 0)


def waived(events: list[e.Event]) -> list[tuple[str, WaiverReason]]:
    return [(w.group_id, w.reason) for w in only(events, e.ReplacementWaived)]


def test_the_lead_is_of_windows_and_with_refill_of_a_batch_that_lacks_one_besides() -> None:
    assert len(scheduling(5, False)[1]) == 10
    assert len(scheduling(5, True)[1]) == 12
    assert len(scheduling(5, True, async_ratio=0.0)[1]) == 6


def test_what_a_window_still_lacks_is_opened_whatever_the_budget() -> None:
    assert len(scheduling(5, False, payload_budget=1)[1]) == 5
    assert len(scheduling(5, True, payload_budget=1)[1]) == 6


def test_with_refill_a_deselected_group_is_replaced_at_once_as_an_expired_one_is() -> None:
    for policy in ("same_prompt", "next_prompt"):
        feed, groups = scheduling(2, True, expired_replacement=policy)
        feed(*map(accepted, groups[:2]))
        outputs = feed(deselected(groups[0]))
        (issued,) = only(outputs, e.PromptIssued)
        assert (issued.replaces, issued.attempt) == (groups[0], 2)
        assert (issued.prompt.ordinal == 0) is (policy == "same_prompt")
        assert waived(outputs) == []


def test_without_refill_a_deselected_group_is_surplus_and_counts_until_the_next_step() -> None:
    for step in (trained_on(1), e.BatchSkipped(2, SkipReason.EMPTY_AFTER_FILTER, 0), returned(1)):
        feed, groups = scheduling(2, False)
        feed(*map(accepted, groups[:2]))
        outputs = feed(deselected(groups[0]))
        assert waived(outputs) == [(groups[0], WaiverReason.SURPLUS)]
        assert opened_in(feed(formed(1, groups[1]))) == []
        free = 2 - isinstance(step, e.BatchSkipped | e.BatchReturned)
        assert len(opened_in(feed(step))) == free


def test_without_refill_the_payload_of_a_deselected_group_is_held_no_longer() -> None:
    feed, groups = scheduling(2, False)
    feed(*map(accepted, groups[:2]))
    assert feed.state.held_bytes == 800
    feed(deselected(groups[0]))
    assert feed.state.held_bytes == 400
    feed(formed(1, groups[1]), trained_on(1), saved(1, 1))
    assert feed.state.held_bytes == 0


def test_a_window_all_of_whose_kept_are_lost_does_not_hold_the_lead_for_ever() -> None:
    feed, groups = scheduling(2, False, async_ratio=0.0, prefetch=0, max_staleness=0)
    feed(*map(accepted, groups), deselected(groups[0]), formed(1, groups[1]))
    outputs = feed(returned(1, groups[1]), expired(groups[1], ExpiryReason.PAYLOAD_MISSING))
    assert len(opened_in(outputs)) == 2


def test_a_run_ends_with_deselected_groups_answered_and_forgotten() -> None:
    for refill in (True, False):
        feed, groups = scheduling(1, refill, async_ratio=0.0, prefetch=0, max_staleness=1, quotas={"maths": 1})
        feed(accepted(groups[0]))
        if not refill:
            assert waived(feed(deselected(groups[0]))) == [(groups[0], WaiverReason.SURPLUS)]
        outputs = feed(e.StopRequested("x", 0))
        if refill:
            outputs = feed(deselected(groups[0]))
            assert waived(outputs) == [(groups[0], WaiverReason.RUN_COMPLETE)]
        assert only(outputs, e.RunFinished)[0].outcome is Outcome.STOPPED


def test_the_batcher_s_alarm_ends_the_run_if_its_policy_says_so() -> None:
    feed, _ = scheduling(2, True)
    assert only(feed(starved(StarvationCause.EMPTY_SELECTIONS, StarvationPolicy.WAIT)), e.RunClosing) == []
    (closing,) = only(feed(starved(StarvationCause.EMPTY_SELECTIONS, StarvationPolicy.RAISE)), e.RunClosing)
    assert (closing.outcome, closing.detail) == (Outcome.STARVED, "domain maths: empty_selections")


def test_a_skipped_step_starts_the_evaluation_that_is_due() -> None:
    made = rules(steps=9, selection=settings(1, False), evaluation=EvaluationRules(2, 1, 4, 0))
    feed = Feed(Scheduler(made, Source(99), Source(1), ("exam",)))
    feed(started())
    skip = [e.BatchSkipped(n, SkipReason.EMPTY_AFTER_FILTER, 0) for n in (1, 2)]
    assert [s.step for s in only(feed(*skip), e.EvaluationStarted)] == [2]


def test_after_the_last_call_the_run_goes_on_while_the_pool_has_kept_groups() -> None:
    feed = Feed(Scheduler(rules(steps=9, selection=settings(3, True)), Source(3), None))
    groups = opened_in(feed(started()))
    assert len(only(feed(*map(accepted, groups)), e.StarvationRaised)) == 1
    feed(formed(1, *groups[:2]))
    assert only(feed(trained_on(1)), e.RunClosing) == []
    feed(formed(2, groups[2]))
    (closing,) = only(feed(trained_on(2)), e.RunClosing)
    assert closing.outcome is Outcome.COMPLETED


# --------------------------------------------------------------------------------------------------------- the ledger


def ledger(window: int, refill: bool, **changes: Any) -> Ledger:
    return Ledger(rules(selection=settings(window, refill), **changes), MEMBERS)


def note(book: Ledger, *events: e.Event) -> list[str]:
    for event in events:
        book.note(event)
    return book.violations


def test_deselected_groups_count_in_the_lead_without_refill_only() -> None:
    for refill, most in ((True, 2), (False, 1)):
        book = ledger(1, refill, async_ratio=0.0, oversample_max=1.0)
        first = [opened(f"{n}@0") for n in range(most)]
        assert note(book, *first, accepted("0@0"), deselected("0@0")) == []
        assert (note(book, opened("7@0")) == []) is refill
        fresh = ledger(1, refill, async_ratio=0.0, oversample_max=1.0)
        skip = e.BatchSkipped(1, SkipReason.EMPTY_AFTER_FILTER, 0)
        assert note(fresh, *first, accepted("0@0"), deselected("0@0"), skip, opened("7@0")) == []


def test_what_is_in_a_batch_or_was_not_accepted_cannot_be_deselected() -> None:
    assert "I1" in note(ledger(2, True), opened("0@0"), deselected("0@0"))[0]
    two = [opened("0@0"), opened("1@0"), accepted("0@0"), accepted("1@0"), formed(1, "0@0", "1@0")]
    assert "I1" in note(ledger(2, True), *two, deselected("0@0"))[0]
    assert "without a selection" in note(Ledger(rules(), MEMBERS), opened("0@0"), accepted("0@0"), deselected("0@0"))[0]
