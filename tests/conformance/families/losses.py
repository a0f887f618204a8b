"""Loss aggregation, and ROLL's masks on samples."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from typing import Any

import torch

from pipeline.training.advantages import positional_groups
from pipeline.training.aggregation import AggregationConfig, aggregate
from pipeline.training.sample_masks import SampleMaskConfig, difficulty_mask, sample_mask

from ..family import Case, Departure, Family, Refused
from .purpose import departure

OUTSIDE = "what stands outside the mask never counts"
SWITCHES = {
    "difficulty_mask": "difficulty", "difficulty_low_threshold": "difficulty_low",
    "difficulty_high_threshold": "difficulty_high", "max_len_mask": "max_len",
    "error_max_len_clip": "error_max_len", "error_max_len_threshold": "error_tokens",
}  # fmt: skip
SHARES = {"max_len": "max_len", "difficulty": "difficulty", "error_max_len": "error_len", "final": "final"}


def loss(case: Case) -> Mapping[str, Any]:
    """One number from losses and a mask."""
    source = case["input"]
    try:
        config = AggregationConfig(
            source["mode"], source["impl"], norm=source.get("loss_scale_factor"), ranks=source.get("dp_size", 1)
        )
    except ValueError as error:
        raise Refused(str(error)) from error
    value, _ = aggregate(
        torch.tensor(source["loss"]),
        torch.tensor(source["mask"]),
        config,
        tokens=source.get("batch_num_tokens"),
        rows=source.get("global_valid_samples", source.get("global_batch_size")),
        row_weights=torch.tensor(source["weights"]) if "weights" in source else None,
    )
    return {"value": float(value)}


def masks_of_difficulty(case: Case) -> Mapping[str, Any]:
    """The kind difficulty_mask of roll_rlvr_filter."""
    scores, config = case["input"]["scores"], case["input"]["config"]
    bounds = {word: config[f"{word}_threshold"] for word in ("low", "high") if f"{word}_threshold" in config}
    try:
        return {"mask": difficulty_mask(scores, positional_groups(len(scores), config["n_sample"]), **bounds)}
    except ValueError as error:
        raise Refused(str(error)) from error


def masks_of_samples(case: Case) -> Mapping[str, Any]:
    """The kind sample_mask of roll_rlvr_filter."""
    source = case["input"]
    scores, lengths = source["scores"], source["response_lengths"]
    config = SampleMaskConfig(**{SWITCHES[name]: value for name, value in source["config"].items()})
    groups = positional_groups(len(scores), source["n_sample"])
    found = sample_mask(lengths, scores, groups, source["max_response_length"], config)
    tokens = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    metrics = {f"actor/{theirs}_mask_ratio": found.shares[ours] for ours, theirs in SHARES.items()}
    used = {"actor/samples_used": float(found.kept.count(True)), "actor/samples_total": float(len(found.kept))}
    return {
        "sample_kept": found.kept,
        "kept_tokens": found.on(tokens).sum(1).tolist(),
        "metrics": metrics | used,
    }


SAMPLE_MASK_DEPARTURES = [
    departure(
        "error_max_len masks a score between 0 and 1 by its length alone",
        ["sample_mask_error_partial_score"],
        {"sample_kept": [True] * 4, "kept_tokens": [2] * 4},
    )
]
ROLL_TOKEN_MEAN = {
    "ragged": -0.2882857,
    "empty_row": -1.0476667,
    "all_empty": nan,
    "weights": -0.3422143,
    "tokens_given": -0.13045,
    "samples_given": -0.0124286,
    "middle_hole": 0.5362,
    "all_equal": 0.75,
    "large": 142857.14,
    "nan_outside_mask": -0.3637143,
}
NAN_OUTSIDE = {"seq-mean-token-sum": -0.1465, "seq-mean-token-mean": 0.208375, "seq-mean-token-sum-norm": -0.562}


def _departures() -> list[Departure]:
    named = {f"roll_token-mean_{name}": value for name, value in ROLL_TOKEN_MEAN.items()}
    for impl in ("roll", "verl"):
        named |= {f"{impl}_{mode}_nan_outside_mask": value for mode, value in NAN_OUTSIDE.items()}
    return [departure(OUTSIDE, [name], {"value": value}) for name, value in named.items()]


FAMILIES = {"loss_aggregation": Family(loss, departures=_departures())}
