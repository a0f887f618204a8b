"""Each filter of the catalogue: what it rejects, with which reason, on which number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from pipeline.domain import events as e
from pipeline.domain.filters.chain import FILTERS, Chain
from pipeline.domain.filters.custom import Opinion
from pipeline.domain.filters.finding import Finding
from pipeline.domain.filters.stage import Filter
from pipeline.domain.rules import DomainRules, FilterRule
from pipeline.domain.vocabulary import ConstantClass, Failure, FinishReason, Grading, Reason
from pipeline.log.codec import decode, encode

from .given import MEMBERS, Feed, assembled, member, members, rules

ARGS: dict[str, dict[str, Any]] = {
    "provenance": {"one_version": True},
    "no_filter": {},
    "drop_flag": {},
    "finished_zero_std": {"tol": 1e-8, "metric": "reward", "max_reward": 1.0},
    "zero_std": {"tol": 1e-8, "metric": "reward", "max_reward": 1.0},
    "std_filter": {"std_threshold": 0.5, "ddof": 1, "metric": "reward"},
    "mean_filter": {"compat": None, "threshold_down": None, "threshold_up": None, "metric": "reward"},
    "band": {"low": 0.25, "high": 0.75, "metric": "reward"},
    "custom": {"factory": "mine:Filter", "options": {}, "on_error": "reject"},
}


def rule(type: str, **changes: Any) -> FilterRule:
    return FilterRule(type, ARGS[type] | changes)


def decide(who: Sequence[e.Member], *chain: FilterRule, judge: Any = None) -> Finding:
    return Chain(DomainRules("maths", 1, chain, "hash"), lambda _: judge).decide(who, len(who))


def reason(values: Sequence[float], type: str, **changes: Any) -> Reason | None:
    return decide(members(values), rule(type, **changes)).reason


def test_the_order_of_a_chain_is_fixed_however_it_is_written() -> None:
    who = [member(0, 0.0, drop_flag=True), member(1, 0.0)]
    both = [rule("band"), rule("zero_std"), rule("drop_flag")]
    assert decide(who, *both).reason is decide(who, *reversed(both)).reason is Reason.DROP_FLAG
    constant = decide(members([0.0, 0.0]), *both)
    assert (constant.reason, constant.measurements) == (Reason.ZERO_STD, {"flagged": 0.0, "reward_std": 0.0})
    assert [*ARGS][:-1] == [*FILTERS]


def test_a_kept_group_tells_the_last_number_that_was_measured() -> None:
    found = decide(members([0.0, 1.0]), rule("custom"), rule("zero_std"), judge=lambda who: True)
    assert (found.filter, found.threshold) == ("zero_std", 1e-8)
    told = decide(
        members([0.0, 1.0]), rule("custom"), rule("zero_std"), judge=lambda who: Opinion(True, None, 3.0, 2.0)
    )
    assert (told.filter, told.measured, told.threshold) == ("custom", 3.0, 2.0)


def test_where_nothing_was_measured_a_kept_group_names_the_last_filter() -> None:
    assert decide(members([0.0, 1.0]), rule("no_filter")).filter == "no_filter"
    assert decide(members([0.0, 1.0]), rule("no_filter"), rule("custom"), judge=lambda who: True).filter == "custom"


@pytest.mark.parametrize(
    ("versions", "kept"), [([(3, 3), (3, 3)], True), ([(3, 3), (4, 4)], False), ([(3, 4), (3, 4)], False),
                           ([(-1, -1), (-1, -1)], False)],
)  # fmt: skip
def test_one_version_asks_for_one_known_policy(versions: list[tuple[int, int]], kept: bool) -> None:
    who = [member(i, float(i), oldest_version=old, newest_version=new) for i, (old, new) in enumerate(versions)]
    assert (decide(who, rule("provenance")).reason is None) is kept
    assert decide(who, rule("provenance", one_version=False)).reason is (
        Reason.PROVENANCE if versions[0][0] < 0 else None
    )


def test_a_member_without_a_policy_version_is_never_trained_on() -> None:
    found = decide([member(0, 0.0), member(1, 1.0, oldest_version=-1, newest_version=-1)], rule("no_filter"))
    assert (found.reason, found.detail) == (Reason.PROVENANCE, "slot 1 has no policy version")
    absent = member(1, None, oldest_version=-1, newest_version=-1, failure=Failure.ENV_FAILED)
    assert decide([member(0, 0.0), absent], rule("no_filter")).reason is Reason.ENV_FAILED


@pytest.mark.parametrize(
    ("failure", "why"),
    [(Failure.ABORTED, Reason.ABORTED), (Failure.ENV_FAILED, Reason.ENV_FAILED), (Failure.TIMEOUT, Reason.TIMEOUT)],
)
def test_one_version_leaves_a_failed_member_to_its_own_reason(failure: Failure, why: Reason) -> None:
    gone = member(0, None, failure=failure, oldest_version=-1, newest_version=-1)
    for others in ([member(1, 1.0)], []):
        assert decide([gone, *others], rule("provenance"), rule("zero_std")).reason is why
    mixed = [gone, member(1, 1.0), member(2, 0.0, oldest_version=1, newest_version=1)]
    found = decide(mixed, rule("provenance"))
    assert (found.reason, found.detail) == (Reason.PROVENANCE, "policy versions [0, 1], expected one")


def test_provenance_comes_before_what_is_aborted_and_that_before_what_is_ungraded() -> None:
    who = [member(0, None), member(1, None, failure=Failure.ABORTED), member(2, 1.0, newest_version=5)]
    assert decide(who, rule("provenance")).reason is Reason.PROVENANCE
    assert decide(who, rule("no_filter")).reason is Reason.ABORTED
    assert decide(who[::2], rule("no_filter")).reason is Reason.UNGRADED


@pytest.mark.parametrize("flag", ["drop_flag", "env_timeout", "env_failed"])
def test_a_flagged_trajectory_drops_its_group(flag: str) -> None:
    found = decide([member(0), member(1, **{flag: True})], rule("drop_flag"))
    assert (found.reason, found.measured, found.threshold) == (Reason.DROP_FLAG, 1.0, 0.0)
    assert (found.metric_name, found.detail) == ("drop_drop_flag", "slots [1]")
    assert decide([member(0), member(1)], rule("drop_flag")).reason is None


def test_a_failed_trajectory_that_its_verifier_calls_zero_is_flagged() -> None:
    assert decide([member(0), member(1, 0.0, grading=Grading.FAILED)], rule("drop_flag")).reason is Reason.DROP_FLAG


def test_std_filter_is_inclusive_and_knows_both_conventions() -> None:
    values = [0.0, 1.0]
    assert reason(values, "std_filter", std_threshold=0.5) is None
    assert reason(values, "std_filter", std_threshold=0.5, ddof=0) is Reason.STD
    assert reason(values, "std_filter", std_threshold=0.7071067811865476) is Reason.STD
    assert reason([1.0, 1.0], "std_filter", std_threshold=-1.0) is None
    assert decide(members(values), rule("std_filter", ddof=0)).measurements == {"reward_std_ddof0": 0.5}


@pytest.mark.parametrize("ddof", [0, 1])
def test_std_filter_keeps_a_group_of_one(ddof: int) -> None:
    found = decide(members([1.0]), rule("std_filter", ddof=ddof))
    assert (found.reason, found.measured) == (None, None)


def test_mean_filter_rejects_on_both_bounds() -> None:
    bounds = {"threshold_down": 0.0, "threshold_up": 1.0}
    assert reason([0.0, 0.0], "mean_filter", **bounds) is Reason.MEAN_LOW
    assert reason([1.0, 1.0], "mean_filter", **bounds) is Reason.MEAN_HIGH
    assert reason([0.0, 1.0], "mean_filter", **bounds) is None
    assert reason([-1e308, 1e308], "mean_filter") is None
    found = decide(members([0.0, 0.5]), rule("mean_filter", **bounds))
    assert (found.measured, found.threshold, found.measurements) == (0.25, 0.0, {"reward_mean": 0.25})
    assert decide(members([1.0]), rule("mean_filter")).threshold is None


def test_rolls_mean_filter_keeps_every_group_of_one() -> None:
    assert reason([0.0], "mean_filter", threshold_down=0.0) is Reason.MEAN_LOW
    assert reason([0.0], "mean_filter", threshold_down=0.0, compat="roll") is None
    assert reason([0.0, 0.0], "mean_filter", threshold_down=0.0, compat="roll") is Reason.MEAN_LOW
    assert reason([0.0], "mean_filter", compat="roll", metric="absent") is Reason.UNGRADED


def test_a_band_keeps_its_bounds() -> None:
    assert [reason([v], "band") for v in (0.25, 0.5, 0.75)] == [None] * 3
    low, high = (decide(members([v]), rule("band")) for v in (0.0, 1.0))
    assert (low.reason, low.threshold, high.reason, high.threshold) == (Reason.BAND, 0.25, Reason.BAND, 0.75)


def finished(*members_: tuple[float, bool]) -> Finding:
    who = [
        member(i, r, finish_reason=FinishReason.STOP if done else FinishReason.LENGTH)
        for i, (r, done) in enumerate(members_)
    ]
    return decide(who, rule("finished_zero_std"))


def test_finished_zero_std_looks_at_the_finished_members_alone() -> None:
    constant = finished((1.0, True), (1.0, True), (0.0, False))
    assert (constant.reason, constant.constant_class) == (Reason.ZERO_STD, ConstantClass.ALL_MAX)
    assert (constant.metric_name, constant.measured) == ("drop_zero_std_1.0", 0.0)
    assert finished((1.0, True), (0.0, True), (0.0, False)).reason is None


def test_fewer_than_two_finished_members_are_insufficient() -> None:
    found = finished((1.0, True), (0.0, False), (0.0, False))
    assert (found.reason, found.measured, found.threshold) == (Reason.INSUFFICIENT_FINISHED_RESPONSES, 1.0, 2.0)
    assert found.metric_name == "drop_insufficient_finished_responses"


def test_the_label_of_a_nearly_constant_group_depends_on_no_order() -> None:
    values = [0.05, 0.05 - 1e-10]
    assert decide(members(values), rule("zero_std")).metric_name == "drop_zero_std_0.0"
    assert decide(members(values[::-1]), rule("zero_std")).metric_name == "drop_zero_std_0.0"


UNKNOWN = {"grading": Grading.UNGRADED}


def zeros(*rewards: float, unknown: int) -> list[e.Member]:
    """Members with these rewards, and some whose verifier's policy is `zero`."""
    return [*members(rewards), *(member(len(rewards) + i, 0.0, **UNKNOWN) for i in range(unknown))]


