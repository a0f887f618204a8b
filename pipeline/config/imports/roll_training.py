"""Rules of ROLL's keys about the training step: correction, loss, masks, advantages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from pipeline.config.imports.answers import At, NotCarried, Setting
from pipeline.config.imports.table import Rule

LEVELS = ("token", "segment", "geometric", "sequence")


def _enabled(at: At) -> int:
    """The place of a correction filter among those that are enabled."""
    filters = at.file.get("train_infer_correction.filters", {})
    on = [place for place, rule in filters.items() if isinstance(rule, dict) and rule.get("enabled") is True]
    if at.names[0] not in on:
        raise NotCarried("the filter is not enabled", "not_needed")
    return on.index(at.names[0])


def correction(name: str) -> Rule:
    def rule(at: At) -> Iterator[Setting]:
        value: Any = at.flag() if name.endswith("_enabled") else at.number()
        yield at.set("correction", "filters", _enabled(at), name, value=value)

    return rule


def correction_on(at: At) -> Iterator[Setting]:
    if at.flag():
        level = at.file.get(f"train_infer_correction.filters.{at.names[0]}.agg_type", "token")
        yield at.set("correction", "filters", _enabled(at), "level", value=level)
    else:
        raise NotCarried("the filter is not enabled", "not_needed")


def correction_level(at: At) -> Iterator[Setting]:
    yield at.set("correction", "filters", _enabled(at), "level", value=at.word(*LEVELS))


def weight(at: At) -> Iterator[Setting]:
    if not at.flag():
        raise NotCarried("no weight is applied", "not_needed")
    weight = at.file.get("train_infer_correction.is_weight", {})
    yield at.set("correction", "weight", "weight_type", value=weight.get("weight_type", "token"))
    upper = weight.get("upper_bound", 1.2)
    yield at.set("correction", "weight", "lower", value=0.0, note="ROLL has no lower bound")
    yield at.set("correction", "weight", "upper", value="none" if upper is None else upper)


def weight_part(at: At) -> Iterator[Setting]:
    if at.file.get("train_infer_correction.is_weight.enabled") is not True:
        raise NotCarried("no weight is applied", "not_needed")
    name = at.key.rpartition(".")[2]
    ours, value = ("upper", at.number()) if name == "upper_bound" else ("weight_type", at.word(*LEVELS))
    yield at.set("correction", "weight", ours, value=value)


def detach(at: At) -> NoReturn:
    if at.file.get("train_infer_correction.is_weight.enabled") is True and not at.flag():
        raise NotCarried("here the weight is a number, never differentiated")
    raise NotCarried("here the weight is never differentiated", "not_needed")


def aggregation(at: At) -> Iterator[Setting]:
    modes = ("token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm")
    mode = at.word(*modes)
    yield at.set("loss", "aggregation", value=mode)
    yield at.set("loss", "impl", value="roll", note="its own way to divide")
    if mode == "seq-mean-token-sum-norm":
        divisor = at.file.number("sequence_length") or (
            at.file.number("prompt_length", 1024) + at.file.number("response_length", 0)
        )
        yield at.set("loss", "divisor", value=float(divisor), note="its width of a padded row, sequence_length")


def clip(at: At) -> Iterator[Setting]:
    ranged = at.file.get("use_pg_clip_range", False) is True
    name = at.key.rpartition("_")[2]
    if (name == "clip") is ranged:
        raise NotCarried(f"ROLL doesn't read it with use_pg_clip_range {str(ranged).lower()}", "not_needed")
    if name in ("clip", "low"):
        yield at.set("loss", "clip_low", value=1 - at.number(), note="1 - it")
    if name in ("clip", "high"):
        yield at.set("loss", "clip_high", value=1 + at.number(), note="1 + it")


def difficulty(at: At) -> Iterator[Setting]:
    if at.file.get("difficulty_mask") is not True:
        raise NotCarried("difficulty_mask is not on", "not_needed")
    name = "low" if at.key.endswith("low_threshold") else "high"
    yield at.set("sample_masks", "difficulty_mask", name, value=at.number())


def difficulty_on(at: At) -> Iterator[Setting]:
    if not at.flag():
        raise NotCarried("it is off", "not_needed")
    for name, bound in (("low", 0.0), ("high", 1.0)):
        given = at.file.number(f"difficulty_{name}_threshold", bound)
        yield at.set("sample_masks", "difficulty_mask", name, value=given)


def max_len(at: At) -> Iterator[Setting]:
    if not at.flag():
        raise NotCarried("it is off", "not_needed")
    yield at.set("sample_masks", "max_len_mask", value=True)


def error_clip(at: At) -> Iterator[Setting]:
    on = at.file.get("error_max_len_clip") is True
    threshold = at.file.number("error_max_len_threshold", 9_999_999_999)
    if not on:
        raise NotCarried("error_max_len_clip is off", "not_needed")
    yield at.set("sample_masks", "error_max_len_clip", value=int(threshold))


def advantages(at: At) -> Iterator[Setting]:
    estimator = at.word()
    mean, std = at.file.get("norm_mean_type"), at.file.get("norm_std_type")
    if estimator not in ("grpo", "reinforce") or mean != "group" or std not in ("group", None):
        raise NotCarried(
            f"{estimator} with norm_mean_type {mean} and norm_std_type {std} is the learner's to compute; "
            "here a group's own mean is taken away, with or without its deviation (advantages)",
            "elsewhere",
        )
    yield at.set("advantages", "kind", value="grpo" if std else "dr_grpo", note="with norm_mean_type, norm_std_type")
    if std:
        yield at.set("advantages", "eps", value=1e-6, note="ROLL's")


def norm(at: At) -> NoReturn:
    if at.file.get("adv_estimator") in ("grpo", "reinforce") and at.file.get("norm_mean_type") == "group":
        raise NotCarried("it is in advantages.kind", "not_needed")
    raise NotCarried("the learner's to compute", "elsewhere")
