"""MILES' examples decide here what they decide there; its data is told of, as far as it can't be read yet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.config import canonical, parse, resolve_budget
from pipeline.config.imports import Imported, import_config, imported
from pipeline.config.imports.foreign import foreign
from pipeline.config.imports.miles import MILES
from pipeline.domain.filters.chain import Chain
from pipeline.domain.rules import rules_of
from pipeline.domain.vocabulary import FinishReason
from tests.domain.given import member, members

EXAMPLES = Path(__file__).parent / "imports" / "miles"
ZERO_STD = {"type": "zero_std", "tol": 1e-8, "metric": "reward", "max_reward": 1.0}
ONE_VERSION = {"type": "provenance", "one_version": True}


def example(name: str) -> Imported:
    return import_config("miles", EXAMPLES / f"{name}.toml")


def of(text: str) -> Imported:
    return imported(MILES, foreign(text, "miles.toml", ".toml"))


def text_of(found: Imported) -> str:
    assert found.problems() == []
    return canonical(resolve_budget(parse(found.tree), 2**38))


def recorded(found: Imported) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(text_of(found))
    return made


def filters(found: Imported) -> Any:
    return recorded(found)["domains"][0]["filters"]


def chain(found: Imported) -> Chain:
    return Chain(rules_of(text_of(found)).domains[0], lambda _: lambda who: True)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_each_example_makes_a_configuration_that_can_run_once_its_gaps_are_filled(path: Path) -> None:
    found = import_config("miles", path)
    assert found.problems() == []
    assert {s.path[0] for s in found.to_write} >= {"run", "prompts", "engine", "learner"}
    assert found.carried or "later" in {one.fate for one in found.left} or path.stem == "recipe"


@pytest.mark.parametrize("name", ["zero_std", "tasks", "failure_policies"])
def test_constant_groups_are_rejected_by_default(name: str) -> None:
    assert filters(example(name)) == [ZERO_STD, ONE_VERSION]
    told = [chain(example(name)).decide(members(values), len(values)).reason for values in
            ([0.0, 0.0], [1.0, 1.0], [0.7] * 7, [0.0, 1.0], [0.0, 2e-8])]  # fmt: skip
    assert [reason is None for reason in told] == [False, False, False, True, True]


def test_the_switch_off_keeps_every_group() -> None:
    found = of("[training]\nfilter_zero_std_groups = false\n[core]\npublication_mode = 'refresh'")
    assert filters(found) == [{"type": "no_filter"}] and recorded(found)["publication"] == "refresh"


def test_truncated_responses_leave_measure_baseline_and_loss() -> None:
    found = example("exclude_truncated")
    record = recorded(found)
    assert filters(found)[0] == ZERO_STD | {"type": "finished_zero_std"}
    assert record["advantages"]["exclude_truncated"] is True and record["sample_masks"]["max_len_mask"] is True
    cut = member(2, 1.0, finish_reason=FinishReason.LENGTH)
    assert chain(found).decide([member(0, 0.0), member(1, 0.0), cut], 3).reason is not None
    assert chain(found).decide([member(0, 0.0), member(1, 1.0), cut], 3).reason is None


def test_a_filter_of_ones_own_is_to_be_written() -> None:
    found = example("own_filter")
    own = {"type": "custom", "factory": "my_package.filters:keep_hard", "options": {}, "on_error": "reject"}
    assert filters(found) == [own, ONE_VERSION]
    assert any("TO WRITE: my_package.filters.keep_hard anew" in line for line in found.text().splitlines())


@pytest.mark.parametrize("switch", ["", "[training]\nfilter_zero_std_groups = true\n"])
def test_a_filter_of_ones_own_beside_the_built_in_switch_is_refused_there_and_here(switch: str) -> None:
    (problem,) = of(f"{switch}[miles]\ndynamic_sampling_filter_path = 'a.b.keep'").problems()
    assert problem.startswith("filter_zero_std_groups: is true, but domain all has the custom filter")
    assert problem.endswith("[custom_and_built_in]")


def test_a_filter_of_ones_own_works_under_refresh_and_engine_drain() -> None:
    own = (
        "[core]\nfilter_zero_std_groups = false\npublication_mode = '{}'\n[miles]\ndynamic_sampling_filter_path = 'a.b'"
    )
    assert recorded(of(own.format("refresh")))["publication"] == "refresh"
    assert recorded(of(own.format("engine_drain"))).get("publication", "drain") == "drain"


@pytest.mark.parametrize(
    ("name", "key"),
    [("tasks", "data.tasks[0].task"), ("rl_manifest", "data.rl_manifest"), ("prompt_data", "data.prompt_data")],
)
def test_what_of_the_data_can_not_be_read_yet_is_told(name: str, key: str) -> None:
    found = example(name)
    (left,) = [one for one in found.left if one.key.startswith(key)]
    assert left.fate == "later" and "release" in left.why and left in found.lost


def test_held_out_data_is_looked_at_every_twenty_batches() -> None:
    assert recorded(example("tasks"))["evaluation"]["every"] == 20
    assert recorded(example("prompt_data"))["evaluation"]["every"] == 20
    assert recorded(example("zero_std"))["evaluation"]["every"] == 0


def test_recipes_are_rejected_there_too() -> None:
    (left,) = example("recipe").left
    assert "MILES rejects recipes too" in left.why


def test_failure_policies_become_those_of_verifiers() -> None:
    verifiers = recorded(example("failure_policies"))["verifiers"]
    assert {name: v["on_failure"] for name, v in verifiers.items()} == {
        "math": "raise", "code": "raise", "judge": "zero",
    }  # fmt: skip
    assert verifiers["math"]["options"] == {"timeout_s": 45}
    assert {v["factory"].partition(".")[0] for v in verifiers.values()} == {"pipeline"}
    assert [s.path for s in example("failure_policies").to_write if s.path[0] == "verifiers"] == [
        ("verifiers", "judge", "options", "model")
    ]


def test_the_verifier_of_a_task_is_carried_over_though_its_prompts_are_not() -> None:
    verifiers = recorded(example("tasks"))["verifiers"]
    assert {name: v["on_failure"] for name, v in verifiers.items()} == {"gsm8k": "zero"}


WHOLE = """
name = "large"
[data]
prompt_data = "train.jsonl"
reward_config = "verifiers.json"
seed = 3
shuffle = false
[training]
num_rollouts = 200
save_interval = 5
[inference]
rollout_batch_size = 64
samples_per_prompt = 4
global_batch_size = 256
max_response_length = 32768
[optimizer]
learning_rate = 0.000001
eps_clip_high = 0.3
[core]
publication_mode = "refresh"
router_aux_loss_weight = 0.0
[miles]
rollout_max_prompt_len = 2048
disable_grpo_std_normalization = false
strange_option = 1
[async]
fully_async = true
max_weight_staleness = 6
async_data_buffer_capacity_factor = 1.5
async_unused_samples_handler = "retry"
off_policy_correction = "tis"
"""


def test_a_whole_configuration_is_carried_over() -> None:
    found = of(WHOLE)
    record = recorded(found)
    told = {key: record[key] for key in ("run", "seed", "steps", "group_size", "checkpoint_every", "max_prompt_tokens")}
    assert told == {
        "run": "large", "seed": 3, "steps": 200, "group_size": 4, "checkpoint_every": 5, "max_prompt_tokens": 2048,
    }  # fmt: skip
    assert (record["async_ratio"], record["max_staleness"], record["expired_replacement"]) == (1.5, 6, "same_prompt")
    assert filters(found) == [ZERO_STD] and record["domains"][0]["quota"] == 64
    assert record["prompts"]["options"] == {"shuffle": False} and record["too_long"] == "error"
    assert record["advantages"] == {"kind": "grpo", "eps": 1e-6, "exclude_truncated": False}
    assert record["correction"]["weight"] == {"weight_type": "token", "lower": 0.0, "upper": 2.0}
    assert (record["loss"]["clip_low"], record["loss"]["clip_high"]) == (0.8, 1.3)
    assert [one.key for one in found.lost] == ["data.prompt_data", "data.reward_config", "miles.strange_option"]


@pytest.mark.parametrize(("handler", "answer"), [("retry", "same_prompt"), ("drop", "next_prompt")])
def test_a_handler_of_unused_samples_is_for_groups_too_old_and_says_what_becomes_of_aborted_ones(
    handler: str, answer: str
) -> None:
    found = of(WHOLE.replace('"retry"', f'"{handler}"'))
    (line,) = [line for line in found.text().splitlines() if line.startswith("expired_replacement")]
    assert f": {answer} " in line and "of an aborted one the responses that are missing are asked for again" in line
    record = recorded(found)
    assert (record["replacement"], record["assembly"]["count"]) == ("next_prompt", "valid")  # so that they are


def test_other_updates_of_a_batch_take_their_part_of_the_staleness() -> None:
    record = recorded(of(WHOLE.replace("global_batch_size = 256", "global_batch_size = 128")))
    assert record["max_staleness"] == 5


def test_a_switch_that_is_given_twice_differently_is_told() -> None:
    found = of("[training]\nfilter_zero_std_groups = true\n[core]\nfilter_zero_std_groups = false")
    assert filters(found)[0] == ZERO_STD
    assert [one.key for one in found.lost] == ["core.filter_zero_std_groups"]