@pytest.mark.parametrize(
    ("type", "who", "expected"),
    [
        ("zero_std", zeros(unknown=4), Reason.UNGRADED),
        ("zero_std", zeros(0.0, unknown=3), Reason.UNGRADED),
        ("zero_std", zeros(0.0, 0.0, unknown=2), Reason.ZERO_STD),
        ("zero_std", zeros(1.0, unknown=3), None),
        ("finished_zero_std", zeros(unknown=4), Reason.UNGRADED),
        ("std_filter", zeros(0.0, unknown=3), Reason.UNGRADED),
        ("mean_filter", zeros(1.0, 1.0, unknown=4), Reason.UNGRADED),
        ("mean_filter", zeros(0.5, 0.0, unknown=2), Reason.MEAN_LOW),
        ("band", zeros(0.5, 0.5, unknown=4), Reason.UNGRADED),
        ("no_filter", zeros(unknown=4), None),
    ],
)
def test_what_nobody_judged_is_no_lack_of_signal(type: str, who: list[e.Member], expected: Reason | None) -> None:
    chain = rule(type, threshold_down=0.34) if type == "mean_filter" else rule(type)
    assert decide(who, chain).reason is expected


@pytest.mark.parametrize("type", ["zero_std", "finished_zero_std", "std_filter", "mean_filter", "band"])
def test_a_judged_member_that_lacks_the_number_is_named_with_those_that_there_are(type: str) -> None:
    who = [member(slot, float(slot), components={"b": 1.0, "a": 0.0}) for slot in range(2)]
    found = decide(who, rule(type, metric="c"))
    assert (found.reason, found.filter, found.metric, found.measured) == (Reason.UNGRADED, type, "c", None)
    assert found.detail == "slot 0 was judged and has no number 'c'; known: reward, raw, a, b"
    assert decide([member(0, 0.0, **UNKNOWN), who[1]], rule(type, metric="a")).detail is None  # nobody judged slot 0


