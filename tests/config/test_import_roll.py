"""ROLL's examples, and what surrounds them in a whole configuration, decide here what they decide there."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pipeline.config import canonical, parse, resolve_budget
from pipeline.config.imports import Imported, import_config, imported
from pipeline.config.imports.foreign import foreign
from pipeline.config.imports.roll import ROLL
from pipeline.domain.filters.chain import Chain
from pipeline.domain.filters.stage import Filter
from pipeline.domain.rules import DomainRules, rules_of
from pipeline.domain.vocabulary import Reason
from tests.domain.given import MEMBERS, member, members

EXAMPLES = Path(__file__).parent / "imports" / "roll"


def of(text: str, *overrides: str) -> Imported:
    return imported(ROLL, foreign(text, "roll.yaml", ".yaml", overrides))


def recorded(found: Imported) -> dict[str, Any]:
    """What RunStarted would record."""
    made: dict[str, Any] = json.loads(text_of(found))
    return made


def text_of(found: Imported) -> str:
    assert found.problems() == []
    return canonical(resolve_budget(parse(found.tree), 2**38))


def domain(found: Imported, name: str = "math") -> DomainRules:
    return next(d for d in rules_of(text_of(found)).domains if d.name == name)


def kept(rules: DomainRules, values: Sequence[float]) -> bool:
    return Chain(rules).decide(members(values), len(values)).reason is None


def why(found: Imported, key: str) -> str:
    """Why a key was left."""
    (one,) = [left for left in found.left if left.key == key]
    return f"{one.fate}: {one.why}"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_each_example_makes_a_configuration_that_can_run_once_its_gaps_are_filled(path: Path) -> None:
    found = import_config("roll", path)
    assert found.problems() == []
    assert {s.path[0] for s in found.to_write} >= {"run", "prompts", "engine", "learner"}
    assert all("TO WRITE: " in line for line in found.text().splitlines() if "my_package" in line and line[0] != "#")


def test_mean_filter_keeps_what_lies_strictly_between_its_bounds() -> None:
    found = import_config("roll", EXAMPLES / "mean_filter.yaml")
    (link,) = recorded(found)["domains"][0]["filters"]
    assert link == {
        "type": "mean_filter", "compat": "roll", "threshold_down": 0.0, "threshold_up": 1.0, "metric": "reward",
    }  # fmt: skip
    rules = domain(found)
    told = [kept(rules, values) for values in ([0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.5, 0.5], [0.0, 1e-9])]
    assert told == [False, False, True, True, True]
    line = "threshold_up: 1.0  # from rewards.math.query_filter_config.filter_args.threshold_up"
    assert line in [re.sub("  +", "  ", written).strip() for written in found.text().splitlines()]


def test_std_filter_rejects_a_sample_deviation_up_to_its_threshold() -> None:
    rules = domain(import_config("roll", EXAMPLES / "std_filter.yaml"))
    assert [f.args["ddof"] for f in rules.filters] == [1]
    assert [kept(rules, values) for values in ([0.5, 0.5], [0.5, 0.51], [0.5, 0.53])] == [False, False, True]


def test_a_loop_of_ones_own_is_named_as_lost() -> None:
    found = import_config("roll", EXAMPLES / "rollout_loop.yaml")
    assert why(found, "user_defined_rollout_loop_cls").startswith("no_counterpart: a loop of your own")
    assert [one.key for one in found.lost] == ["user_defined_rollout_loop_cls"]


def test_a_group_filter_of_ones_own_is_to_be_written_and_told_that_true_means_the_contrary() -> None:
    found = import_config("roll", EXAMPLES / "group_filter.yaml")
    record = recorded(found)
    assert (record["group_size"], record["max_open_groups"], record["replacement"]) == (8, 128, "new_seed")
    assert record["assembly"]["count"] == "any"
    assert record["domains"][0]["filters"] == [
        {"type": "custom", "factory": "my_package.filters:MyGroupFilter", "options": {}, "on_error": "reject"}
    ]
    (line,) = [line for line in found.text().splitlines() if "MyGroupFilter" in line]
    assert "TO WRITE" in line and "true keeps a group, in ROLL it drops it" in line


def test_redundancy_is_carried_over() -> None:
    record = recorded(import_config("roll", EXAMPLES / "redundancy.yaml"))
    assert (record["group_size"], record["redundancy"]) == (8, 2)
    assert record["domains"][0]["filters"] == [{"type": "no_filter"}]


def test_correction_is_carried_over() -> None:
    record = recorded(import_config("roll", EXAMPLES / "correction.yaml"))
    assert record["correction"] == {
        "filters": [
            {"level": "token", "ratio_enabled": True, "ratio_low": 0.8, "ratio_high": 1.2, "diff_enabled": False,
             "diff_low": -0.2, "diff_high": 0.2},
        ],
        "weight": None, "catastrophic": None, "denominator": "corrected",
    }  # fmt: skip


WHOLE = """
defaults: [../config/deepspeed_zero@_here_]
exp_name: "Qwen3 8B/rlvr"
max_steps: 200
n: 8
rollout_batch_size: 128
num_return_sequences_in_group: ${n}
prompt_length: 2048
async_generation_ratio: 1.5
is_num_return_sequences_expand: yes
adv_estimator: grpo
norm_mean_type: group
norm_std_type: group
loss_agg_mode: seq-mean-token-sum
difficulty_mask: true
difficulty_low_threshold: 0.1
error_max_len_clip: on
error_max_len_threshold: 1_000
init_kl_coef: 0
tracker_kwargs: {api_key: "${oc.env:TRACKER_KEY}", token: hidden}
validation: {data_args: {file_name: [a.jsonl]}}
actor_train:
  training_args: {learning_rate: 1.0e-6}
  data_args: {domain_interleave_probs: {math: 0.55, code: 0.25, chat: 0.2}}
