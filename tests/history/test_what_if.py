"""Other filters over a recorded run say what the filter stage would have said of the same groups, and what it cost."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.what_if import GUARD as WINDOW
from benchmarks.what_if import recorded
from benchmarks.what_if import rules as benchmark_rules
from pipeline.config import ConfigError, DecisionConfig, canonical, parse, parse_canonical
from pipeline.config.other_filters import with_other_filters
from pipeline.domain import events as e
from pipeline.domain.filters.fields import EVERY, looked_at
from pipeline.domain.filters.stage import Filter
from pipeline.domain.rules import Rules, SelectionSettings, rules_of
from pipeline.domain.topology import Topic
from pipeline.domain.vocabulary import Failure, FinishReason, Grading, Purpose
from pipeline.history.estimates import how_exact
from pipeline.history.shadows import recorded_shadows
from pipeline.history.what_if import TOPICS, Comparison, what_if
from pipeline.log.codec import Members
from pipeline.log.reader import Record

from .drive import CONFIG, Drive

MEMBERS = Members()
ZERO_STD = {"type": "zero_std", "tol": 1e-8, "metric": "reward", "max_reward": 1.0}
BAND = {"type": "band", "low": 0.5, "high": 0.7, "metric": "reward"}
GUARD = {"type": "consecutive", "keep_after": 1}
AS_IT_WAS = {"math": "window", "code": None}


def domain(**changes: Any) -> dict[str, Any]:
    return {"name": "sort", "quota": 4, "filters": [ZERO_STD], "filter_hash": "f", **changes}


def others(**changes: Any) -> Rules:
    return rules_of(CONFIG | {"domains": [domain(**changes)]})


def compared(drive: Drive, other: Rules) -> Comparison:
    records = [r for topic in TOPICS for r in drive.records if r.topic is topic]
    return what_if(records, drive.rules, other)


def of_type(drive: Drive, *kinds: type[e.Event]) -> list[Any]:
    return [event for r in drive.records if isinstance(event := r.event(), kinds)]


def test_a_runs_own_filters_say_what_they_said(drive: Drive) -> None:
    found = compared(drive, drive.rules)
    accepted = len(of_type(drive, e.GroupAccepted))
    assert found.judged == found.agree > accepted == found.domains["sort"].would_accept
    assert {was for _, was, _ in found.verdicts} == {"accepted", "zero_std/all_zero", "zero_std/all_max"}
    assert found.estimates() == []
    assert found.batches(True) == found.batches(False) == found.formed == 4


@pytest.mark.parametrize("change", [{"filters": [BAND]}, {"filters": [BAND, ZERO_STD]}, {"guard": GUARD}])
def test_other_filters_and_guards_say_what_the_stage_says(drive: Drive, change: dict[str, Any]) -> None:
    other = others(**change)
    stage = Filter(other, MEMBERS)
    state = stage.initial(0)
    groups = {g.group_id: g for g in of_type(drive, e.GroupAssembled)}
    verdicts = [v for v in of_type(drive, e.GroupAccepted, e.GroupRejected) if v.group_id in groups]
    said = Counter[str]()
    for verdict in verdicts:  # a guard counts in the order of the ledger
        for output in stage.step(state, groups[verdict.group_id]):
            event = output.event
            if isinstance(event, e.GroupAccepted):
                said["kept by guard" if event.kept_by_guard else "accepted"] += 1
            if isinstance(event, e.GroupRejected):
                said[f"{event.reason}/{event.constant_class}" if event.constant_class else str(event.reason)] += 1
    found = compared(drive, other)
    would = Counter[str]()
    for (_, _, label), many in found.verdicts.items():
        would[label] += many
    assert would == said and len(said) > 1
    assert found.agree < found.judged
    kept = found.domains["sort"]
    assert kept.would_accept == said["accepted"] + said["kept by guard"]
    assert (found.domains["sort"].judged, kept.accepted) == (len(verdicts), len(of_type(drive, e.GroupAccepted)))


def test_costs_are_of_everything_that_was_sampled_for_training(drive: Drive) -> None:
    found = compared(drive, others(filters=[{"type": "no_filter"}]))
    training = {o.group_id for o in of_type(drive, e.GroupOpened) if o.purpose is Purpose.TRAIN}
    sampled = [s for s in of_type(drive, e.ResponseGenerated) if s.group_id in training]
    tally = found.domains["sort"]
    assert (tally.responses, tally.tokens) == (len(sampled), sum(s.response_tokens for s in sampled))
    assert tally.responses > 3 * tally.judged
    assert tally.would_accept == tally.judged > tally.accepted


def test_what_would_have_been_other_data_is_called_an_estimate(drive: Drive) -> None:
    found = compared(drive, others(filters=[{"type": "no_filter"}]))
    fewer = len([r for r in of_type(drive, e.GroupRejected) if r.filter == "zero_std"])
    policy, replacements, oversampling = found.estimates()
    assert policy.startswith("from batch 1 on the policy would have been trained on other groups")
    assert replacements.startswith(f"{fewer} fewer rejections would have asked for {fewer} fewer replacements (next_")
    assert "over-sampling (up to 2) follows acceptance" in oversampling and "100.0 %" in oversampling
    guarded = rules_of(CONFIG | {"domains": [domain(guard=GUARD)], "filter_partitions": 1})
    assert "in a run with one filter partition" in compared(drive, guarded).estimates()[-1]


def test_a_guards_verdicts_are_said_to_follow_from_the_groups_before(drive: Drive) -> None:
    plain, guarded = others(filters=[BAND]), others(filters=[BAND], guard=GUARD)
    exact = "The verdicts are exact: group filters look at nothing but the group."
    assert how_exact(drive.rules, plain) == exact
    for either in ((drive.rules, guarded), (guarded, drive.rules)):
        assert how_exact(*either).startswith("What filters say is exact") and "guard keeps" in how_exact(*either)
    told = [any("guard's verdict" in why for why in compared(drive, rules).estimates()) for rules in (plain, guarded)]
    assert told == [False, True]


def test_batches_of_a_run_with_a_selection_are_called_an_estimate(drive: Drive) -> None:
    settings = SelectionSettings(6, True, "none", False, None, False, None)
    selecting = replace(drive.rules, selection=settings)
    found = what_if([r for r in drive.records if r.topic in TOPICS], selecting, selecting)
    (why,) = found.estimates()
    assert why.startswith("the run selects from windows of 6 accepted groups; batches are counted here by quota")


CHAINS: list[list[dict[str, Any]]] = [
    [ZERO_STD],
    [ZERO_STD | {"type": "finished_zero_std", "metric": "raw"}],
    [BAND | {"metric": "exact"}, {"type": "drop_flag"}],
    [{"type": "provenance", "one_version": True}, {"type": "no_filter"}],
    [{"type": "std_filter", "std_threshold": 0.1, "ddof": 0, "metric": "reward"}],
    [{"type": "mean_filter", "threshold_down": 0.1, "threshold_up": None, "metric": "exact", "compat": None}],
]


@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: chain[0]["type"])
@pytest.mark.parametrize("shadowed", [False, True])
def test_filters_say_the_same_of_members_without_the_fields_that_they_do_not_look_at(
    chain: list[dict[str, Any]], shadowed: bool
) -> None:
    other = others(shadow_filters=chain) if shadowed else others(filters=chain)
    fields, stage = looked_at(other), Filter(other, MEMBERS)
    part, rng = Members(only=fields), random.Random(5)
    assert fields < EVERY
    rulings = []
    for n in range(300):
        group = MEMBERS.encode(tuple(odd_member(rng, slot, even=n % 3 == 0) for slot in range(4)))
        whole, less = (stage.ruling(stage.initial(0), "sort", members.decode(group), 4) for members in (MEMBERS, part))
        assert whole == less
        rulings.append(whole.finding.reason)
    assert len(set(rulings)) > 3


def odd_member(rng: random.Random, slot: int, even: bool) -> e.Member:
    """One with any of the flaws that a filter may look at."""
    reward, flawed = 1.0 if even else rng.choice([0.0, 0.3, 1.0]), rng.random() < 0.1
    return e.Member(
        slot, 1, rng.choice([None, "k" * rng.randint(1, 300)]), rng.randint(0, 1 << 40),
        None if flawed and rng.random() < 0.5 else reward, reward, 0.0, {"exact": reward, "style": rng.random()},
        rng.choice([None, 0.5]), rng.choice([Grading.GRADED, Grading.GRADED, Grading.UNGRADED]),
        rng.choice(list(Failure)) if flawed else None, rng.choice(list(FinishReason)), flawed and rng.random() < 0.5,
        flawed, False, rng.randint(0, 1 << 40), rng.randint(0, 9000), rng.choice([-1, 3, 3, 3, 3, 3, 3]),
        rng.choice([3, 3, 4]), "generator-1",
    )  # fmt: skip


def test_a_custom_filter_is_given_every_field() -> None:
    custom_rule = {"type": "custom", "factory": "somewhere:Something", "on_error": "reject"}
    assert looked_at(others(filters=[ZERO_STD, custom_rule])) == EVERY
    assert looked_at(others(shadow_filters=[custom_rule])) == EVERY


def test_judging_a_group_takes_a_small_multiple_of_decoding_it() -> None:
    """CPU time as a ratio to reading the same records and members whole; about 2."""
    records = list(recorded(300))
    other = benchmark_rules(filters=[BAND, ZERO_STD], guard=WINDOW)

    def read() -> None:
        for event in (r.event() for r in records):
            if isinstance(event, e.GroupAccepted | e.GroupRejected):
                MEMBERS.decode(event.members)

    pairs = [(cpu_s(read), cpu_s(lambda: what_if(records, benchmark_rules(), other))) for _ in range(7)]
    reading, judging = (min(times) for times in zip(*pairs, strict=True))
    assert judging < 5 * reading


def cpu_s(work: Callable[[], object]) -> float:
    """CPU seconds of this process."""
    started = time.process_time()
    work()
    return time.process_time() - started


def test_groups_that_ended_before_the_filter_keep_their_end_and_their_cost() -> None:
    one_round = {"count": "valid", "max_rounds": 1, "lease_ms": 60_000, "deadline_ms": 600_000}
    drive = Drive({"assembly": one_round, "redundancy": 0})
    drive.run()
    by_assembler = [r for r in of_type(drive, e.GroupRejected) if r.filter == "assembler"]
    found = compared(drive, others(filters=[{"type": "no_filter"}]))
    assert found.domains["sort"].unjudged["response_retries_exhausted"] == len(by_assembler) > 0
    assert {would for _, _, would in found.verdicts} == {"accepted"}


def test_shadows_are_counted_beside_what_was_decided() -> None:
    drive = Drive({"domains": [domain(shadow_filters=[BAND, {"type": "no_filter"}])]})
    drive.run()
    tally, verdicts = recorded_shadows([r for r in drive.records if r.topic is Topic.LEDGER])
    band, free = tally.found["sort", "band"], tally.found["sort", "no_filter"]
    accepted = of_type(drive, e.GroupAccepted)
    assert verdicts == len(accepted) + len(of_type(drive, e.GroupRejected))
    assert band.rejects == {"band": band.asked - band.accepts}
    assert band.only_here == len([a for a in accepted if (a.scores.reward_mean or 0) < 0.5]) > 0
    assert (free.accepts, free.only_there) == (free.asked, free.asked - len(accepted))


class Outage(Drive):
    """No verifier judges, and each has the policy `zero`."""

    def answer(self, stage: str, record: Record, topic: Topic, outputs: list[e.Event]) -> None:
        zero: dict[str, Any] = {"reward": 0.0, "raw_score": 0.0, "grading": Grading.UNGRADED, "discard": None}
        known = [replace(o, **zero) if isinstance(o, e.ResponseScored) else o for o in outputs]
        super().answer(stage, record, topic, known)


def test_an_outage_is_no_lack_of_signal_to_a_shadow_either() -> None:
    drive = Outage({"domains": [domain(filters=[{"type": "no_filter"}])]})
    drive.run()
    found = compared(drive, others(shadow_filters=[ZERO_STD]))
    shadow = found.shadows.found["sort", "zero_std"]
    assert shadow.rejects == {"ungraded": shadow.asked} and shadow.asked > 0


# ------------------------------------------------------------------------------------------------- the file of filters


@pytest.fixture
def run() -> DecisionConfig:
    """A run's configuration, as RunStarted gives it back."""
    plugin, spread = {"factory": "somewhere:Something"}, {"type": "std_filter", "std_threshold": 0.1}
    tree = {
        "run": "r", "steps": 10, "prompts": plugin, "engine": plugin, "learner": plugin, "metric": "exact",
        "domains": {"math": {"quota": 4}, "code": {"quota": 2, "filters": [spread]}},
        "guard": {"math": {"type": "window"}}, "payload": {"budget": "1GB"},
    }  # fmt: skip
    return parse_canonical(canonical(parse(tree)))