def test_an_ungraded_group_says_what_it_would_have_been() -> None:
    found = decide(zeros(0.0, unknown=3), rule("zero_std"))
    assert (found.metric_name, found.constant_class, found.measured) == ("drop_ungraded", None, 0.0)
    assert found.detail == "3 of 4 rewards are unknown, counted as 0; it would be drop_zero_std_0.0"


def test_a_custom_filter_is_asked_about_the_whole_group_alone() -> None:
    asked: list[int] = []

    def few(who: Sequence[e.Member]) -> bool:
        asked.append(len(who))
        return len(who) < 4

    known = decide(zeros(0.0, 0.0, unknown=2), rule("custom"), judge=few)
    assert (known.reason, known.detail) == (Reason.CUSTOM, "mine:Filter")
    unknown = decide(zeros(0.0, unknown=3), rule("custom"), judge=few)
    assert (unknown.reason, unknown.metric_name, asked) == (Reason.UNGRADED, "drop_ungraded", [4, 4])


def test_a_nearly_constant_group_is_all_zero_or_all_max_only_if_each_reward_is() -> None:
    for values in ([0.0, 1e-9], [1.0, 1.0 - 1e-9]):
        assert decide(members(values), rule("zero_std")).constant_class is ConstantClass.CONSTANT


def test_a_large_constant_group_is_constant() -> None:
    assert reason([123456789.1] * 3, "zero_std") is Reason.ZERO_STD


