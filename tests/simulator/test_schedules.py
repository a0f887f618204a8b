"""A thousand drawn schedules of whole runs, each with crashes; a failing one says how to see it again."""

from typing import Any

import pytest

from pipeline.domain import events as e
from pipeline.domain.topology import Topic
from pipeline.domain.vocabulary import DiscardReason, Reason, StarvationPolicy, WaiverReason

from .checks import ledger_of
from .settings import ENDS, LIVENESS
from .simulation import Result, simulate
from .stages import StageProcess

SCHEDULES = 1000
CHUNK = 20


def check(results: list[Result]) -> None:
    bad = [r.report() for r in results if r.problems]
    assert not bad, "\n\n".join(bad[:5])


@pytest.mark.parametrize("first", range(0, SCHEDULES, CHUNK))
def test_the_invariants_hold_in_any_schedule(first: int) -> None:
    results = [simulate("drawn", seed) for seed in range(first, first + CHUNK)]
    check(results)
    for result in results:
        world = result.world
        sizes = [life.opened.group_size for life in world.ledger.groups.values()]
        assert len([s for s in sizes if s == 4]) >= 6, result.report()
        assert world.log.count() >= 200, result.report()
        assert world.crashes_seen >= 1, result.report()


@pytest.mark.parametrize("first", range(0, 120, CHUNK))
def test_a_run_that_is_ended_at_any_moment_ends_with_everything_accounted_for(first: int) -> None:
    check([simulate("ended", seed) for seed in range(first, first + CHUNK)])


@pytest.mark.parametrize("first", range(0, 120, CHUNK))
def test_a_source_that_ends_while_payloads_are_lost_ends_the_run(first: int) -> None:
    check([simulate("exhausted", seed) for seed in range(first, first + CHUNK)])


@pytest.mark.parametrize("first", range(0, 60, CHUNK))
def test_a_run_with_a_selection_keeps_them_too(first: int) -> None:
    results = [simulate("selected", seed) for seed in range(first, first + CHUNK)]
    check(results)
    ledgers = [[record.event for record in ledger_of(result.world)] for result in results]
    assert any(isinstance(event, e.GroupDeselected) for ledger in ledgers for event in ledger)


@pytest.mark.parametrize("name", ENDS)
def test_each_end_is_reached_with_its_outcome(name: str) -> None:
    check([simulate(name, seed) for seed in range(8)])


def on_ledger(result: Result, kind: type[e.Event]) -> list[Any]:
    return [r.event for r in result.world.log.topics[Topic.LEDGER][0] if isinstance(r.event, kind)]


def test_who_waits_while_nothing_is_accepted_is_told_again_and_again_and_trains_on_nothing() -> None:
    raised = [on_ledger(simulate("starved_waits", seed), e.StarvationRaised) for seed in range(4)]
    assert all(event.policy is StarvationPolicy.WAIT for events in raised for event in events)
    assert min(map(len, raised)) >= 2
    assert not on_ledger(simulate("starved_waits", 0), e.BatchFormed)


def test_a_short_batch_of_nothing_is_a_skipped_step() -> None:
    for seed in range(4):
        result = simulate("starved_skips", seed)
        assert len(on_ledger(result, e.BatchSkipped)) == result.world.rules.steps
        assert not on_ledger(result, e.BatchFormed)


@pytest.mark.parametrize(
    ("name", "reason"), [("outage", Reason.RESPONSE_RETRIES_EXHAUSTED), ("outage_zero", Reason.UNGRADED)]
)
def test_an_outage_is_told_as_one_though_no_batch_closes(name: str, reason: Reason) -> None:
    results = [simulate(name, seed) for seed in range(4)]
    assert reason in {event.reason for result in results for event in on_ledger(result, e.GroupRejected)}
    for result in results:
        (raised,) = on_ledger(result, e.StarvationRaised)
        assert raised.low_information == 0 < raised.invalid + raised.system
        assert "had responses that no verifier judged: an outage, no lack of signal" in raised.advice


def test_every_policy_answers_and_every_reason_for_no_answer_occurs() -> None:
    for policy in ("next_prompt", "same_prompt", "new_seed"):
        results = [simulate(f"answered_by_{policy}", seed) for seed in range(8)]
        check(results)
        waived = {event.reason for result in results for event in on_ledger(result, e.ReplacementWaived)}
        wanted = {WaiverReason.ATTEMPTS_EXHAUSTED, WaiverReason.SURPLUS, WaiverReason.RUN_COMPLETE}
        assert waived >= wanted | ({WaiverReason.SOURCE_EXHAUSTED} if policy == "next_prompt" else set()), policy
        opened = {g.group_id: g for result in results[:1] for g in on_ledger(result, e.GroupOpened)}
        answered = {g.replaces for g in opened.values()}
        for kind in (e.GroupRejected, e.GroupExpired):
            assert answered & {event.group_id for event in on_ledger(results[0], kind)}, (policy, kind)


def test_what_the_response_filter_refuses_is_replaced_where_any_arrival_counts() -> None:
    results = [simulate("counting_any", seed) for seed in range(4)]
    check(results)
    for result in results:
        discards = [r.event for p in result.world.log.topics[Topic.DISCARDS] for r in p]
        refused = [d for d in discards if isinstance(d, e.ResponseDiscarded) and d.reason is DiscardReason.FILTERED]
        assert len(refused) > 5 and on_ledger(result, e.GroupAccepted), result.report()


@pytest.mark.parametrize("name", LIVENESS)
def test_what_could_deadlock_completes(name: str) -> None:
    check([simulate(name, seed) for seed in range(8)])


def test_a_long_run_needs_no_more_memory_than_a_short_one() -> None:
    short, long = (simulate(f"{steps}_steps", 1) for steps in (15, 120))
    check([short, long])
    assert len(long.world.ledger.groups) > 6 * len(short.world.ledger.groups)
    sizes = [
        {p.name: p.largest for p in result.world.processes if isinstance(p, StageProcess)} for result in (short, long)
    ]
    assert {name for name in sizes[0] if sizes[1][name] > 3 * sizes[0][name] + 200} == set(), sizes


def test_a_seed_stands_for_one_schedule() -> None:
    lines: list[list[str]] = [[], []]
    for trace in lines:
        simulate("drawn", 3, trace.append)
    assert lines[0] == lines[1]
    assert len(lines[0]) > 200
