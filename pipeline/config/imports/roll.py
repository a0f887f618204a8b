"""What becomes of a ROLL configuration: of its RLVR pipeline, and of its agentic one."""

from __future__ import annotations

from pipeline.config.imports import roll_rules as rules
from pipeline.config.imports import roll_training as training
from pipeline.config.imports.asked import ask_for_environment, ask_for_plugins
from pipeline.config.imports.foreign import Foreign
from pipeline.config.imports.roll_batch import batch, finish_batch, partition, probability
from pipeline.config.imports.roll_left import LEFT
from pipeline.config.imports.rules import run_name, whole
from pipeline.config.imports.table import Draft, Row, System

ARGS = "rewards.*.query_filter_config.filter_args"
WAY = "ROLL's way, not a setting there"


def _mode(file: Foreign) -> str:
    if any(file.names(key) for key in ("train_env_manager", "val_env_manager", "custom_envs")):
        return "agentic"
    known = ("rewards", "num_return_sequences_in_group", "user_defined_rollout_loop_cls")
    return "rlvr" if any(key in file.tree for key in known) else ""


def _finish(draft: Draft) -> None:
    file, agentic = draft.file, draft.mode == "agentic"
    finish_batch(draft)
    for domain in file.names("rewards"):
        if not draft.has("filters", domain):
            origin = f"ROLL's default of rewards.{domain}.query_filter_config.type"
            draft.put("filters", domain, 0, "type", value="no_filter", origin=origin)
    if not draft.has("filters"):
        draft.put("filters", "default", 0, "type", value="no_filter", origin="ROLL's default: it keeps every group")
    if draft.mode:
        draft.put("replacement", value="new_seed" if agentic else "next_prompt", origin=WAY)
        draft.put("expired_replacement", value="next_prompt", origin=WAY)
        draft.put("starvation", "policy", value="wait", origin="ROLL's way: it waits for ever; raise would end the run")
    if agentic:
        _finish_agentic(draft)
    if draft.has("correction"):
        again = file.get("enable_old_logprobs_recompute") is True or file.number("init_kl_coef", 0.2) > 0
        told = "recomputes the old log-probabilities" if again else "takes them from its one pass"
        value = "corrected" if again else "original"
        draft.put("correction", "denominator", value=value, origin=f"ROLL's way, as it {told}")
    ask_for_plugins(draft, evaluated=draft.value("evaluation", "every") not in (None, 0))
    if draft.mode == "rlvr":
        for domain in file.names("rewards"):
            name = f"my_package.verifiers:{domain.title().replace('-', '_')}"
            draft.ask(
                "verifiers", domain, "factory", value=name, what=f"what rewards.{domain} computes (pipeline/sdk.py)"
            )
            draft.put("verifiers", domain, "on_failure", value="raise", origin="ROLL's way: an error ends the run")


def _finish_agentic(draft: Draft) -> None:
    ask_for_environment(draft)
    broken = "ROLL's way: a broken episode stands with reward 0 and its tokens masked out"
    draft.put("environment", "on_failure", value="zero", origin=broken)
    draft.put("assembly", "count", value="any", origin="ROLL's way: the first arrivals, broken ones too, are a group")
    draft.put("oversample_max", value=1.0, origin="ROLL's way: no episodes beyond those that a batch needs")


