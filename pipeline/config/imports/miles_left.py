"""The keys of MILES that aren't carried over, and why."""

from __future__ import annotations

from pipeline.config.imports.answers import Fate
from pipeline.config.imports.table import Row

ENGINE = "the engine's own: give it in engine.options"
LEARNER = "the learner's own: give it in learner.options"
HARDWARE = "where and with what a process runs, which decides nothing"
TRACKING = "what is written down while it runs; here metrics, the log and tamis status"
TASKS = (
    "the prompts of named tasks are prepared by a later release; until then write them as JSONL and name them "
    "in prompts (pipeline.prompts.jsonl:JsonlPrompts)"
)
COUNTS = "how many prompts are drawn, and how they are wrapped, belongs to what prepares them, in a later release"


def _rows(fate: Fate, why: str, *keys: str) -> tuple[Row, ...]:
    return tuple(Row(key, "", why, None, fate) for key in keys)


LEFT = (
    *_rows("later", COUNTS, "data.tasks.**"),
    *_rows("later", "manifests are adopted by a later release; until then name the prepared JSONL in prompts",
           "data.rl_manifest"),
    *_rows("later", "its records have another form than pipeline.prompts.jsonl:JsonlPrompts reads; a later release "
           "reads them, until then write them anew and name them in prompts", "data.prompt_data"),
    *_rows("later", "name them in eval_prompts; evaluation itself is carried over", "data.eval_prompt_data"),
    *_rows("later", "a registry of verifiers is read by a later release; until then write them in verifiers",
           "data.reward_config"),
    *_rows("no_counterpart", "MILES rejects recipes too: name tasks, a manifest or prompt data", "data.recipe"),
    *_rows("no_counterpart", "evaluation before the first batch is always done, where there is evaluation",
           "training.skip_eval_before_train"),
    *_rows("not_needed", "a run always has checkpoints", "training.save_checkpoints"),
    *_rows("elsewhere", "the verifier's own: give it in verifiers.<name>.options", "core.reward_zero_truncated",
           "core.reward_final_answer_only", "miles.custom_rm_path", "miles.group_rm", "miles.reward_key",
           "judges.**", "rubrics.**", "judging.**"),
    *_rows("elsewhere", "here prompts that aren't to be used are left out of prompts", "core.selection_table",
           "core.selection_sha256"),
    *_rows("no_counterpart", "what it does to groups can't be known; write a custom filter or selection",
           "miles.buffer_filter_path", "miles.rollout_sample_filter_path", "miles.rollout_all_samples_process_path",
           "miles.custom_async_data_buffer_path"),
    *_rows("no_counterpart", "here as many groups are opened as are missing, up to oversample_max times",
           "miles.over_sampling_batch_size", "inference.over_sampling_batch_size"),
    *_rows("not_needed", "slots of a group are asked for one by one, always", "async.rollout_submission_granularity"),
    *_rows("not_needed", "it is in correction.weight", "miles.use_tis", "miles.tis_clip", "miles.tis_clip_low"),
    *_rows("no_counterpart", "a run has one seed, which is data.seed", "miles.seed", "miles.rollout_seed"),
    *_rows("elsewhere", ENGINE, "model.**", "inference.max_response_length", "inference.max_context_length",
           "miles.rollout_temperature", "miles.custom_generate_function_path", "miles.partial_rollout"),
    *_rows("elsewhere", "evaluation by jobs of its own; here evaluation.every and eval_prompts", "evaluation.**"),
    *_rows("elsewhere", LEARNER, "optimizer.**", "core.router_aux_loss_weight", "core.router_z_loss_weight",
           "core.router_aux_loss_grouping", "core.router_aux_loss_reduction", "core.router_z_loss_reduction",
           "core.router_aux_count_source", "core.max_train_rollout_logprob_abs_diff", "core.scoring_pass_required",
           "core.scoring_check_interval", "core.fp32_lm_head", "core.max_policy_lag"),
    *_rows("not_needed", HARDWARE, "schema_version", "output.**", "launch.**", "trainer.**", "inference.**",
           "runtime.**", "compiler_cache.**", "core.**"),
    *_rows("not_needed", TRACKING, "tracking.**"),
)  # fmt: skip
