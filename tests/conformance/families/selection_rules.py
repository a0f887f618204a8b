"""What RAGEN's trainer does with a selection: loss rescale, soft weights, stops."""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum, isfinite
from typing import Any

from pipeline.domain import selection

from ..family import Case, Departure, Family, Refused
from .purpose import refused, roughly

FLOAT32 = "digits of a metric beyond float32"
ABSENT_LIMIT = 10
"""Empty steps before the recorded code stops when its configuration doesn't say."""


def answer(case: Case) -> Mapping[str, Any]:
    """By kind."""
    source = case["input"]
    kinds = {
        "loss_scaling": loss_scaling, "soft_reweight": soft_reweight, "empty_stop": empty_stop,
        "variance_stop": variance_stop,
    }  # fmt: skip
    try:
        found = kinds[source["kind"]](source)
    except ValueError as error:
        raise Refused(str(error)) from error
    recorded = case["expected"].get("metrics", {})
    near = {name: roughly([found["metrics"][name]], [recorded[name]], 1e-6, FLOAT32) for name in recorded}
    return found | ({"metrics": near} if near else {})


def loss_scaling(source: Mapping[str, Any]) -> Mapping[str, Any]:
    """Advantages after scaling."""
    scale = selection.loss_scale(source.get("filter_loss_scaling", "none"), source.get("kept_ratio", 1.0))
    return {"advantages": [a * scale for a in source["advantages"]]}


def soft_reweight(source: Mapping[str, Any]) -> Mapping[str, Any]:
    """Advantages after weighing."""
    weights = selection.soft_weights(source["group_std"])
    of_rows = [weight for weight in weights for _ in range(source["rows_per_group"])]
    metrics = {"min": min(weights), "max": max(weights), "mean": fsum(weights) / len(weights)}
    return {
        "advantages": [a * w for a, w in zip(source["advantages"], of_rows, strict=True)],
        "metrics": {f"train/soft_reweight_{name}": value for name, value in metrics.items()},
    }


def empty_stop(source: Mapping[str, Any]) -> Mapping[str, Any]:
    """Steps until the stop."""
    limit, counts, stopped = source["empty_stop_steps"], [0], False
    for kept in source["kept_samples_per_step"]:
        counts.append(selection.updated_empties(counts[-1], kept))
        if stopped := selection.empty_stop(counts[-1], ABSENT_LIMIT if limit is None else limit):
            break
    empties = len([count for count in counts if count])
    return _stop(counts[1:], stopped, "empty_filtered_steps") | {
        "consecutive_after": counts[1:],
        "empty_steps_counted_as_training_steps": empties - 1 if stopped else empties,
    }


def variance_stop(source: Mapping[str, Any]) -> Mapping[str, Any]:
    """Steps until the stop, and the base."""
    watch, steps, stopped = selection.SpreadWatch(), [], False
    for std in source["in_group_reward_std_per_nonempty_step"]:
        steps.append(std)
        if stopped := watch.collapsed(std):
            break
    return _stop(steps, stopped, "reward_variance_collapse") | {"base": fsum(watch.base) / len(watch.base)}


def _stop(steps: list[Any], stopped: bool, kind: str) -> dict[str, Any]:
    return {"steps_run": len(steps), "stopped": stopped, "stop_type": kind if stopped else None}


def _unknown_rescale(case: Case) -> bool:
    return case["input"].get("filter_loss_scaling", "none") not in ("none", "linear", "sqrt")


def _odd_deviation(case: Case) -> bool:
    return not all(map(isfinite, case["input"].get("group_std", [])))


FAMILIES = {
    "ragen_trainer_rules": Family(
        answer,
        kinds=frozenset({"empty_stop", "loss_scaling", "soft_reweight", "variance_stop"}),
        departures=[
            Departure("an unknown rescale is refused", _unknown_rescale, refused),
            Departure("a deviation that is not finite is refused", _odd_deviation, refused),
        ],
    )
}
