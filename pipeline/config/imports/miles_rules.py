"""Rules of MILES' keys about batches, asynchrony, training and verifiers."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import NoReturn

from pipeline.config.imports.answers import At, NotCarried, Setting
from pipeline.config.imports.foreign import Foreign
from pipeline.config.imports.miles_left import TASKS
from pipeline.config.imports.table import Rule

VERIFIERS = {
    "OI_MILES_MATH_TIMEOUT_POLICY": "math",
    "OI_MILES_CODE_FAILURE_POLICY": "code",
    "OI_MILES_JUDGE_FAILURE_POLICY": "judge",
}
"""What happens when a verifier fails is an environment variable there."""
SHIPPED = {
    "gsm8k": "pipeline.verifiers.gsm8k:Gsm8k",
    "math": "pipeline.verifiers.math:MathVerify",
    "code": "pipeline.verifiers.code:CodeTests",
    "judge": "pipeline.verifiers.llm_judge:LlmJudge",
}


def evaluates(file: Foreign) -> bool:
    """Whether there is held-out data."""
    tasks = file.get("data.tasks", {})
    counted = any(isinstance(task, dict) and task.get("eval_count") for task in tasks.values())
    return counted or bool(file.get("data.eval_prompt_data"))


def eval_interval(at: At) -> Iterator[Setting]:
    """How often held-out data is looked at."""
    every = at.whole()
    if not evaluates(at.file):
        raise NotCarried("the file has no held-out data", "not_needed")
    yield at.set("evaluation", "every", value=every)


def shuffle(at: At) -> Iterator[Setting]:
    """Whether prompts are shuffled."""
    yield at.set("prompts", "options", "shuffle", value=at.flag())


def max_prompt(at: At) -> Iterator[Setting]:
    """A longer prompt ends the preparation of data."""
    yield at.set("max_prompt_tokens", value=at.whole(1))
    yield at.set("too_long", value="error", note="a longer prompt is an error")


def global_batch(at: At) -> NoReturn:
    """Samples of an optimizer update."""
    updates = _updates(at.file)
    if updates != 1:
        raise NotCarried(f"a batch is {updates:g} updates of the learner: give it in learner.options", "elsewhere")
    raise NotCarried("it is the whole batch", "not_needed")


def fully_async(at: At) -> Iterator[Setting]:
    """Without it, generation and training take turns."""
    if not at.flag():
        yield at.set("async_ratio", value=0)
        yield at.set("max_staleness", value=0)
        return
    if at.file.number("async.max_weight_staleness") is None:
        yield at.set("async_ratio", value=_ratio(at.file))
        note = "MILES has no bound unless max_weight_staleness is given; here there always is one"
        yield at.set("max_staleness", value=ceil(_ratio(at.file)), note=note)
    elif at.file.number("async.async_data_buffer_capacity_factor") is None:
        yield at.set("async_ratio", value=_ratio(at.file), note="its buffer of two batches, if not too old")
    else:
        raise NotCarried("it is in async_ratio", "not_needed")


def staleness(at: At) -> Iterator[Setting]:
    """Versions between a group's oldest and the one that is trained."""
    at.whole()
    if at.file.get("async.fully_async") is not True:
        raise NotCarried("fully_async is off", "not_needed")
    note = f"less the {_updates(at.file) - 1:g} other updates of a batch" if _updates(at.file) > 1 else ""
    yield at.set("max_staleness", value=_bound(at.file), note=note)


def capacity(at: At) -> Iterator[Setting]:
    """Batches of finished groups that may wait."""
    at.number()
    if at.file.get("async.fully_async") is not True:
        raise NotCarried("fully_async is off", "not_needed")
    note = "groups ahead of training, in batches; no more than max_staleness allows"
    yield at.set("async_ratio", value=_ratio(at.file), note=note)


def unused(at: At) -> Iterator[Setting]:
    """What becomes of the prompt of a group that is too old. There an aborted group is given to it as well."""
    value = {"retry": "same_prompt", "drop": "next_prompt"}[at.word("retry", "drop")]
    note = "of groups that are too old; of an aborted one the responses that are missing are asked for again"
    yield at.set("expired_replacement", value=value, note=note)


def concurrent(at: At) -> Iterator[Setting]:
    """Responses under way at once."""
    group = int(at.file.number("inference.samples_per_prompt", 8))
    yield at.set("max_open_groups", value=max(at.whole(1) // max(group, 1), 1))


def correction(at: At) -> Iterator[Setting]:
    """Truncated importance sampling, by token."""
    if at.word() != "tis":
        raise NotCarried("only tis has a counterpart (correction.weight)")
    low, high = at.file.number("miles.tis_clip_low", 0.0), at.file.number("miles.tis_clip", 2.0)
    yield at.set("correction", "weight", "weight_type", value="token")
    yield at.set("correction", "weight", "lower", value=low)
    yield at.set("correction", "weight", "upper", value=high, note="its tis_clip")
    yield at.set("correction", "denominator", value="original")


def publication(at: At) -> Iterator[Setting]:
    """How a new policy reaches the generators."""
    mode = at.word("barrier", "engine_drain", "refresh")
    yield at.set("publication", value="refresh" if mode == "refresh" else "drain")


def advantages(at: At) -> Iterator[Setting]:
    """Whether a group's advantages are divided by its deviation."""
    plain = at.flag()
    yield at.set("advantages", "kind", value="dr_grpo" if plain else "grpo")
    if not plain:
        yield at.set("advantages", "eps", value=1e-6, note="its own")


def clip(name: str, sign: int) -> Rule:
    """The range of the policy ratio."""

    def rule(at: At) -> Iterator[Setting]:
        yield at.set("loss", name, value=round(1 + sign * at.number(), 12), note=f"1 {'+' if sign > 0 else '-'} it")

    return rule


def on_failure(at: At) -> Iterator[Setting]:
    """What a failed verifier means: reward 0, or the end."""
    name = VERIFIERS[at.key.rpartition(".")[2]]
    yield at.set("verifiers", name, "factory", value=SHIPPED[name], note="ours for that")
    yield at.set("verifiers", name, "on_failure", value=at.word("zero", "raise"))
    if name == "math":
        yield at.set("verifiers", name, "options", "timeout_s", value=45, note="MILES' limit for one answer")


def task(at: At) -> Iterator[Setting]:
    """A named task: its verifier is here, its prompts aren't yet."""
    name = "gsm8k" if at.word().startswith("gsm8k") else at.value
    if name in SHIPPED:
        yield at.set("verifiers", name, "factory", value=SHIPPED[name], note="ours for that")
        yield at.set("verifiers", name, "on_failure", value="zero", note="MILES' default for any verifier")
    raise NotCarried(f"{'its verifier is carried over, ' if name in SHIPPED else ''}{TASKS}", "later")


def _updates(file: Foreign) -> float:
    """Optimizer updates of a batch."""
    samples = file.number("inference.rollout_batch_size", 8) * file.number("inference.samples_per_prompt", 8)
    return float(samples / (file.number("inference.global_batch_size") or samples or 1))


def _bound(file: Foreign) -> int:
    return max(int(file.number("async.max_weight_staleness", 0) - (_updates(file) - 1)), 0)


def _ratio(file: Foreign) -> float:
    """Batches ahead of training: what the buffer holds, and what staleness allows."""
    factor = float(file.number("async.async_data_buffer_capacity_factor", 2.0))
    bounded = file.number("async.max_weight_staleness") is not None
    return min(factor, float(_bound(file))) if bounded else factor
