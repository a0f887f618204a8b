"""Advantages on the edges, and against plain formulas."""

import math
import random
import statistics

import pytest

from pipeline.training.advantages import AdvantageConfig, group_advantages

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


@pytest.mark.parametrize("options", [{"kind": "median"}, {"eps": -1.0}, {"eps": math.nan}])
def test_a_wrong_configuration_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        AdvantageConfig(**options)