def test_a_custom_filter_answers_with_a_bool_or_an_opinion() -> None:
    who = members([0.0, 1.0])
    assert decide(who, rule("custom"), judge=lambda who: True).reason is None
    plain = decide(who, rule("custom"), judge=lambda who: False)
    assert (plain.reason, plain.detail, plain.metric_name) == (Reason.CUSTOM, "mine:Filter", "drop_custom")
    told = decide(who, rule("custom"), judge=lambda who: Opinion(False, "too short", 3.0, 5.0))
    assert (told.detail, told.measured, told.threshold) == ("mine:Filter: too short", 3.0, 5.0)


def broken(who: Sequence[e.Member]) -> bool:
    raise RuntimeError("no such table")


def muttering(who: Sequence[e.Member]) -> bool:
    raise ValueError("\ud800" + "long " * 1_000_000)


@pytest.mark.parametrize(
    ("judge", "why"),
    [
        (broken, "RuntimeError: no such table"),
        (muttering, "ValueError: \\ud800long "),
        (lambda who: 1, "TypeError: "),
        (lambda who: Opinion(True, measured="3"), "an Opinion whose measured is '3'; expected a number, or None"),
        (lambda who: Opinion(False, threshold=10**400), "expected a number that a float can hold, or None"),
    ],
)
def test_what_a_custom_filter_raises_is_a_decision_by_policy(judge: Any, why: str) -> None:
    who = members([0.0, 1.0])
    found = decide(who, rule("custom"), judge=judge)
    assert (found.reason, found.ends_run) == (Reason.FILTER_ERROR, False)
    assert found.detail is not None and why in found.detail
    kept = decide(who, rule("custom", on_error="keep"), judge=judge)
    assert (kept.reason, kept.measurements) == (None, {"filter_errors": 1.0})
    assert decide(who, rule("custom", on_error="raise"), judge=judge).ends_run


