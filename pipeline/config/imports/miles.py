"""What becomes of a configuration of MILES, as open-instruct's workflow writes it (TOML)."""

from __future__ import annotations

from pipeline.config.imports import miles_filters as filters
from pipeline.config.imports import miles_rules as rules
from pipeline.config.imports.asked import ask_for_plugins
from pipeline.config.imports.foreign import Foreign
from pipeline.config.imports.miles_left import LEFT
from pipeline.config.imports.rules import run_name, whole
from pipeline.config.imports.table import Draft, Row, System

WAY = "MILES' way, not a setting there"


def _mode(file: Foreign) -> str:
    return ""


def _finish(draft: Draft) -> None:
    file = draft.file
    if rules.evaluates(file):
        if not draft.has("evaluation"):
            draft.put("evaluation", "every", value=20, origin="MILES' default of training.eval_interval")
    else:
        draft.put("evaluation", "every", value=0, origin="the file has no held-out data")
    filters.finish(draft)
    draft.put("replacement", value="next_prompt", origin=f"{WAY}: a rejected prompt comes again with the next pass")
    draft.put("starvation", "policy", value="wait", origin="MILES' way: it waits for ever; raise would end the run")
    if not draft.has("too_long"):
        draft.put("too_long", value="error", origin=f"{WAY}: no prompt is left out silently")
    ask_for_plugins(draft, evaluated=draft.value("evaluation", "every") != 0)
    if draft.has("verifiers", "judge"):
        what = "the model that judges; its service is named by TAMIS_JUDGE_URL or options.url"
        draft.ask("verifiers", "judge", "options", "model", value="my-judge", what=what)


ROWS = (
    Row("name", "run", "in lower case", run_name),
    Row("data.seed", "seed", "", whole("seed"), default=17),
    Row("data.tasks.*.task", "verifiers", "their prompts later", rules.task),
    Row("data.shuffle", "prompts.options.shuffle", "", rules.shuffle, default=True),
    Row("training.num_rollouts", "steps", "", whole("steps", least=1), default=100),
    Row("training.eval_interval", "evaluation.every", "needs held-out data", rules.eval_interval),
    Row("training.save_interval", "checkpoint_every", "", whole("checkpoint_every", least=1)),
    Row("training.filter_zero_std_groups", "filters.default", "zero_std with tol 1e-8, or finished_zero_std",
        filters.switch),
    Row("core.filter_zero_std_groups", "filters.default", "the same", filters.switch),
    Row("miles.dynamic_sampling_filter_path", "filters.default", "its own two; for yours a `custom` filter to write",
        filters.path),
    Row("miles.custom_reward_post_process_path", "advantages.exclude_truncated, sample_masks.max_len_mask",
        "exclude_truncated only", filters.post_process),
    Row("inference.rollout_batch_size", "domains.all.quota", "", whole("domains", "all", "quota", least=1), default=8),
    Row("inference.samples_per_prompt", "group_size", "", whole("group_size", least=1), default=8),
    Row("inference.global_batch_size", "", "the learner's, where it isn't the whole batch", rules.global_batch),
    Row("miles.rollout_max_prompt_len", "max_prompt_tokens, too_long: error", "", rules.max_prompt),
    Row("async.fully_async", "async_ratio, max_staleness", "false: 0", rules.fully_async, default=False),
    Row("async.max_weight_staleness", "max_staleness", "with fully_async", rules.staleness),
    Row("async.async_data_buffer_capacity_factor", "async_ratio", "with fully_async", rules.capacity),
    Row("async.async_unused_samples_handler", "expired_replacement",
        "of groups too old; retry: same_prompt; drop: next_prompt", rules.unused, default="drop"),
    Row("async.async_max_concurrent_samples", "max_open_groups", "over the group size", rules.concurrent),
    Row("async.off_policy_correction", "correction.weight", "tis: by token, at most 2", rules.correction),
    Row("core.publication_mode", "publication, filters.*.one_version", "refresh: refresh; else drain, of one version",
        rules.publication, default="barrier"),
    Row("miles.disable_grpo_std_normalization", "advantages.kind", "true: dr_grpo; false: grpo", rules.advantages,
        default=True),
    Row("optimizer.eps_clip", "loss.clip_low", "1 - it", rules.clip("clip_low", -1), default=0.2),
    Row("optimizer.eps_clip_high", "loss.clip_high", "1 + it", rules.clip("clip_high", 1), default=0.28),
    *(
        Row(f"launch.env.{key}", f"verifiers.{name}.on_failure", "", rules.on_failure)
        for key, name in rules.VERIFIERS.items()
    ),
    *LEFT,
)  # fmt: skip

MILES = System("MILES", ROWS, _mode, _finish)