def chains(config: DecisionConfig) -> dict[str, list[tuple[str, str | None]]]:
    return {n: [(f.type, getattr(f, "metric", None)) for f in config.chain(n)] for n in config.domains}


def guards(config: DecisionConfig) -> dict[str, str | None]:
    return {n: guard.type if (guard := config.guard_of(n)) else None for n in config.domains}


@pytest.mark.parametrize(
    ("text", "filters", "guarded"),
    [
        ("{}", {"math": [("zero_std", "exact")], "code": [("std_filter", "exact")]}, AS_IT_WAS),
        ("metric: raw", {"math": [("zero_std", "raw")], "code": [("std_filter", "raw")]}, AS_IT_WAS),
        (
            "filters: {default: [{type: no_filter}], code: [{type: band, low: 0, high: 1, metric: raw}]}",
            {"math": [("no_filter", None)], "code": [("band", "raw")]},
            AS_IT_WAS,
        ),
        (
            "domains: {code: {filters: [{type: finished_zero_std}]}}",
            {"math": [("zero_std", "exact")], "code": [("finished_zero_std", "exact")]},
            AS_IT_WAS,
        ),
        (
            "guard: {default: {type: consecutive, keep_after: 3}, math: {type: no_guard}}",
            {"math": [("zero_std", "exact")], "code": [("std_filter", "exact")]},
            {"math": None, "code": "consecutive"},
        ),
    ],
)  # fmt: skip
def test_a_file_changes_what_it_says_and_nothing_else(
    run: DecisionConfig, tmp_path: Path, text: str, filters: dict[str, Any], guarded: dict[str, Any]
) -> None:
    path = tmp_path / "other.yaml"
    path.write_text(text)
    other = with_other_filters(run, path)
    assert (chains(other), guards(other)) == (filters, guarded)
    rules_of(canonical(other))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("\nfilter: {default: [{type: zero_std}]}", ":2: filter: unknown key 'filter'; did you mean 'filters'?"),
        ("filters:\n  default: [{type: zero_sdt}]", ":2: filters.default[0].type: unknown type 'zero_sdt'; did you"),
        ("filters:\n  maths: [{type: zero_std}]", ":2: filters.maths: no such domain; did you mean 'math'?"),
        ("domains:\n  cod: {}", ":2: domains.cod: the run has no such domain; did you mean 'code'?"),
        (
            "filters:\n  math:\n  - {type: band, low: 2, high: 1}",
            ":3: filters.math[0]: band keeps no group: no mean of exact lies between",
        ),
        ("domains: {code: {quota: 3}}", "unknown key 'quota'; expected one of: filters, guard, shadow_filters"),
        ("- zero_std", "expected keys and values"),
    ],
)
def test_a_file_that_cannot_be_used_names_its_line_and_the_nearest_key(
    run: DecisionConfig, tmp_path: Path, text: str, says: str
) -> None:
    path = tmp_path / "other.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        with_other_filters(run, path)
    assert says in str(refused.value) and str(path) in str(refused.value)
