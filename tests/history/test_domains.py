"""A run of three domains with chains, guards, quotas and shadows of their own shows each by itself."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

from pipeline.domain import events as e
from pipeline.domain.topology import Topic
from pipeline.domain.vocabulary import Category, DiscardReason, Failure, Purpose, Reason
from pipeline.history.domain_counts import MOST_DROP_NAMES, OTHER_DROPS, DomainCounts
from pipeline.history.reports.figures import bias, figures
from pipeline.history.reports.report import render
from pipeline.history.view import RunView
from pipeline.log.codec import Members

from .drive import Drive

METRIC = {"metric": "reward"}
ZERO_STD = {"type": "zero_std", "tol": 1e-8, "max_reward": 1.0, **METRIC}
BAND = {"type": "band", "low": 0.5, "high": 1.0, **METRIC}
MEAN = {"type": "mean_filter", "compat": None, "threshold_down": 0.4, "threshold_up": None, **METRIC}
GUARD = {"type": "window", "window": 5, "min_samples": 2, "max_ratio": 0.4, "keep_after": None}
DOMAINS: list[dict[str, Any]] = [
    {"name": "math", "quota": 3, "filters": [ZERO_STD], "filter_hash": "m", "shadow_filters": [BAND]},
    {"name": "code", "quota": 2, "filters": [ZERO_STD, BAND], "filter_hash": "c", "guard": GUARD},
    {"name": "chat", "quota": 1, "filters": [MEAN], "filter_hash": "t"},
]


@pytest.fixture(scope="module")
def drive() -> Drive:
    """A finished run whose groups have one response to spare."""
    made = Drive({"domains": DOMAINS, "filter_partitions": 1})
    made.run()
    return made


@pytest.fixture(scope="module")
def view(drive: Drive) -> RunView:
    made = RunView()
    for record in drive.records:
        made.note(record.timestamp_ms, record.topic, record.event())
    return made


def of_type(drive: Drive, *kinds: type[e.Event]) -> list[Any]:
    return [event for r in drive.records if isinstance(event := r.event(), kinds)]


def test_each_domain_counts_its_own_groups(drive: Drive, view: RunView) -> None:
    assert list(view.groups.domains) == ["math", "code", "chat"]
    opened = [o for o in of_type(drive, e.GroupOpened) if o.purpose is Purpose.TRAIN and o.task is None]
    for name, counts in view.groups.domains.items():
        rejected = [r for r in of_type(drive, e.GroupRejected) if r.prompt.domain == name]
        accepted = [a for a in of_type(drive, e.GroupAccepted) if a.prompt.domain == name]
        assert counts.opened == len([o for o in opened if o.prompt.domain == name]) > 0
        assert counts.replacements == len([o for o in opened if o.prompt.domain == name and o.replaces])
        assert (counts.accepted, counts.open) == (len(accepted), 0)
        assert counts.kept_by_guard == len([a for a in accepted if a.kept_by_guard])
        found = Counter((str(r.category), str(r.reason), r.filter) for r in rejected)
        assert {key: many for key, many in counts.rejected.items() if many} == found
        assert counts.assembly.count == len([g for g in of_type(drive, e.GroupAssembled) if g.prompt.domain == name
                                             and g.purpose is Purpose.TRAIN])  # fmt: skip
    assert view.groups.domains["code"].kept_by_guard > 0
    assert view.groups.domains["code"].guard["recent"] > 0 and not view.groups.domains["math"].guard
    assert sum(d.judged for d in view.groups.domains.values()) == view.groups.totals.judged
    assert view.progress.untrained == {"math": 0, "code": 0, "chat": 0}
    assert view.progress.held_bytes == 0


def test_names_that_the_configuration_knows_are_there_at_0(view: RunView) -> None:
    math, code, chat = (view.groups.domains[name] for name in ("math", "code", "chat"))
    assert math.rejected["low_information", "zero_std", "zero_std"] > 0
    assert math.rejected["invalid", "aborted", "integrity"] == 0
    assert ("low_information", "band", "band") in code.rejected and (
        "low_information",
        "band",
        "band",
    ) not in math.rejected
    assert {"drop_zero_std_0.0", "drop_zero_std_1.0", "drop_deadline"} <= math.drops.keys()
    assert {"drop_mean_low", "drop_mean_high"} <= chat.drops.keys()
    assert chat.drops["drop_mean_high"] == 0 == chat.rejected["low_information", "mean_high", "mean_filter"]


def test_lead_and_payloads_are_held_until_training_and_checkpoint(drive: Drive) -> None:
    view, untrained, most = RunView(), Counter[str](), 0
    domains = {g.group_id: g.prompt.domain for g in of_type(drive, e.GroupAccepted)}
    formed: dict[int, e.BatchFormed] = {}
    for record in drive.records:
        event = record.event()
        view.note(record.timestamp_ms, record.topic, event)
        match event:
            case e.GroupAccepted():
                untrained[event.prompt.domain] += 1
            case e.GroupExpired() if event.group_id in domains:
                untrained[event.domain] -= 1
            case e.BatchFormed():
                formed[event.batch] = event
            case e.BatchTrained():
                untrained.subtract(group.domain for group in formed[event.batch].groups)
        assert {name: many for name, many in view.progress.untrained.items() if many} == +untrained
        most = max(most, view.progress.held_bytes)
    assert most >= 6 * 300


def test_lengths_are_of_members_and_discarded_training_responses(drive: Drive, view: RunView) -> None:
    codec, training = Members(), {o.group_id for o in of_type(drive, e.GroupOpened) if o.purpose is Purpose.TRAIN}
    verdicts = of_type(drive, e.GroupAccepted, e.GroupRejected)
    members = [m.response_tokens for v in verdicts for m in codec.decode(v.members)]
    discarded = [d.response_tokens for d in of_type(drive, e.ResponseDiscarded) if d.group_id in training]
    totals = view.groups.lengths.totals
    assert (totals.members, totals.member_tokens) == (len(members), sum(members))
    assert (totals.discarded, totals.discarded_tokens) == (len(discarded), sum(discarded))
    assert totals.of_all == pytest.approx((sum(members) + sum(discarded)) / (len(members) + len(discarded)))
    assert view.groups.lengths.members.count == len(members)


def test_failed_responses_and_copies_have_no_length_but_whole_ones_that_nobody_judged_have() -> None:
    view = RunView()
    left_out = [(DiscardReason.FAILED, Failure.TIMEOUT), (DiscardReason.LATE, Failure.TIMEOUT)]
    for reason, failure in [*left_out, (DiscardReason.DUPLICATE, None)]:
        view.note(0, Topic.DISCARDS, e.ResponseDiscarded("1@0", 0, 1, None, 0, 900, reason, failure, 0))
    assert view.groups.lengths.totals.discarded == 0
    for reason, tokens in [(DiscardReason.FAILED, 700), (DiscardReason.LATE, 500), (DiscardReason.FILTERED, 300)]:
        view.note(0, Topic.DISCARDS, e.ResponseDiscarded("1@0", 0, 1, None, 0, tokens, reason, None, 0))
    totals = view.groups.lengths.totals
    assert (totals.discarded, totals.of_discarded, totals.of_all) == (3, 500.0, 500.0)
    assert view.groups.lengths.discarded.count == 3


def test_the_report_has_each_domain_and_keeps_the_categories_apart(view: RunView) -> None:
    html = render(view)
    page = html[: html.index("<script>")]
    for title in (
        "Domains",
        "Rejections",
        "Low information",
        "Invalid",
        "System",
        "Guard of code",
        "Shadow band of math",
    ):
        assert f">{title}</h" in page
    for name in ("math", "code", "chat"):
        assert f"<td>{name}</td>" in page
    assert re.search(r"<td>chat</td><td>mean_low</td><td>mean_filter</td>", page)
    assert "Kept by a guard" in page
    titles = {figure["title"]: figure for figure in figures(view)}
    assert [trace["name"] for trace in titles["Acceptance by domain"]["traces"]] == ["math", "code", "chat"]
    assert "kept by guard" in [trace["name"] for trace in titles["Verdicts on training groups"]["traces"]]
    assert "favours short answers" in titles["Response length: mean"]["note"] and "favours short" in page
    shares = titles["Response length: distribution"]["traces"][0]["y"]
    assert sum(shares) == pytest.approx(1.0)


def test_the_bias_towards_short_answers_is_a_number(view: RunView) -> None:
    totals = view.groups.lengths.totals
    members, every = totals.of_members, totals.of_all
    assert members is not None and every is not None
    assert f"{100 * abs(members - every) / every:.1f} % {'shorter' if members < every else 'longer'}" in bias(totals)


def test_deselected_groups_are_shown_with_their_windows(drive: Drive, view: RunView) -> None:
    assert "Selection of groups" not in [figure["title"] for figure in figures(view)]
    selected = RunView()
    for record in drive.records:
        event = record.event()
        selected.note(record.timestamp_ms, record.topic, event)
        if isinstance(event, e.GroupAccepted):
            deselected = e.GroupDeselected(event.group_id, event.prompt.domain, b"", 0, 1, 0.5, 0)
            selected.note(record.timestamp_ms, Topic.LEDGER, deselected)
    assert selected.groups.domains["math"].deselected == selected.groups.domains["math"].accepted
    assert "Selection of groups" in [figure["title"] for figure in figures(selected)]
    assert ">Deselected<" in render(selected)


def test_names_of_drops_are_bounded() -> None:
    counts = DomainCounts()
    for i in range(1000):
        rejected = e.GroupRejected(
            "1@0", e.PromptRef("p", "d", 0, 0), Reason.ZERO_STD, Category.LOW_INFORMATION, None, "reward",
            f"drop_zero_std_{i / 10}", None, b"", 0, 0, 0, 0, None, "zero_std", 0.0, 0.0, {}, "", {}, (), 0,
        )  # fmt: skip
        counts.on_rejected(rejected)
    assert len(counts.drops) == MOST_DROP_NAMES + 1
    assert counts.drops[OTHER_DROPS] == 1000 - MOST_DROP_NAMES
