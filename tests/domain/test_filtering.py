"""The filter stage: integrity first, then the chain of the domain; evaluation groups are only counted."""

from math import fsum, inf, nan

import pytest

from pipeline.domain import events as e
from pipeline.domain.filters.stage import Filter
from pipeline.domain.grouping import sample_std, scores_of
from pipeline.domain.rules import DomainRules, FilterRule
from pipeline.domain.topology import InvariantBroken
from pipeline.domain.vocabulary import Category, ConstantClass, Failure, Grading, Outcome, Purpose, Reason

from .given import EVAL, MEMBERS, Feed, assembled, member, members, rules


def filtering(metric: str = "reward", tol: float = 1e-8) -> Feed:
    chain = (FilterRule("no_filter", {}), FilterRule("zero_std", {"tol": tol, "metric": metric, "max_reward": 1.0}))
    return Feed(
        Filter(rules().__class__(**{**_fields(), "domains": (DomainRules("maths", 2, chain, "hash"),)}), MEMBERS)
    )


def _fields() -> dict[str, object]:
    r = rules()
    return {name: getattr(r, name) for name in r.__dataclass_fields__}


def verdict(*values: float | None, metric: str = "reward", **more: object) -> e.GroupAccepted | e.GroupRejected:
    (event,) = filtering(metric)(assembled("0@0", members(values), len(values)))
    assert isinstance(event, e.GroupAccepted | e.GroupRejected)
    return event


def test_a_group_with_a_spread_is_accepted_with_what_was_measured() -> None:
    event = verdict(0.0, 1.0, 1.0, 1.0)
    assert isinstance(event, e.GroupAccepted)
    assert (event.filter, event.measured, event.threshold) == ("zero_std", 0.5, 1e-8)
    assert event.measurements == {"reward_std": 0.5}
    assert (event.filter_hash, event.kept_by_guard) == ("hash", False)


@pytest.mark.parametrize(
    ("values", "kind", "name"),
    [
        ([0.0] * 4, ConstantClass.ALL_ZERO, "drop_zero_std_0.0"),
        ([-0.0] * 4, ConstantClass.ALL_ZERO, "drop_zero_std_0.0"),
        ([1.0] * 4, ConstantClass.ALL_MAX, "drop_zero_std_1.0"),
        ([0.5] * 4, ConstantClass.CONSTANT, "drop_zero_std_0.5"),
        ([-1.0] * 4, ConstantClass.CONSTANT, "drop_zero_std_-1.0"),
        ([0.1] * 3, ConstantClass.CONSTANT, "drop_zero_std_0.1"),
        ([0.7] * 7, ConstantClass.CONSTANT, "drop_zero_std_0.7"),
        ([0.95] * 12, ConstantClass.CONSTANT, "drop_zero_std_0.9"),
    ],
)
def test_a_constant_group_is_rejected_and_named(values: list[float], kind: ConstantClass, name: str) -> None:
    event = verdict(*values)
    assert isinstance(event, e.GroupRejected)
    assert (event.reason, event.category) == (Reason.ZERO_STD, Category.LOW_INFORMATION)
    assert (event.constant_class, event.metric_name, event.metric) == (kind, name, "reward")
    assert event.measured is not None and event.measured <= 1e-8


@pytest.mark.parametrize("value", [nan, inf, -inf])
def test_a_reward_that_is_no_number_is_invalid_before_any_statistic(value: float) -> None:
    event = verdict(0.0, 1.0, value, 1.0)
    assert isinstance(event, e.GroupRejected)
    assert (event.reason, event.category, event.measured) == (Reason.NON_FINITE_REWARD, Category.INVALID, None)


def test_rewards_whose_sum_overflows_are_not_finite() -> None:
    event = verdict(1.7e308, 1.7e308, -1.0, 0.0)
    assert isinstance(event, e.GroupRejected)
    assert event.reason is Reason.NON_FINITE_REWARD


def test_rewards_whose_squares_overflow_are_not_finite() -> None:
    event = verdict(1e200, -1e200, 0.0, 0.0)
    assert isinstance(event, e.GroupRejected)
    assert event.reason is Reason.NON_FINITE_REWARD


def test_a_missing_reward_is_ungraded_not_zero() -> None:
    event = verdict(1.0, 1.0, None, 0.0)
    assert isinstance(event, e.GroupRejected)
    assert (event.reason, event.category) == (Reason.UNGRADED, Category.INVALID)


def test_an_aborted_member_is_found_before_a_statistic_is_made() -> None:
    who = [member(slot, None, failure=Failure.ABORTED, grading=Grading.FAILED) for slot in range(2)]
    (event,) = filtering()(assembled("0@0", who, 2))
    assert isinstance(event, e.GroupRejected)
    assert (event.reason, event.metric_name) == (Reason.ABORTED, "drop_aborted")


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (Failure.TIMEOUT, Reason.TIMEOUT),
        (Failure.ENV_FAILED, Reason.ENV_FAILED),
        (Failure.EMPTY, Reason.EMPTY),
        (Failure.TOO_LONG, Reason.UNGRADED),
        (None, Reason.UNGRADED),
    ],
)
def test_a_failed_member_gives_its_failure_as_the_reason(failure: Failure | None, reason: Reason) -> None:
    who = [member(0, 1.0), member(1, None, failure=failure)]
    (event,) = filtering()(assembled("0@0", who, 2))
    assert isinstance(event, e.GroupRejected)
    assert event.reason is reason


