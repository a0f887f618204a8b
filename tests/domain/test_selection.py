"""Selection over a window: against plain loops, in any order of arrival, at its edges."""

import math
from typing import Any, get_args

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from pipeline.domain.grouping import scores_of
from pipeline.domain.selection import (
    SelectionRules,
    SpreadWatch,
    empty_stop,
    loss_scale,
    problems,
    score,
    select,
    soft_weights,
    spread,
    updated_empties,
    zero_count,
)
from pipeline.domain.selection.rules import Keep, Metric, Mode, Strategy

from .given import members

SCORES = st.lists(
    st.one_of(st.sampled_from([0.0, 0.5, 0.25, 1e-10, -0.5]), st.floats(-3, 3).map(lambda x: round(x, 3))), max_size=12
)
RULES = st.builds(
    SelectionRules,
    strategy=st.sampled_from(get_args(Strategy)),
    value=st.sampled_from([-1.0, 0.0, 0.25, 0.5, 0.9, 1.0, 2.5]),
    metric=st.sampled_from(["reward_variance", "reward"]),
    keep=st.sampled_from(get_args(Keep)),
    mode=st.sampled_from(get_args(Mode)),
    eps=st.sampled_from([0.0, 0.01, 1.0, -1.0]),
    include_zero=st.booleans(),
)


def groups(scores: list[Any]) -> list[tuple[str, Any]]:
    """Groups g00, g01 …"""
    return [(f"g{i:02d}", s) for i, s in enumerate(scores)]


def kept(scores: list[Any], **options: Any) -> list[int]:
    """The numbers of the groups kept, by rank."""
    return [int(group[1:]) for group in select(groups(scores), SelectionRules(**options))]


def naive(scores: list[float], rules: SelectionRules) -> list[str]:
    """The rules as sentences, one loop each."""
    largest = rules.keep == "largest"
    named = [(g, s) for g, s in groups(scores) if rules.include_zero or abs(s) > 1e-10]
    named.sort(key=lambda item: (-item[1] if largest else item[1], item[0]))
    ranked = [s for _, s in named]
    if not named:
        return []
    if rules.strategy == "top_k":
        return [g for g, _ in named[: max(min(int(rules.value * len(scores)), len(named)), 1)]]
    if rules.strategy == "top_k_abs":
        return [g for g, _ in named[: max(min(int(rules.value), len(named)), 1)]]
    if rules.strategy == "min_p" and largest:
        return [g for g, s in named if s >= max(ranked) * rules.value - 1e-10]
    if rules.strategy == "min_p":
        return [g for g, s in named if s <= min(ranked) / (rules.value + 1e-10) + 1e-10]
    if rules.value >= 1.0:
        return [g for g, _ in named]
    taken: list[str] = []
    if rules.mode == "linear":
        target, gathered = rules.value * math.fsum(ranked) - rules.eps, []
        for group, s in named:
            if math.fsum(gathered) >= target or s <= 0.0:
                break
            taken.append(group)
            gathered.append(s)
        return taken if math.fsum(gathered) >= target else []
    powers = [math.exp(s if largest else -s) for s in ranked]
    for index, (group, _) in enumerate(named):
        taken.append(group)
        if math.fsum(powers[: index + 1]) / math.fsum(powers) >= rules.value:
            break
    return taken


@given(SCORES, RULES)
def test_a_selection_is_what_a_plain_loop_finds(scores: list[float], rules: SelectionRules) -> None:
    if rules.strategy == "top_p" and rules.mode == "softmax" and rules.value < 1.0:
        assume(not near_a_cut(scores, rules))
    assert select(groups(scores), rules) == naive(scores, rules)


def near_a_cut(scores: list[float], rules: SelectionRules) -> bool:
    """Whether rounding decides where the cumulated probability reaches the value."""
    powers = [math.exp(s if rules.keep == "largest" else -s) for s in scores if rules.include_zero or abs(s) > 1e-10]
    powers.sort(reverse=True)
    whole = math.fsum(powers)
    return any(abs(math.fsum(powers[:i]) / whole - rules.value) < 1e-9 for i in range(1, len(powers) + 1))


@given(SCORES, RULES, st.randoms(use_true_random=False))
def test_the_order_in_which_groups_came_is_nothing(scores: list[float], rules: SelectionRules, random: Any) -> None:
    shuffled = groups(scores)
    random.shuffle(shuffled)
    assert select(shuffled, rules) == select(groups(scores), rules)


@given(SCORES, st.sampled_from([-1.0, 0.0]), st.sampled_from([0.0, 0.01, 1.0]), st.sampled_from(get_args(Keep)))
def test_what_is_certain_to_keep_nothing_keeps_nothing(
    scores: list[float], value: float, eps: float, keep: Any
) -> None:
    rules = SelectionRules(value=value, eps=eps, keep=keep)
    assert any(problem.certain for problem in problems(rules))
    assert select(groups([abs(s) for s in scores]), rules) == []


@given(SCORES, RULES)
@example([100.0], SelectionRules("min_p", 1.0, keep="smallest"))
def test_a_window_with_signal_is_emptied_only_where_a_problem_was_named(
    scores: list[float], rules: SelectionRules
) -> None:
    positive = [s for s in scores if s > 0.0]
    assume(math.fsum(positive) > 10.0 * max(rules.eps, 1e-9) / max(rules.value, 0.01))
    assume(not problems(rules))
    assert select(groups(positive), rules) != []


def test_ties_go_to_the_lower_group_id_at_either_end() -> None:
    for keep in get_args(Keep):
        assert kept([0.5] * 5, strategy="top_k_abs", value=2, keep=keep) == [0, 1]


