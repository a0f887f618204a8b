"""Advantages on the edges, and against plain formulas."""

import math
import random
import statistics

import pytest

from pipeline.training.advantages import AdvantageConfig, advantages, group_advantages, positional_groups

GRPO, DR_GRPO, LEAVE_ONE_OUT = AdvantageConfig(), AdvantageConfig("dr_grpo"), AdvantageConfig("leave_one_out")


def test_grpo_divides_by_the_sample_deviation() -> None:
    rewards = [1.0, 0.0, 0.0, 1.0, 0.25]
    mean, std = statistics.fmean(rewards), statistics.stdev(rewards)
    assert group_advantages(rewards, GRPO) == pytest.approx([(r - mean) / (std + 1e-6) for r in rewards], rel=1e-12)


def test_dr_grpo_only_centres() -> None:
    assert group_advantages([1.0, 0.0, 0.0, 1.0], DR_GRPO) == [0.5, -0.5, -0.5, 0.5]


def test_leave_one_out_compares_with_the_others() -> None:
    rewards = [1.0, 0.0, 0.5]
    others = [(sum(rewards) - r) / 2 for r in rewards]
    expected = [r - other for r, other in zip(rewards, others, strict=True)]
    assert group_advantages(rewards, LEAVE_ONE_OUT) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("config", [GRPO, DR_GRPO, LEAVE_ONE_OUT])
@pytest.mark.parametrize("rewards", [[], [0.7], [0.1] * 8, [0.0, -0.0]])
def test_a_group_without_contrast_has_no_advantage(config: AdvantageConfig, rewards: list[float]) -> None:
    assert group_advantages(rewards, config) == [0.0] * len(rewards)


@pytest.mark.parametrize("config", [GRPO, DR_GRPO, LEAVE_ONE_OUT])
@pytest.mark.parametrize("large", [1e308, 1e200, 1e100])
def test_large_rewards_come_to_the_same_in_every_order(config: AdvantageConfig, large: float) -> None:
    orders = [[large, large, -large], [large, -large, large], [-large, large, large]]
    if large > 1e154:  # the square of a deviation is no finite number
        for order in orders:
            with pytest.raises(ValueError, match="finite mean and deviation"):
                group_advantages(order, config)
    else:
        assert [sorted(group_advantages(order, config)) for order in orders[1:]] == [
            sorted(group_advantages(orders[0], config))
        ] * 2


def test_a_tiny_spread_is_damped_by_eps() -> None:
    advantages = group_advantages([0.0, 1e-9], GRPO)
    assert 0 < advantages[1] < 1e-3
    assert group_advantages([0.0, 1e-9], AdvantageConfig(eps=0.0))[1] == pytest.approx(math.sqrt(0.5))


def test_the_order_of_members_does_not_matter_to_a_bit() -> None:
    rng = random.Random(5)
    rewards = [rng.uniform(-1e6, 1e6) for _ in range(64)]
    order = rng.sample(range(64), 64)
    straight, shuffled = group_advantages(rewards, GRPO), group_advantages([rewards[i] for i in order], GRPO)
    assert shuffled == [straight[i] for i in order]


def test_truncated_members_can_be_left_out_of_the_baseline() -> None:
    cut = [False, True, False]
    assert group_advantages([1.0, 9.0, 0.0], AdvantageConfig("dr_grpo", exclude_truncated=True), cut) == [
        0.5,
        0.0,
        -0.5,
    ]
    assert group_advantages([1.0, 2.0, 0.0], DR_GRPO, cut) == [0.0, 1.0, -1.0]


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_not_finite_is_refused(reward: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        group_advantages([0.0, reward], GRPO)


@pytest.mark.parametrize(
    "options", [{"kind": "median"}, {"eps": -1.0}, {"eps": math.nan}, {"centre": "row"}, {"scale": "row"}, {"ddof": 2}]
)
def test_a_wrong_configuration_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        AdvantageConfig(**options)


def test_labelled_groups_know_nothing_of_each_other() -> None:
    rewards, groups = [1.0, 5.0, 0.0, 7.0, 0.5, 5.0], ["a", "b", "a", "b", "a", "b"]
    expected = {"a": iter(group_advantages(rewards[::2], GRPO)), "b": iter(group_advantages(rewards[1::2], GRPO))}
    assert advantages(rewards, groups, GRPO) == [next(expected[group]) for group in groups]


def test_mean_and_deviation_can_be_the_batchs() -> None:
    rewards, groups = [1.0, 0.0, 4.0, 2.0], [0, 0, 1, 1]
    mean, std = statistics.fmean(rewards), statistics.stdev(rewards)
    config = AdvantageConfig(centre="batch", scale="batch", eps=0.0)
    assert advantages(rewards, groups, config) == pytest.approx([(r - mean) / std for r in rewards])
    residual = statistics.stdev([0.5, -0.5, 1.0, -1.0])
    config = AdvantageConfig(scale="residual", eps=0.0)
    assert advantages(rewards, groups, config) == pytest.approx([d / residual for d in (0.5, -0.5, 1.0, -1.0)])
    assert advantages(rewards, groups, AdvantageConfig(centre="none", scale="none")) == rewards


def test_a_deviation_can_be_too_small_to_divide_by() -> None:
    assert group_advantages([0.0, 1e-6], AdvantageConfig(min_std=1e-6)) == [0.0, 0.0]
    assert group_advantages([0.0, 2e-6], AdvantageConfig(min_std=1e-6))[1] > 0.0
    assert group_advantages([0.0, 2.0], AdvantageConfig(ddof=0, min_std=1.0)) == [0.0, 0.0]  # not above it


def test_a_member_that_does_not_count_may_have_any_reward() -> None:
    config = AdvantageConfig("dr_grpo", exclude_truncated=True)
    assert group_advantages([1.0, math.nan, 0.0], config, [False, True, False]) == [0.5, 0.0, -0.5]


def test_groups_by_position_are_whole() -> None:
    assert positional_groups(6, 3) == [0, 0, 0, 1, 1, 1] and positional_groups(0, 4) == []
    for responses, size in ((7, 4), (3, 0)):
        with pytest.raises(ValueError, match="no groups"):
            positional_groups(responses, size)