def stage(*chain: FilterRule, shadows: Sequence[FilterRule] = (), judge: Any = None) -> Feed:
    domain = DomainRules("maths", 1, chain, "hash", shadows=tuple(shadows))
    return Feed(Filter(replace(rules(), domains=(domain,)), MEMBERS, lambda _: judge))


@pytest.mark.parametrize(
    "judge", [muttering, lambda who: Opinion(0, 5, Fraction(3), 5), lambda who: Opinion(1, None, Fraction(3))]
)
def test_whatever_a_custom_filter_says_can_be_written(judge: Any) -> None:
    for answer in stage(rule("custom", on_error="raise"), judge=judge)(assembled("0@0", members([0.0, 1.0]), 2)):
        assert len(encode(answer)) < 20_000 and decode(encode(answer)) == answer


def test_a_custom_filter_that_raises_may_end_the_run_with_its_group() -> None:
    answers = stage(rule("custom", on_error="raise"), judge=broken)(assembled("0@0", members([0.0, 1.0]), 2))
    rejected, failed = answers
    assert isinstance(rejected, e.GroupRejected) and rejected.reason is Reason.FILTER_ERROR
    assert isinstance(failed, e.StageFailed) and (failed.stage, failed.group_id) == ("filter", "0@0")


def test_a_custom_filter_needs_its_callable() -> None:
    with pytest.raises(ValueError, match="mine:Filter"):
        Chain(DomainRules("maths", 1, (rule("custom"),), "hash"))


def test_shadows_are_recorded_and_have_no_effect() -> None:
    shadows = [rule("zero_std"), rule("band"), rule("zero_std", tol=1.0), rule("custom", on_error="raise")]
    feed = stage(rule("no_filter"), shadows=shadows, judge=broken)
    (event,) = feed(assembled("0@0", members([0.0, 1.0]), 2))
    assert isinstance(event, e.GroupAccepted)
    assert event.shadows == (
        e.ShadowVerdict("zero_std", True, None, 0.7071067811865476),
        e.ShadowVerdict("band", True, None, 0.5),
        e.ShadowVerdict("zero_std_2", False, Reason.ZERO_STD, 0.7071067811865476),
        e.ShadowVerdict("custom", False, Reason.FILTER_ERROR, None),
    )


def test_a_shadow_calls_what_nobody_judged_no_lack_of_signal() -> None:
    unjudged = [member(slot, 0.0, grading=Grading.UNGRADED) for slot in range(2)]
    shadows = [rule("zero_std"), rule("band", low=0.5), rule("no_filter")]
    feed = stage(rule("no_filter"), shadows=shadows)
    (event,) = feed(assembled("0@0", unjudged, 2))
    assert isinstance(event, e.GroupAccepted)
    assert [(s.name, s.reason) for s in event.shadows] == [
        ("zero_std", Reason.UNGRADED), ("band", Reason.UNGRADED), ("no_filter", None),
    ]  # fmt: skip
    (event,) = feed(assembled("1@0", [*unjudged, member(2, 0.0), member(3, 0.0)], 4))
    assert event.shadows[0].reason is Reason.ZERO_STD  # the judged ones say so by themselves


def test_a_group_without_known_rewards_is_shown_to_no_shadow() -> None:
    (event,) = stage(rule("no_filter"), shadows=[rule("zero_std")])(assembled("0@0", members([None, 1.0]), 2))
    assert isinstance(event, e.GroupRejected)
    assert event.shadows == ()


@pytest.mark.parametrize("broken", [{"failure": Failure.ABORTED}, {"reward": None}, {"reward": float("nan")}, {}])
def test_a_group_of_two_versions_is_shown_to_shadows_only_if_its_rewards_are_known(broken: dict[str, Any]) -> None:
    who = [member(0, 0.0), replace(member(1, 1.0, oldest_version=3, newest_version=3), **broken)]
    (event,) = stage(rule("provenance"), rule("no_filter"), shadows=[rule("band")])(assembled("0@0", who, 2))
    assert isinstance(event, e.GroupRejected)
    assert [s.name for s in event.shadows] == ([] if broken else ["band"])