def test_zeros_can_be_left_out_but_count_in_a_share_of_all_groups() -> None:
    assert kept([0.0, 0.4, 0.3, 0.0], strategy="top_k", value=0.75, include_zero=False) == [1, 2]
    assert kept([1e-10, 2e-10], strategy="top_k_abs", value=2, include_zero=False) == [1]
    assert kept([0.5] * 3, strategy="top_k", value=1e308) == kept([0.5] * 3, strategy="top_k", value=1.0) == [0, 1, 2]
    assert kept([0.5] * 3, strategy="top_k", value=-1e308) == kept([0.5] * 3, strategy="top_k", value=0.0) == [0]


def test_a_target_of_nothing_keeps_nothing() -> None:
    assert kept([0.005, 0.004], value=0.9) == []
    assert kept([0.0, 0.0], value=0.9) == []
    assert kept([0.0, 0.0], value=1.0) == [0, 1]


def test_a_group_without_a_score_is_never_kept() -> None:
    for strategy in get_args(Strategy):
        for value in (0.9, 3.0):
            assert set(kept([None, 0.7, math.nan, 0.7], strategy=strategy, value=value)) <= {1, 3}
    assert kept([None, math.nan], strategy="top_k_abs", value=2) == []


def test_no_group_at_all_is_an_empty_selection() -> None:
    assert kept([], strategy="top_k_abs", value=3) == kept([], value=1.0) == []


def test_sums_beyond_a_double_reach_no_target() -> None:
    assert kept([1e308, 1e308], value=0.9) == []


@pytest.mark.parametrize(
    "options",
    [{"strategy": "median"}, {"metric": "kl"}, {"keep": "middle"}, {"mode": "cubic"}, {"value": math.nan},
     {"eps": math.inf}],
)  # fmt: skip
def test_what_no_selection_can_mean_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        SelectionRules(**options)


@pytest.mark.parametrize(
    ("options", "certain"),
    [
        ({"value": 0.9}, []),
        ({"value": 0.0}, [True]),
        ({"value": 0.0, "metric": "reward"}, [False, False]),
        ({"value": 0.9, "eps": -0.5}, [False]),
        ({"value": 0.9, "keep": "smallest"}, [False]),
        ({"value": 0.9, "keep": "smallest", "include_zero": False}, []),
        ({"value": 0.9, "mode": "softmax", "metric": "reward"}, []),
        ({"strategy": "min_p", "value": 0.5}, []),
        ({"strategy": "min_p", "value": 0.5, "metric": "reward_sum"}, [False]),
        ({"strategy": "min_p", "value": 1.5}, [False]),
        ({"strategy": "min_p", "value": -0.5, "keep": "smallest"}, [False]),
        ({"strategy": "top_k", "value": 0.0}, []),
    ],
)
def test_ways_to_keep_nothing_are_known_before_a_group_is_seen(options: dict[str, Any], certain: list[bool]) -> None:
    assert [problem.certain for problem in problems(SelectionRules(**options))] == certain


def test_each_metric_is_a_number_of_the_group() -> None:
    found = scores_of(members([1.0, 0.0, 0.0, 1.0]))
    known = {metric: score(found, metric) for metric in get_args(Metric)}
    assert known["reward_variance"] == known["reward_std"] == pytest.approx(math.sqrt(1 / 3))
    assert known["reward_variance_sq"] == pytest.approx(1 / 3)
    assert (known["reward"], known["reward_sum"]) == (0.5, 2.0)
    assert known["length"] == found.length_mean
    assert known["entropy"] == found.entropy_mean
    assert known["entropy_variance"] == known["entropy_std"] == found.entropy_std


def test_a_metric_that_a_member_lacks_is_none() -> None:
    found = scores_of(members([1.0, None]))
    assert score(found, "reward_variance_sq") is None and score(found, "reward") is None


def test_the_loss_is_rescaled_by_what_was_kept() -> None:
    assert [loss_scale(how, 0.25) for how in ("none", "linear", "sqrt")] == [1.0, 0.25, 0.5]
    with pytest.raises(ValueError, match="cubic"):
        loss_scale("cubic", 0.25)  # type: ignore[arg-type]


def test_soft_weights_are_shares_of_the_largest_deviation() -> None:
    assert soft_weights([0.5, 0.25, 0.0]) == pytest.approx([0.5 / 0.500001, 0.25 / 0.500001, 0.0])
    assert soft_weights([]) == [] and soft_weights([0.0]) == [0.0]
    with pytest.raises(ValueError, match="finite"):
        soft_weights([0.5, math.nan])


def test_only_empty_selections_in_a_row_stop() -> None:
    count, stops = 0, []
    for step_kept in (0, 0, 3, 0, 0, 0):
        count = updated_empties(count, step_kept)
        stops.append(empty_stop(count, 3))
    assert stops == [False] * 5 + [True]
    assert not empty_stop(1_000, 0)


@given(st.lists(st.sampled_from([0.0, 0.04, 0.05, 0.5, math.nan]), max_size=40))
def test_the_spread_has_collapsed_when_ten_steps_after_the_first_ten_are_low(stds: list[float]) -> None:
    watch, base = SpreadWatch(), stds[:10]
    for at, std in enumerate(stds, start=1):
        latest = stds[max(10, at - 10) : at]
        low = at >= 20 and all(s < 0.1 * math.fsum(base) / 10 for s in latest)
        assert watch.collapsed(std) is low


def test_a_report_of_no_group_is_zeros() -> None:
    assert spread([]) == {"std": 0.0, "max": 0.0, "mean": 0.0, "sum": 0.0}
    assert spread([[1.0, 0.0], [1.0, 1.0]]) == {
        "std": pytest.approx(math.sqrt(0.5) / 2), "max": 1.0, "mean": 0.75, "sum": 1.5,
    }  # fmt: skip
    assert zero_count([None, 0.0, -1e-10, 0.1]) == 2