@pytest.mark.parametrize("who", [[member(0), member(1)], [member(0), member(1), member(1)]])
def test_a_group_of_the_wrong_size_or_with_a_slot_twice_has_no_provenance(who: list[e.Member]) -> None:
    (event,) = filtering()(assembled("0@0", who, 3))
    assert isinstance(event, e.GroupRejected)
    assert event.reason is Reason.PROVENANCE


def test_the_raw_score_and_the_final_reward_are_two_numbers_to_filter_on() -> None:
    """Case 3: an overlong penalty must not make a group of wrong answers look instructive, if so configured."""
    who = [
        member(slot, r, raw_score=-1.0, penalties=p)
        for slot, (r, p) in enumerate(zip([-1.0] * 3 + [-1.5], [0.0] * 3 + [-0.5], strict=True))
    ]
    (raw,) = filtering("raw")(assembled("0@0", who))
    assert isinstance(raw, e.GroupRejected)
    assert (raw.constant_class, raw.metric_name, raw.measured) == (ConstantClass.CONSTANT, "drop_zero_std_-1.0", 0.0)
    assert raw.metric == "raw"
    (final,) = filtering("reward")(assembled("0@0", who))
    assert isinstance(final, e.GroupAccepted)
    assert (final.measured, final.scores.reward_mean) == (0.25, -1.125)
    solved = [member(slot, r, raw_score=1.0) for slot, r in enumerate([1.0, 0.75, 1.0, 1.0])]
    (third,) = filtering("raw")(assembled("0@0", solved))
    assert isinstance(third, e.GroupRejected)
    assert (third.constant_class, third.metric_name) == (ConstantClass.ALL_MAX, "drop_zero_std_1.0")


def test_a_component_may_be_filtered_on_and_must_be_known_of_each_member() -> None:
    who = [member(slot, 1.0, components={"format": float(slot)}) for slot in range(4)]
    (event,) = filtering("format")(assembled("0@0", who))
    assert isinstance(event, e.GroupAccepted)
    (event,) = filtering("style")(assembled("0@0", who))
    assert isinstance(event, e.GroupRejected)
    assert event.reason is Reason.UNGRADED


def test_a_component_that_is_no_number_is_rejected_as_such() -> None:
    who = [member(slot, 1.0, components={"format": nan if slot else 0.0}) for slot in range(4)]
    (event,) = filtering("format")(assembled("0@0", who))
    assert isinstance(event, e.GroupRejected)
    assert (event.reason, event.category) == (Reason.NON_FINITE_REWARD, Category.INVALID)


def test_an_evaluation_group_is_counted_and_never_filtered() -> None:
    who = [member(0, 1.0), member(1, None), member(2, None, grading=Grading.FAILED, failure=Failure.TIMEOUT)]
    (event,) = filtering()(assembled("0@0", who, 3, purpose=Purpose.EVAL, eval=EVAL))
    assert isinstance(event, e.GroupEvaluated)
    assert (event.graded, event.ungraded, event.failed, event.mean_reward) == (1, 1, 1, 1.0)


def test_an_evaluation_group_without_a_grade_has_no_mean() -> None:
    (event,) = filtering()(assembled("0@0", [member(0, None)], 1, purpose=Purpose.EVAL, eval=EVAL))
    assert isinstance(event, e.GroupEvaluated)
    assert event.mean_reward is None


def test_an_unreadable_group_ends_if_an_assembler_wrote_it() -> None:
    (event,) = filtering()(e.Undecodable("0@0", True))
    assert isinstance(event, e.GroupRejected)
    assert (event.reason, event.category) == (Reason.UNDECODABLE, Category.SYSTEM)
    assert filtering()(e.Undecodable("0@0", False)) == []


def test_the_end_needs_nothing_and_other_events_are_refused() -> None:
    assert filtering()(e.RunFinished(Outcome.COMPLETED, 1, 0)) == []
    with pytest.raises(InvariantBroken):
        filtering()(e.StopRequested("x", 0))


def test_the_sample_deviation_of_one_value_is_none() -> None:
    assert sample_std([1.0]) == 0.0
    assert sample_std([0.0, 1.0]) == 0.7071067811865476
    assert sample_std([0.0, 1.0], ddof=0) == 0.5


def test_the_sum_of_rewards_is_rounded_once() -> None:
    values = [0.4, 0.4, 1.0]
    assert scores_of(members(values)).reward_sum == fsum(values) == 1.8
