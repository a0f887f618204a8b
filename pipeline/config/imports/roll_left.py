"""The keys of ROLL that aren't carried over, and why."""

from __future__ import annotations

from pipeline.config.imports.answers import Fate
from pipeline.config.imports.table import Row

ENVIRONMENT = "an environment's own: give it in environment.options"
LEARNER = "the learner's own: give it in learner.options"
ENGINE = "the engine's own: give it in engine.options"
HARDWARE = "where and with what a process runs, which decides nothing"
TRACKING = "what is written down while it runs; here metrics, the log and tamis status"
DATA = "the prompts' own: give it in prompts.options"


def _rows(fate: Fate, why: str, *keys: str) -> tuple[Row, ...]:
    return tuple(Row(key, "", why, None, fate) for key in keys)


LEFT = (
    Row("defaults.**", "", "other files aren't read: let Hydra compose them (`--cfg job --resolve`) and import that",
        None, "unresolved"),
    Row("hydra.**", "", "Hydra's own", None, "not_needed"),
    Row("rewards.*.response_filter_config.**", "", "ROLL never reads it; ours: response_filter", None, "not_needed"),
    Row("rewards.*.tag_included", "", "here each prompt names its domain and its verifier", None, "elsewhere"),
    Row("rewards.*.query_filter_config.filter_args.**", "", "no filter of ROLL reads it", None, "not_needed"),
    Row("rewards.**", "", "the verifier's own: give it in verifiers.<domain>.options", None, "elsewhere"),
    Row("dataset_filter.**", "", "ROLL never reads it; here the prompts' own", None, "not_needed"),
    Row("user_defined_rollout_loop_cls", "",
        "a loop of your own can't be called here; what it rejects may be a custom response_filter or filter"),
    Row("generate_opt_level", "", "prompts are always scheduled one by one; 0 switches ROLL's filters off, which is "
        "carried over", None, "not_needed"),
    Row("max_additional_running_prompts", "", "here over-sampling has a factor, oversample_max, and a bound, "
        "max_open_groups"),
    Row("val_greedy", "", ENGINE, None, "elsewhere"),
    Row("val_env_manager.**", "", "evaluation has eval_prompts and evaluation.samples; ROLL filters it, here it isn't",
        None, "elsewhere"),
    Row("validation.**", "", "name these prompts in eval_prompts", None, "elsewhere"),
    Row("train_env_manager.max_traj_per_env", "", "follows from batch and async_ratio", None, "not_needed"),
    Row("use_pg_clip_range", "", "it is in loss.clip_low and loss.clip_high", None, "not_needed"),
    Row("enable_old_logprobs_recompute", "", "it is in correction.denominator, if there is a correction", None,
        "not_needed"),
    Row("batch_adjust_mode", "", "a batch is whole; nothing is copied into it or deleted", None, "no_counterpart"),
    *_rows("not_needed", "ROLL never reads it", "train_env_manager.dirty_data_mask", "dirty_data_mask"),
    *_rows("not_needed", "a request has one response, always", "is_num_return_sequences_expand"),
    *_rows("elsewhere", ENVIRONMENT, "custom_envs.**", "env_manager_cls", "max_tokens_per_step",
           "train_env_manager.format_penalty", "train_env_manager.llm_proxy.**", "format_penalty"),
    *_rows("elsewhere", DATA, "actor_train.data_args.**", "global_template", "vlm_filter.**"),
    *_rows("elsewhere", ENGINE, "actor_infer.**", "response_length", "sequence_length", "val_prompt_length",
           "val_sequence_length", "pretrain", "reward_pretrain"),
    *_rows("elsewhere", LEARNER, "actor_train.**", "reference.**", "critic.**", "reward.**", "reward_model.**",
           "ppo_epochs", "max_grad_norm", "l2", "lambd", "gamma", "value_clip", "kl_penalty", "target_kl",
           "init_kl_coef", "kl_horizon", "use_kl_loss", "kl_loss_coef", "entropy_loss_coef", "dual_clip_loss",
           "critic_warmup", "importance_sampling", "use_policy_loss_type", "ratio_type", "add_token_level_kl",
           "force_disable_old_logprobs_recompute", "enable_reference", "use_topr_loss", "rl_loss_coef",
           "postive_loss_coef", "use_topr_neg_loss_coef", "episode_reward_weight", "step_reward_weight",
           "step_reward_gamma", "mask_type", "balance_length", "minibatch_data_iter_num"),
    *_rows("no_counterpart", "rewards and advantages are changed by group alone; compute it in the learner",
           "whiten_advantages", "whiten_rewards", "advantage_clip", "reward_clip", "use_reward_scaling",
           "use_reward_norm", "add_len_reward", "difficulty_loss_weight", "length_loss_weight",
           "reward_normalization.**"),
    *_rows("not_needed", HARDWARE, "num_gpus_per_node", "num_nodes", "rpc_timeout", "local_rank", "system_envs.**",
           "max_running_requests", "model_update_buffer_size_mb", "is_offload_states", "model_download_type",
           "is_offload_optimizer_states_in_train_step", "checkpoint_config.**", "max_ckpt_to_keep", "output_dir",
           "base_dir", "router_args.**", "transfer_backend.**", "train_env_manager.max_env_num_per_worker",
           "train_env_manager.env_monitor.**", "env_monitor.**", "train_env_manager.worker_cls",
           "train_env_manager.model_args.**", "partial_gpu_mode"),
    *_rows("not_needed", TRACKING, "track_with", "tracker_kwargs.**", "logging_dir", "logging_steps",
           "rollout_dump_dir", "render_save_dir", "save_logging_board_dir", "profiler_timeline", "profiler_memory",
           "profiler_output_dir", "length_profiler_dir", "report_length_and_rewards"),
    Row("resume_from_checkpoint", "", "a run goes on by itself where it was", None, "not_needed"),
    Row("rollout_mock.**", "", "tamis what-if and replay take its place", None, "not_needed"),
    Row("val_batch_size", "", "evaluation takes all of eval_prompts, or evaluation.limit", None, "elsewhere"),
)  # fmt: skip