ROWS = (
    Row("exp_name", "run", "in lower case", run_name),
    Row("seed", "seed", "", whole("seed"), default=42),
    Row("max_steps", "steps", "", rules.steps, default=500),
    Row("save_steps", "checkpoint_every", "", whole("checkpoint_every", least=1), default=50),
    Row("eval_steps", "evaluation.every", "needs `eval_prompts`", rules.eval_steps, default=10),
    Row("val_n_sample", "evaluation.samples", "", whole("evaluation", "samples", least=1), mode="rlvr"),
    Row("rollout_batch_size", "batch_size, or domains.*.quota", "RLVR counts prompts, agentic trajectories", batch),
    Row("actor_train.data_args.domain_interleave_probs.*", "domains.*.proportion", "", probability),
    Row(
        "num_return_sequences_in_group", "group_size", "", whole("group_size", least=1),
    ),
    Row("async_generation_ratio", "async_ratio, max_staleness, publication", "", rules.async_ratio, default=0),
    Row("is_use_additional_prompts", "oversample_max", "1 or 2", rules.additional, default=False, mode="rlvr"),
    Row("prompt_length", "max_prompt_tokens, too_long: skip", "", rules.prompt_length, default=1024, mode="rlvr"),
    Row("rewards.*.query_filter_config.type", "filters.*", "mean_filter with `compat: roll`", rules.filter_type),
    Row(f"{ARGS}.threshold_down", "filters.*.threshold_down", "", rules.filter_arg("threshold_down", "mean_filter")),
    Row(f"{ARGS}.threshold_up", "filters.*.threshold_up", "", rules.filter_arg("threshold_up", "mean_filter")),
    Row(f"{ARGS}.std_threshold", "filters.*.std_threshold", "", rules.filter_arg("std_threshold", "std_filter")),
    Row("train_env_manager.num_env_groups", "max_open_groups", "", whole("max_open_groups", least=1), mode="agentic"),
    Row("train_env_manager.group_size", "group_size", "", whole("group_size", least=1), mode="agentic"),
    Row("train_env_manager.group_size_redundancy", "redundancy", "", whole("redundancy"), default=0, mode="agentic"),
    Row("max_actions_per_traj", "environment.max_turns", "", whole("environment", "max_turns", least=1)),
    Row("train_env_manager.num_groups_partition", "domains.*.proportion", "with tags", partition),
    Row("train_env_manager.tags", "domains", "a domain for each", partition),
    Row(
        "train_env_manager.group_filter_cls", "filters.default, guard.default",
        "ROLL's own two; for yours a `custom` filter to write: true drops there, keeps here",
        rules.group_filter, default=rules.DEFAULT_GROUP_FILTER, mode="agentic",
    ),
    Row("train_infer_correction.filters.*.enabled", "correction.filters", "only enabled ones", training.correction_on),
    Row("train_infer_correction.filters.*.agg_type", "correction.filters.*.level", "", training.correction_level),
    *(
        Row(f"train_infer_correction.filters.*.{name}", f"correction.filters.*.{name}", "", training.correction(name))
        for name in ("ratio_enabled", "ratio_low", "ratio_high", "diff_enabled", "diff_low", "diff_high")
    ),
    Row("train_infer_correction.is_weight.enabled", "correction.weight", "", training.weight),
    Row("train_infer_correction.is_weight.weight_type", "correction.weight.weight_type", "", training.weight_part),
    Row("train_infer_correction.is_weight.upper_bound", "correction.weight.upper", "null: none", training.weight_part),
    Row("train_infer_correction.is_weight.detach", "", "here the weight is never differentiated", training.detach),
    Row("loss_agg_mode", "loss.aggregation", "with `impl: roll`", training.aggregation, default="seq-mean-token-mean"),
    Row("pg_clip", "loss.clip_low, loss.clip_high", "1 ∓ it", training.clip),
    Row("pg_clip_low", "loss.clip_low", "1 - it, with use_pg_clip_range", training.clip),
    Row("pg_clip_high", "loss.clip_high", "1 + it, with use_pg_clip_range", training.clip),
    Row("adv_estimator", "advantages", "grpo, reinforce by group; others are the learner's", training.advantages),
    Row("norm_mean_type", "advantages.kind", "with adv_estimator", training.norm),
    Row("norm_std_type", "advantages.kind", "with adv_estimator", training.norm),
    Row("difficulty_mask", "sample_masks.difficulty_mask", "", training.difficulty_on),
    Row("difficulty_low_threshold", "sample_masks.difficulty_mask.low", "", training.difficulty),
    Row("difficulty_high_threshold", "sample_masks.difficulty_mask.high", "", training.difficulty),
    Row("max_len_mask", "sample_masks.max_len_mask", "", training.max_len),
    Row("error_max_len_clip", "sample_masks.error_max_len_clip", "with its threshold", training.error_clip),
    Row("error_max_len_threshold", "sample_masks.error_max_len_clip", "", training.error_clip),
    *LEFT,
)  # fmt: skip

ROLL = System("ROLL", ROWS, _mode, _finish)
