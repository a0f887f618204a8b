"""Other filters over a recorded run say what the filter stage would have said of the same groups, and what it cost."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pipeline.config import ConfigError, DecisionConfig, canonical, parse, parse_canonical
from pipeline.config.other_filters import with_other_filters
from pipeline.domain import events as e
from pipeline.domain.filters.stage import Filter
from pipeline.domain.rules import Rules, rules_of
from pipeline.domain.topology import Topic
from pipeline.domain.vocabulary import Purpose
from pipeline.history.shadows import recorded_shadows
from pipeline.history.what_if import TOPICS, Comparison, what_if
from pipeline.log.codec import Members

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
    return what_if(records, drive.rules, other, MEMBERS)


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
