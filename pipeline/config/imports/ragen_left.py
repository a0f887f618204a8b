"""The keys of RAGEN that aren't carried over, and why."""

from __future__ import annotations

from pipeline.config.imports.answers import Fate
from pipeline.config.imports.table import Row

ENVIRONMENT = "the environment's own: give it in environment.options"
ENGINE = "the engine's own: give it in engine.options"
LEARNER = "the learner's own: give it in learner.options"


def _rows(fate: Fate, why: str, *keys: str) -> tuple[Row, ...]:
    return tuple(Row(key, "", why, None, fate) for key in keys)


LEFT = (
    *_rows("unresolved", "other files aren't read: let Hydra compose them (`--cfg job --resolve`) and import that",
           "defaults.**"),
    *_rows("not_needed", "Hydra's own", "hydra.**"),
    *_rows("no_counterpart", "a batch is whole; nothing is copied into it or deleted", "agent_proxy.batch_adjust_mode"),
    *_rows("no_counterpart", "rewards aren't normalised before groups are ranked; the raw score is kept beside",
           "agent_proxy.reward_normalization.**"),
    *_rows("elsewhere", "the evaluation prompts' own: give it in eval_prompts.options", "seed.val",
           "es_manager.val.**", "trainer.validation_steps"),
    *_rows("elsewhere", ENVIRONMENT, "es_manager.format_penalty", "es_manager.train.env_configs.**", "es_manager.**",
           "custom_envs.**", "agent_proxy.**", "ctx_manager.**"),
    *_rows("elsewhere", ENGINE, "actor_rollout_ref.rollout.**", "actor_rollout_ref.model.**", "model_path", "lora.**",
           "data.**"),
    *_rows("elsewhere", LEARNER, "actor_rollout_ref.actor.**", "actor_rollout_ref.ref.**", "actor_rollout_ref.**",
           "critic.**", "algorithm.**", "micro_batch_size_per_gpu", "log_prob_micro_batch_size_per_gpu",
           "ppo_mini_batch_size", "enable_response_mask", "grpo_advantage_length_weight"),
    *_rows("not_needed", "where and with what a process runs, which decides nothing", "system.**",
           "trainer.n_gpus_per_node", "trainer.nnodes", "trainer.max_actor_ckpt_to_keep",
           "trainer.max_critic_ckpt_to_keep"),
    *_rows("not_needed", "what is written down while it runs; here metrics, the log and tamis status", "trainer.**",
           "collapse_detection.**"),
)  # fmt: skip
