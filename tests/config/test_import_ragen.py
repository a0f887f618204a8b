"""RAGEN's examples select here what they select there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.config import canonical, parse, resolve_budget
from pipeline.config.imports import Imported, import_config, imported
from pipeline.config.imports.foreign import foreign
from pipeline.config.imports.ragen import RAGEN
from pipeline.domain.rules import SelectionSettings, rules_of
from pipeline.domain.selection import select

EXAMPLES = Path(__file__).parent / "imports" / "ragen"
PREFIX = "actor_rollout_ref.rollout."


def of(text: str, *overrides: str) -> Imported:
    return imported(RAGEN, foreign(text, "ragen.yaml", ".yaml", overrides))


def text_of(found: Imported) -> str:
    assert found.problems() == []
    return canonical(resolve_budget(parse(found.tree), 2**38))


def recorded(found: Imported) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(text_of(found))
    return made


def settings(found: Imported) -> SelectionSettings:
    made = rules_of(text_of(found)).selection
    assert made is not None and made.ranked is not None
    return made


def kept(found: Imported, deviations: list[float]) -> list[int]:
    """The places of the groups with these deviations that are kept, by the function that the batcher calls."""
    ranked = settings(found).ranked
    assert ranked is not None
    return sorted(int(group) for group in select([(f"{i:02d}", s) for i, s in enumerate(deviations)], ranked))


DEVIATIONS = [0.5, 0.0, 0.1, 0.4, 0.0, 0.3, 0.02, 0.2]
NO_FILTER, LINEAR, SOFTMAX, TOP_K = list(range(8)), [0, 3, 5, 7], [0, 2, 3, 5, 6, 7], [0, 3]


@pytest.mark.parametrize(
    ("name", "chosen"),
    [("no_filter", NO_FILTER), ("top_p_linear", LINEAR), ("top_p_softmax", SOFTMAX), ("top_k", TOP_K)],
)
def test_each_example_keeps_the_same_groups(name: str, chosen: list[int]) -> None:
    found = import_config("ragen", EXAMPLES / f"{name}.yaml")
    assert kept(found, DEVIATIONS) == chosen
    assert {s.path[0] for s in found.to_write} == {"run", "prompts", "engine", "environment", "learner"}


@pytest.mark.parametrize(
    ("recommended", "like"),
    [
        ("rollout_filter_value=1.0, rollout_filter_include_zero=True", NO_FILTER),
        ("rollout_filter_value=0.9, rollout_filter_top_p_prob_mode=linear, rollout_filter_include_zero=False, "
         "rollout_filter_selection_eps=0.01", LINEAR),
        ("rollout_filter_value=0.9, rollout_filter_top_p_prob_mode=softmax, "
         "rollout_filter_include_zero=False", SOFTMAX),
        ("rollout_filter_strategy=top_k, rollout_filter_value=0.25, rollout_filter_type=largest, "
         "rollout_filter_include_zero=True", TOP_K),
    ],
)  # fmt: skip
def test_each_quick_recommendation_keeps_the_same_groups(recommended: str, like: list[int]) -> None:
    """Source: the guide's table "Quick Recommendation", given as Hydra's overrides."""
    assert kept(of("{}", *(PREFIX + each for each in recommended.split(", "))), DEVIATIONS) == like


def test_a_step_without_signal_is_empty_and_five_of_them_stop_the_run() -> None:
    found = import_config("ragen", EXAMPLES / "top_p_linear.yaml")
    assert kept(found, [0.005, 0.0]) == []
    record = recorded(found)
    assert record["empty_stop_steps"] == 5 and record["starvation"]["policy"] == "raise"


def test_defaults_that_the_file_leaves_out_are_written_out() -> None:
    found = import_config("ragen", EXAMPLES / "top_p_linear.yaml")
    selection = recorded(found)["selection"]
    assert selection == {
        "type": "ranked", "strategy": "top_p", "value": 0.9, "metric": "reward_variance", "keep": "largest",
        "mode": "linear", "eps": 0.01, "include_zero": False, "weights": "none", "window": 8, "refill": False,
        "loss_rescale": "none", "variance_stop": True,
    }  # fmt: skip
    assert "keep: largest" in found.text() and "RAGEN's default of" in found.text()


WHOLE = """
defaults: [ppo_trainer, envs]
ppo_mini_batch_size: 32
seed: {train: 7, val: 123}
actor_rollout_ref:
  actor:
    ppo_mini_batch_size: ${ppo_mini_batch_size}
    filter_loss_scaling: sqrt
    loss_agg_mode: seq-mean-token-mean
    clip_ratio_low: 0.2
    clip_ratio_high: 0.28
    optim: {lr: 1e-6}
  rollout:
    rollout_filter_ratio: 0.25
    rollout_filter_metric: reward
    rollout_filter_empty_stop_steps: 0
algorithm: {adv_estimator: grpo, norm_adv_by_std_in_grpo: False, soft_advantage_reweight: True, gamma: 1.0}
agent_proxy: {max_turn: 3, batch_adjust_mode: copy, reward_normalization: {grouping: state, method: identity}}
trainer: {experiment_name: My_Test, total_training_steps: 50, save_freq: 25, test_freq: 5, val_before_train: True}
es_manager:
  train: {env_groups: 16, group_size: 4, env_configs: {tags: [Sokoban], n_groups: [16]}}
  val: {env_groups: 64, group_size: 1}
"""


def test_a_whole_configuration_is_carried_over() -> None:
    record = recorded(of(WHOLE))
    told = {key: record[key] for key in ("run", "seed", "steps", "group_size", "checkpoint_every", "empty_stop_steps")}
    assert told == {
        "run": "my_test", "seed": 7, "steps": 50, "group_size": 4, "checkpoint_every": 25, "empty_stop_steps": 0,
    }  # fmt: skip
    assert [(d["name"], d["quota"]) for d in record["domains"]] == [("Sokoban", 16)]
    selection = record["selection"]
    assert (selection["value"], selection["metric"], selection["window"]) == (0.25, "reward", 16)
    assert (selection["loss_rescale"], selection["weights"]) == ("sqrt", "soft")
    assert record["advantages"]["kind"] == "dr_grpo" and record["environment"]["max_turns"] == 3
    assert (record["loss"]["clip_low"], record["loss"]["clip_high"]) == (0.8, 1.28)
    assert (record["evaluation"]["every"], record["evaluation"]["limit"]) == (5, 64)
    assert (record["async_ratio"], record["max_staleness"]) == (0, 0)


def test_what_the_batch_is_made_of_is_not_changed_as_it_is_there() -> None:
    fates = {one.key: one.fate for one in of(WHOLE).left}
    assert fates["agent_proxy.batch_adjust_mode"] == "no_counterpart"
    assert fates["ppo_mini_batch_size"] == "elsewhere"


def test_an_unknown_word_is_not_carried_over() -> None:
    found = of("{}", PREFIX + "rollout_filter_strategy=top_q")
    (left,) = [one for one in found.left if one.key.endswith("strategy")]
    assert "expected top_p or top_k or top_k_abs or min_p" in left.why and left in found.lost