rewards:
  math:
    tag_included: [a, b]
    query_filter_config: {type: mean_filter, filter_args: {threshold_up: 0.9, threshold_upp: 1}}
    response_filter_config: {type: mean_filter}
  code: {query_filter_config: {type: std_filter, filter_args: {std_threshold: 1e-6, threshold_up: 3}}}
  chat: {worker_cls: a.b.C}
train_infer_correction:
  is_weight: {enabled: true, weight_type: segment, upper_bound: null}
  filters:
    - {enabled: false, agg_type: token, ratio_low: 0.5}
    - {enabled: true, agg_type: segment, ratio_low: 0.8, ratio_high: 1.05, diff_enabled: true, diff_low: -0.1}
strange: 1
"""


def test_a_whole_configuration_is_carried_over() -> None:
    record = recorded(of(WHOLE))
    told = {key: record[key] for key in ("run", "seed", "steps", "group_size", "async_ratio", "max_staleness")}
    assert told == {
        "run": "qwen3-8b-rlvr", "seed": 42, "steps": 200, "group_size": 8, "async_ratio": 1.5, "max_staleness": 2,
    }  # fmt: skip
    assert (record["max_prompt_tokens"], record["too_long"], record["oversample_max"]) == (2048, "skip", 1.0)
    assert [(d["name"], d["quota"]) for d in record["domains"]] == [("math", 70), ("code", 32), ("chat", 26)]
    assert record["advantages"] == {"kind": "grpo", "eps": 1e-6, "exclude_truncated": False}
    assert record["loss"]["aggregation"] == "seq-mean-token-sum" and record["loss"]["impl"] == "roll"
    assert record["sample_masks"]["difficulty_mask"] == {"low": 0.1, "high": 1.0}
    assert record["sample_masks"]["error_max_len_clip"] == 1000
    assert record["starvation"]["policy"] == "wait" and record["evaluation"]["every"] == 10
    assert {v["on_failure"] for v in record["verifiers"].values()} == {"raise"}


def test_a_threshold_that_is_not_given_has_rolls_default() -> None:
    found = of(WHOLE)
    (link,) = domain(found, "math").filters
    assert (link.args["threshold_down"], link.args["threshold_up"]) == (-1.0, 0.9)
    (link,) = domain(found, "code").filters
    assert link.args["std_threshold"] == 1e-6
    assert [f.type for f in domain(found, "chat").filters] == ["no_filter"]


def test_only_correction_filters_that_are_on_count() -> None:
    correction = recorded(of(WHOLE))["correction"]
    assert [(f["level"], f["ratio_high"], f["diff_low"]) for f in correction["filters"]] == [("segment", 1.05, -0.1)]
    assert correction["weight"] == {"weight_type": "segment", "lower": 0.0, "upper": "none"}
    assert correction["denominator"] == "original"


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("defaults", "unresolved: other files aren't read"),
        ("n", "not_needed: it stands where other keys refer to it"),
        ("strange", "unknown: this import doesn't know it"),
        ("rewards.math.response_filter_config.type", "not_needed: ROLL never reads it"),
        ("rewards.math.query_filter_config.filter_args.threshold_upp", "not_needed: no filter of ROLL reads it"),
        ("rewards.code.query_filter_config.filter_args.threshold_up", "not_needed: ROLL's std_filter doesn't read it"),
        ("train_infer_correction.filters[0].ratio_low", "not_needed: the filter is not enabled"),
        ("actor_train.training_args.learning_rate", "elsewhere: the learner's own"),
    ],
)
def test_what_is_left_says_why(key: str, said: str) -> None:
    assert why(of(WHOLE), key).startswith(said)


def test_neither_secrets_nor_the_environment_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKER_KEY", "hidden")
    found = of(WHOLE + "my_api_token: hidden\n")
    assert "hidden" not in found.text() + json.dumps([str(one) for one in found.left])
    assert why(found, "my_api_token").startswith("unknown")


def test_probabilities_that_leave_a_domain_without_a_group_become_quotas() -> None:
    found = of(WHOLE, "actor_train.data_args.domain_interleave_probs.chat=0.001", "rollout_batch_size=10")
    assert [(d["name"], d["quota"]) for d in recorded(found)["domains"]] == [("math", 5), ("code", 2), ("chat", 3)]


def test_a_level_that_switches_rolls_filters_off_switches_them_off_here() -> None:
    found = of(WHOLE, "generate_opt_level=0")
    assert [f.type for f in domain(found, "math").filters] == ["no_filter"]
    assert "mean_filter, but with generate_opt_level 0" in found.text()


def test_groups_of_one_pass_a_deviation_filter_as_they_do_there() -> None:
    found = of(WHOLE, "num_return_sequences_in_group=1", "rewards.math.query_filter_config.type=std_filter")
    assert [f.type for f in domain(found, "code").filters] == ["no_filter"]
    assert "ROLL keeps groups of one" in found.text()


AGENTIC = """
rollout_batch_size: 64
val_batch_size: 4
train_env_manager:
  num_env_groups: 8
  group_size: 4
  tags: [Sokoban, FrozenLake]
  num_groups_partition: [6, 2]
  group_filter_cls: roll.pipeline.agentic.env_manager.agent_native_env_manager.GroupFilter
