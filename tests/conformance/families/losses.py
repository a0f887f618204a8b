"""Loss aggregation, and ROLL's masks on samples."""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum, isfinite, nan
from typing import Any

import torch

from pipeline.training.advantages import positional_groups
from pipeline.training.aggregation import AggregationConfig, aggregate
from pipeline.training.sample_masks import SampleMaskConfig, difficulty_mask, sample_mask

from ..family import Case, Departure, Family, Refused

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
    switches = {SWITCHES[name]: value for name, value in source["config"].items()}
    config = SampleMaskConfig(**switches, max_tokens=source["max_response_length"])
    groups = positional_groups(len(scores), source["n_sample"])
    found = sample_mask(lengths, scores, groups, config)
    tokens = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    metrics = {f"actor/{theirs}_mask_ratio": found.shares[ours] for ours, theirs in SHARES.items()}
    used = {"actor/samples_used": float(found.kept.count(True)), "actor/samples_total": float(len(found.kept))}
    return {
        "sample_kept": found.kept,
        "kept_tokens": found.on(tokens).sum(1).tolist(),
        "metrics": metrics | used,
    }


def _partial(case: Case) -> bool:
    """A score between 0 and 1, for which ROLL has neither a right answer's rule nor a wrong one's."""
    source = case["input"]
    return bool(source["config"].get("error_max_len_clip")) and any(0.0 < s < 1.0 for s in source["scores"])


def _by_length(case: Case) -> Mapping[str, Any]:
    """What the mask by length gives to partial scores, where the others are off."""
    source, recorded = case["input"], case["expected"]["sample_kept"]
    limit = source["config"].get("error_max_len_threshold", SampleMaskConfig().error_tokens)
    zipped = zip(source["scores"], source["response_lengths"], recorded, strict=True)
    return {"sample_kept": [n < limit if 0.0 < score < 1.0 else kept for score, n, kept in zipped]}


def _counts_outside(case: Case) -> bool:
    """ROLL's token-mean sums over all positions; elsewhere a NaN times 0 is NaN."""
    source = case["input"]
    rows = zip(source["loss"], source["mask"], strict=True)
    pairs = [pair for row in rows for pair in zip(*row, strict=True)]
    summed = source["impl"] == "roll" and source["mode"] == "token-mean"
    return any(not m and (summed or not isfinite(v)) for v, m in pairs) and "value" in case["expected"]


def _inside(case: Case) -> Mapping[str, Any]:
    """By the definitions of the modes."""
    source, mode = case["input"], case["input"]["mode"]
    rows = [
        [v for v, m in zip(values, mask, strict=True) if m]
        for values, mask in zip(source["loss"], source["mask"], strict=True)
    ]
    sums = [w * fsum(row) for row, w in zip(rows, source.get("weights", [1.0] * len(rows)), strict=True)]
    if mode == "seq-mean-token-mean":
        sums = [total / max(len(row), 1) for row, total in zip(rows, sums, strict=True)]
    filled = len(rows) if source["impl"] == "roll" else len([row for row in rows if row])
    divisor = {
        "token-mean": source.get("batch_num_tokens", len([v for row in rows for v in row])),
        "seq-mean-token-sum-norm": source.get("loss_scale_factor", len(source["mask"][0])),
    }.get(mode, source.get("global_valid_samples", source.get("global_batch_size", filled)))
    return {"value": fsum(sums) * source.get("dp_size", 1) / divisor if divisor else nan}


SAMPLE_MASK_DEPARTURES = [
    Departure("error_max_len masks a score between 0 and 1 by its length alone", _partial, _by_length)
]
FAMILIES = {
    "loss_aggregation": Family(
        loss,
        kinds=frozenset({"roll", "verl"}),
        told_by="impl",
        departures=[Departure("what stands outside the mask never counts", _counts_outside, _inside)],
    )
}
