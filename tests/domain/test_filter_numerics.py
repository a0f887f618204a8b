"""No decision and no bit of a measured value depends on an order, on a copy, or on which slot a reward is in."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from math import inf, isfinite, isnan, nan, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain import events as e
from pipeline.domain.filters.chain import Chain
from pipeline.domain.filters.finding import Finding
from pipeline.domain.filters.stage import Filter
from pipeline.domain.grouping import mean, sample_std
from pipeline.domain.rules import DomainRules, FilterRule, GuardRule, Rules
from pipeline.domain.vocabulary import Category, FinishReason, Reason, category_of

from .given import MEMBERS, Feed, assembling, member, members, opened, rules, scored
from .test_filters import ARGS

TINY, LARGE = 5e-324, 1e308
EDGES = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.1, 0.5, TINY, -TINY, 2.2e-308, 1e-170, LARGE, -LARGE, 1e200])
FINITE = EDGES | st.floats(allow_nan=False, allow_infinity=False) | st.floats(0, 1)
ANY = FINITE | st.sampled_from([nan, inf, -inf])
BY_NUMBERS = ["zero_std", "finished_zero_std", "std_filter", "mean_filter", "band"]


def chain(type: str) -> Chain:
    changes = {"threshold_down": 0.0, "threshold_up": 1.0} if type == "mean_filter" else {}
    return Chain(DomainRules("maths", 1, (FilterRule(type, ARGS[type] | changes),), "hash"))


def told(finding: Finding) -> tuple[object, ...]:
    """All that an event tells, numbers to the last bit; the detail names rewards in the order of their slots."""
    numbers = {name: repr(value) for name, value in finding.measurements.items()}
    return finding.reason, repr(finding.measured), repr(finding.threshold), finding.metric_name, numbers


def group(pairs: Sequence[tuple[float, bool]]) -> list[e.Member]:
    ends = {True: FinishReason.STOP, False: FinishReason.LENGTH}
    return [member(slot, reward, finish_reason=ends[done]) for slot, (reward, done) in enumerate(pairs)]


@pytest.mark.parametrize("type", ["no_filter", "mean_filter", "band"])
@pytest.mark.parametrize(
    ("large", "reason"), [(1e38, None), (1.1e38, Reason.NON_FINITE_REWARD), (LARGE, Reason.NON_FINITE_REWARD)]
)
def test_what_a_trainer_can_not_hold_is_kept_in_no_order(type: str, large: float, reason: Reason | None) -> None:
    wide = FilterRule(type, ARGS[type] | {"low": -LARGE, "high": LARGE})
    filter = Filter(guarded(wide), MEMBERS)
    for values in ([large, large, -large], [large, -large, large], [-large, large, large]):
        ruling = filter.ruling(filter.initial(0), "maths", members(values), 3)
        assert (ruling.finding.reason, ruling.kept_by_guard) == (reason, False)


def test_a_guard_keeps_nothing_that_a_trainer_can_not_hold() -> None:
    filter = Filter(guarded(FilterRule("zero_std", ARGS["zero_std"])), MEMBERS)
    told = [filter.ruling(filter.initial(0), "maths", members([large] * 3), 3) for large in (1e38, 1e200)]
    assert [(r.finding.metric_name, r.kept_by_guard) for r in told] == [
        ("drop_zero_std_1e+38", True),
        ("drop_zero_std_1e+200", False),
    ]


def guarded(chain: FilterRule) -> Rules:
    """One filter, and a guard that keeps whatever it may."""
    guard = GuardRule("consecutive", {"keep_after": 0})
    return replace(rules(), domains=(DomainRules("maths", 1, (chain,), "hash", guard),))


@pytest.mark.parametrize("type", BY_NUMBERS)
@given(pairs=st.lists(st.tuples(ANY, st.booleans()), min_size=1, max_size=9), seed=st.integers(0, 2**32))
def test_which_slot_a_reward_is_in_changes_nothing(type: str, pairs: list[tuple[float, bool]], seed: int) -> None:
    shuffled = random.Random(seed).sample(pairs, len(pairs))
    one, other = (chain(type).decide(group(some), len(some)) for some in (pairs, shuffled))
    assert told(one) == told(other)


def test_a_sum_that_overflows_on_its_way_does_so_in_any_order() -> None:
    orders = [[LARGE, LARGE, -LARGE], [LARGE, -LARGE, LARGE], [-LARGE, LARGE, LARGE]]
    assert [mean(order) for order in orders] == [LARGE / 3] * 3


@pytest.mark.parametrize("type", BY_NUMBERS)
@given(values=st.lists(ANY, min_size=1, max_size=9))
def test_every_group_of_numbers_comes_to_a_finite_measurement_or_is_invalid(type: str, values: list[float]) -> None:
    found = chain(type).decide(members(values), len(values))
    assert found.measured is None or isfinite(found.measured)
    assert all(map(isfinite, found.measurements.values()))
    if not all(map(isfinite, values)):
        assert found.reason is Reason.NON_FINITE_REWARD
    if found.reason is not None and found.measured is None:
        assert category_of(found.reason) is Category.INVALID


@given(
    rewards=st.lists(ANY, min_size=1, max_size=5),
    copies=st.lists(st.integers(0, 4), max_size=6),
    seed=st.integers(0, 2**32),
)
def test_neither_arrival_order_nor_a_copy_changes_a_bit_of_the_verdict(
    rewards: list[float], copies: list[int], seed: int
) -> None:
    size = len(rewards)
    answers = [scored(f"0@0/{slot}.1", reward) for slot, reward in enumerate(rewards)]
    drawn = [*answers, *(answers[c % size] for c in copies)]
    assert _verdict(answers, size) == _verdict(random.Random(seed).sample(drawn, len(drawn)), size)


def _verdict(answers: Sequence[e.ResponseScored], size: int) -> str:
    outputs = assembling(rules(group_size=size), opened("0@0", size))(*answers)
    (whole,) = [event for event in outputs if isinstance(event, e.GroupAssembled)]
    (verdict,) = Feed(Filter(rules(), MEMBERS))(whole)
    return repr(verdict)


@pytest.mark.parametrize(("value", "count"), [(0.1, 3), (0.7, 7), (0.95, 12)])
def test_decimals_that_are_all_the_same_are_constant(value: float, count: int) -> None:
    assert sample_std([value] * count) == 0.0
    assert chain("zero_std").decide(members([value] * count), count).reason is Reason.ZERO_STD


@given(value=FINITE, count=st.sampled_from([1, 2, 3, 7, 12]))
def test_equal_rewards_are_constant_however_large_or_small(value: float, count: int) -> None:
    found = chain("zero_std").decide(members([value] * count), count)
    assert found.reason in (Reason.ZERO_STD, Reason.NON_FINITE_REWARD)
    assert (found.reason is Reason.ZERO_STD) is isfinite(mean([value] * count))


@pytest.mark.parametrize("size", [1, 2, 4096])
@pytest.mark.parametrize("solved", [0, 1])
def test_groups_of_any_size_have_their_exact_spread(size: int, solved: int) -> None:
    values = [1.0] * solved + [0.0] * (size - solved)
    exact = sqrt(solved * (size - solved) / (size * (size - 1))) if size > 1 else 0.0
    found = chain("zero_std").decide(members(values), size)
    assert found.measured == pytest.approx(exact, rel=1e-15)
    assert (found.reason is None) is (exact > 0)
    assert chain("mean_filter").decide(members([0.5] * size), size).measured == 0.5


def test_minus_zero_is_zero() -> None:
    found = chain("zero_std").decide(members([-0.0, 0.0, -0.0]), 3)
    assert (repr(found.measured), found.metric_name) == ("0.0", "drop_zero_std_0.0")
    assert repr(chain("mean_filter").decide(members([-0.0, -0.0]), 2).measured) == "0.0"


def test_denormals_are_numbers() -> None:
    assert mean([TINY, TINY]) == TINY
    assert chain("zero_std").decide(members([TINY, 0.0]), 2).reason is Reason.ZERO_STD


def test_a_sum_beyond_the_doubles_is_not_finite_though_the_rewards_are() -> None:
    assert isnan(mean([LARGE, LARGE]))
    for type in BY_NUMBERS:
        assert chain(type).decide(members([LARGE, LARGE]), 2).reason is Reason.NON_FINITE_REWARD
    assert chain("mean_filter").decide(members([LARGE, -LARGE]), 2).measured == 0.0
    assert chain("zero_std").decide(members([LARGE, -LARGE]), 2).reason is Reason.NON_FINITE_REWARD
