"""What becomes of a RAGEN configuration: above all its selection of groups by how much they teach."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn, get_args

from pipeline.config.imports.answers import At, NotCarried, Setting
from pipeline.config.imports.asked import ask_for_environment, ask_for_plugins
from pipeline.config.imports.foreign import Foreign
from pipeline.config.imports.ragen_left import LEFT
from pipeline.config.imports.rules import run_name, whole
from pipeline.config.imports.table import Draft, Row, Rule, System
from pipeline.domain.selection.rules import Metric

ROLLOUT = "actor_rollout_ref.rollout"
ACTOR = "actor_rollout_ref.actor"
METRICS = get_args(Metric)
WAY = "RAGEN's way, not a setting there"


def _number(*path: str) -> Rule:
    def rule(at: At) -> Iterator[Setting]:
        yield at.set(*path, value=at.number())

    return rule


def _word(*path: str, known: tuple[str, ...]) -> Rule:
    def rule(at: At) -> Iterator[Setting]:
        yield at.set(*path, value=at.word(*known))

    return rule


def _include_zero(at: At) -> Iterator[Setting]:
    yield at.set("selection", "include_zero", value=at.flag())


def _ratio(at: At) -> Iterator[Setting]:
    if at.file.get(f"{ROLLOUT}.rollout_filter_value") is not None:
        raise NotCarried("rollout_filter_value is given, and RAGEN reads that", "not_needed")
    yield at.set("selection", "value", value=at.number())


def _env_groups(at: At) -> Iterator[Setting]:
    yield at.set("domains", _domain(at.file), "quota", value=at.whole(1))
    yield at.set("selection", "window", value=at.whole(1), note="selected from all groups of a step at once")


def _tags(at: At) -> NoReturn:
    if isinstance(at.value, list) and len(at.value) == 1:
        raise NotCarried("it names the domain", "not_needed")
    raise NotCarried("a selection compares all groups of a step, so they are one domain", "elsewhere")


def _soft(at: At) -> Iterator[Setting]:
    yield at.set("selection", "weights", value="soft" if at.flag() else "none")


def _save(at: At) -> Iterator[Setting]:
    if at.value == -1:
        raise NotCarried("is -1, never; a run always has checkpoints, here every 10 batches")
    yield at.set("checkpoint_every", value=at.whole(1))


def _test(at: At) -> Iterator[Setting]:
    if at.value == -1:
        yield at.set("evaluation", "every", value=0, note="never")
        return
    if at.whole() and not at.file.names("es_manager.val"):
        raise NotCarried("the file names no environments for validation; name eval_prompts", "not_needed")
    yield at.set("evaluation", "every", value=at.whole())


def _val(name: str) -> Rule:
    def rule(at: At) -> Iterator[Setting]:
        if at.file.get("trainer.test_freq", 10) in (-1, 0):
            raise NotCarried("nothing is evaluated", "not_needed")
        yield at.set("evaluation", name, value=at.whole(1))

    return rule


def _before(at: At) -> NoReturn:
    if at.flag():
        raise NotCarried("where there is evaluation, it is always done before the first batch", "not_needed")
    raise NotCarried("where there is evaluation, it is always done before the first batch")


def _advantages(at: At) -> Iterator[Setting]:
    if at.word() != "grpo":
        raise NotCarried(f"{at.value} is the learner's to compute; here a group's own mean is taken away", "elsewhere")
    scaled = at.file.get("algorithm.norm_adv_by_std_in_grpo", True) is True
    yield at.set("advantages", "kind", value="grpo" if scaled else "dr_grpo", note="with norm_adv_by_std_in_grpo")
    if scaled:
        yield at.set("advantages", "eps", value=1e-6, note="its own")


def _by_std(at: At) -> NoReturn:
    grpo = at.file.get("algorithm.adv_estimator") == "grpo"
    raise NotCarried("it is in advantages.kind" if grpo else "only grpo reads it", "not_needed")


def _aggregation(at: At) -> Iterator[Setting]:
    known = ("token-mean", "seq-mean-token-sum", "seq-mean-token-mean")
    yield at.set("loss", "aggregation", value=at.word(*known))
    yield at.set("loss", "impl", value="verl", note="its own way to divide")


def _clip(name: str, sign: int) -> Rule:
    def rule(at: At) -> Iterator[Setting]:
        yield at.set("loss", name, value=round(1 + sign * at.number(), 12), note=f"1 {'+' if sign > 0 else '-'} it")

    return rule


def _domain(file: Foreign) -> str:
    tags = file.get("es_manager.train.env_configs.tags")
    return str(tags[0]) if isinstance(tags, list) and len(tags) == 1 else "environment"


def _finish(draft: Draft) -> None:
    draft.put("selection", "refill", value=False, origin=f"{WAY}: what isn't kept makes the step smaller")
    draft.put("selection", "variance_stop", value=True, origin=f"{WAY}: it stops when rewards collapse")
    draft.put("filters", "default", 0, "type", value="no_filter", origin="RAGEN rejects no group by itself")
    draft.put("async_ratio", value=0, origin=f"{WAY}: rollouts and training take turns")
    draft.put("max_staleness", value=0, origin=f"{WAY}: rollouts and training take turns")
    ask_for_environment(draft)
    ask_for_plugins(draft, evaluated=draft.value("evaluation", "every") not in (None, 0))


ROWS = (
    Row("trainer.experiment_name", "run", "in lower case", run_name),
    Row("seed.train", "seed", "", whole("seed"), default=10_000),
    Row("trainer.total_training_steps", "steps", "", whole("steps", least=1), default=200),
    Row("trainer.save_freq", "checkpoint_every", "", _save, default=100),
    Row("trainer.test_freq", "evaluation.every", "-1: never", _test, default=10),
    Row("trainer.val_before_train", "", "evaluation is always done before the first batch", _before),
    Row("es_manager.train.env_groups", "domains.*.quota, selection.window", "", _env_groups, default=8),
    Row("es_manager.train.group_size", "group_size", "", whole("group_size", least=1), default=16),
    Row("es_manager.train.env_configs.tags", "domains", "one tag names the domain", _tags),
    Row("es_manager.val.env_groups", "evaluation.limit", "", _val("limit")),
    Row("es_manager.val.group_size", "evaluation.samples", "", _val("samples")),
    Row("agent_proxy.max_turn", "environment.max_turns", "", whole("environment", "max_turns", least=1), default=5),
    Row(f"{ROLLOUT}.rollout_filter_strategy", "selection.strategy", "",
        _word("selection", "strategy", known=("top_p", "top_k", "top_k_abs", "min_p")), default="top_p"),
    Row(f"{ROLLOUT}.rollout_filter_value", "selection.value", "", _number("selection", "value"), default=1.0),
    Row(f"{ROLLOUT}.rollout_filter_ratio", "selection.value", "the old name of it", _ratio),
    Row(f"{ROLLOUT}.rollout_filter_type", "selection.keep", "",
        _word("selection", "keep", known=("largest", "smallest")), default="largest"),
    Row(f"{ROLLOUT}.rollout_filter_include_zero", "selection.include_zero", "", _include_zero, default=True),
    Row(f"{ROLLOUT}.rollout_filter_top_p_prob_mode", "selection.mode", "",
        _word("selection", "mode", known=("linear", "softmax")), default="linear"),
    Row(f"{ROLLOUT}.rollout_filter_selection_eps", "selection.eps", "", _number("selection", "eps"), default=0.01),
    Row(f"{ROLLOUT}.rollout_filter_metric", "selection.metric", "reward_variance is the deviation in both",
        _word("selection", "metric", known=METRICS), default="reward_variance"),
    Row(f"{ROLLOUT}.rollout_filter_empty_stop_steps", "empty_stop_steps", "", whole("empty_stop_steps"), default=5),
    Row(f"{ACTOR}.filter_loss_scaling", "selection.loss_rescale", "",
        _word("selection", "loss_rescale", known=("none", "linear", "sqrt")), default="none"),
    Row("algorithm.soft_advantage_reweight", "selection.weights", "true: soft", _soft, default=False),
    Row("algorithm.adv_estimator", "advantages", "grpo; others are the learner's", _advantages),
    Row("algorithm.norm_adv_by_std_in_grpo", "advantages.kind", "true: grpo; false: dr_grpo", _by_std),
    Row(f"{ACTOR}.loss_agg_mode", "loss.aggregation", "with `impl: verl`", _aggregation, default="token-mean"),
    Row(f"{ACTOR}.clip_ratio_low", "loss.clip_low", "1 - it", _clip("clip_low", -1)),
    Row(f"{ACTOR}.clip_ratio_high", "loss.clip_high", "1 + it", _clip("clip_high", 1)),
    *LEFT,
)  # fmt: skip

RAGEN = System("RAGEN", ROWS, lambda file: "", _finish)