val_env_manager: {num_env_groups: 4, group_size: 1, tags: [Sokoban], num_groups_partition: [4]}
custom_envs: {Sokoban: {env_type: sokoban}}
"""


def test_an_agentic_batch_counts_trajectories_and_its_domains_are_tags() -> None:
    record = recorded(of(AGENTIC))
    assert [(d["name"], d["quota"]) for d in record["domains"]] == [("Sokoban", 12), ("FrozenLake", 4)]
    one = recorded(of(AGENTIC, "train_env_manager.tags=[Sokoban]", "train_env_manager.num_groups_partition=[8]"))
    assert [(d["name"], d["quota"]) for d in one["domains"]] == [("Sokoban", 16)]


def test_the_drop_flag_filter_comes_with_the_one_guard_of_all_tags() -> None:
    filter = Filter(rules_of(text_of(of(AGENTIC))), MEMBERS)
    bad, state = [member(0, 0.0, drop_flag=True), member(1, 1.0)], filter.initial(0)
    rulings = [filter.ruling(state, domain, bad, 2) for domain in ("Sokoban", "FrozenLake") * 3]
    assert {ruling.finding.reason for ruling in rulings} == {Reason.DROP_FLAG}
    assert [ruling.kept_by_guard for ruling in rulings] == [True, False, True, False, True, False]


def test_what_roll_would_not_start_with_is_told() -> None:
    found = of(AGENTIC, "val_batch_size=5")
    assert [o.why for o in found.left if "would not start" in o.why] == [
        "ROLL would not start: is 5; expected a multiple of the 4 environments"
    ]


def test_a_result_that_can_not_run_says_so() -> None:
    changed = ("rewards.math.query_filter_config.filter_args.threshold_up=-1",)
    (problem,) = of(WHOLE, *changed).problems()
    assert "keeps no group" in problem and "never_accepts" in problem
