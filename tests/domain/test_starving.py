"""Starvation, short batches and the end of a source: scheduler and batcher together."""

from dataclasses import replace

from pipeline.domain import events as e
from pipeline.domain.batching import Batcher
from pipeline.domain.rules import StarvationRules
from pipeline.domain.scheduling import Scheduler
from pipeline.domain.vocabulary import Outcome, ShortReason, StarvationCause, StarvationPolicy

from .given import Feed, Source, accepted, formed, only, opened_in, rejected, returned, rules, skipped, started, starved
from .given import trained as trained_on

SHORT = StarvationRules(StarvationPolicy.SHORT_BATCH, 2, 0.0, 0, 0)


def scheduling(prompts: int = 100, **changes: object) -> Feed:
    return Feed(Scheduler(rules(partitions=1, **changes), Source(prompts), None))


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
