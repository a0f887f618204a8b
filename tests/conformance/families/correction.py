"""Train-infer correction: ROLL's configuration as the product's, its masks and metrics back."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from pipeline.training.correction import Correction, CorrectionConfig, Filter, correct
from pipeline.training.ratios import LEVELS, Ratios

from ..family import Case, Family, NotCompared, Refused
from .purpose import REFUSED, departure

FILTER = {"agg_type": "level", "ratio_enabled": "ratio", "diff_enabled": "diff", "ratio_low": "ratio_low",
          "ratio_high": "ratio_high", "diff_low": "diff_low", "diff_high": "diff_high"}  # fmt: skip
OUTSIDE = NotCompared("a value outside the mask")
UNMASKED = NotCompared("a mean whose recorded sum runs over positions outside the mask")
NOT_FINITE = NotCompared("a recorded mean that is NaN or infinite; the product's is finite, over finite values")
POISONED = "what stands outside the mask never reaches a statistic"


def answer(case: Case) -> Mapping[str, Any]:
    """Masks, weights, ratios, diffs and metrics."""
    source = case["input"]
    whole = torch.tensor(source["mask"] if source["kind"] == "correction" else source["response_mask"])
    mask = whole if source["kind"] == "correction" else whole[:, 1:]
    train, sampler = _logprobs(source["train_logprobs"]), _logprobs(source["infer_logprobs"])
    try:
        found = correct(train, sampler, mask, _config(source["config"]))
    except ValueError as error:
        raise Refused(str(error)) from error
    assert train is not None and sampler is not None
    ratios = Ratios(train, sampler, mask.bool())
    return {
        "filter_mask": _inside(mask, found.mask.long()),
        "final_mask": found.mask.long().tolist(),
        "is_weight": _inside(mask, found.weights),
        "ratio": {level: _inside(mask, ratios.ratio(level)) for level in LEVELS},
        "diff": {level: _inside(mask, ratios.diff(level)) for level in LEVELS},
        "metrics": _metrics(mask, found, source["config"], case["expected"].get("metrics", {})),
    } | (_updated(source, whole, found) if source["kind"] == "batch" else {})


def _logprobs(values: Any) -> Tensor | None:
    return None if values is None else torch.tensor(values, dtype=torch.float32)


def _config(config: Mapping[str, Any]) -> CorrectionConfig:
    weight = config.get("is_weight", {})
    return CorrectionConfig(
        filters=tuple(Filter(**{FILTER[k]: v for k, v in f.items() if k in FILTER}) for f in _filters(config)),
        weight_level=weight.get("weight_type", "token") if weight.get("enabled") else None,
        weight_upper=weight.get("upper_bound", 1.2),
    )


def _filters(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [f for f in config.get("filters", []) if f.get("enabled")]


def _inside(mask: Tensor, values: Tensor) -> list[list[Any]]:
    pairs = zip(values.expand_as(mask).tolist(), mask.tolist(), strict=True)
    return [[v if m else OUTSIDE for v, m in zip(*row, strict=True)] for row in pairs]


def _updated(source: Mapping[str, Any], whole: Tensor, found: Correction) -> Mapping[str, Any]:
    """The masks of a batch, those that it names corrected. The leading column of the response mask stays."""
    names, final = source["update_mask_keys"] or ["response_mask"], source["final_response_mask"]
    masks = {"response_mask": torch.cat([whole[:, :1], found.mask.long()], 1).tolist()}
    if final is not None:
        named = "final_response_mask" in names
        masks["final_response_mask"] = (torch.tensor(final) * found.mask).tolist() if named else final
    return masks


def _metrics(
    mask: Tensor, found: Correction, config: Mapping[str, Any], recorded: Mapping[str, float]
) -> dict[str, Any]:
    """By the recorded names. There, a later filter of the same level takes the place of the one before."""
    over_mask = {f"actor/train_infer_{w}_{k}_mean@sum": f"{w}_{k}" for w in ("ratio", "diff") for k in LEVELS}
    over_mask["actor/train_infer_final_mask_mean"] = "kept"
    over_all = {"actor/is_weight_clipfrac@sum": "weight_clipped"}
    for i, f in enumerate(_filters(config)):
        parts = {part: f"kept_{i}_{f['agg_type']}_{part}" for part in ("ratio", "diff")}
        over_all |= {f"actor/train_infer_{f['agg_type']}_{p}_mask_mean@sum": ours for p, ours in parts.items()}
    whole = bool(mask.all())
    named = {name: found.metrics.get(ours) for name, ours in over_mask.items()}
    named |= {name: found.metrics.get(ours) if whole else UNMASKED for name, ours in over_all.items()}
    finite = all(map(isfinite, found.metrics.values()))
    return named | {name: NOT_FINITE for name, value in recorded.items() if finite and not isfinite(value)}


FAMILIES = {
    "train_infer_correction": Family(
        answer,
        departures=[
            departure(
                POISONED,
                ["geometric_minus_inf_masked_out", "sequence_minus_inf_masked_out"],
                {"final_mask": [[1, 0, 1]]},
            ),
            departure(
                "missing log-probabilities are an error", ["batch_missing_infer", "batch_missing_train"], REFUSED
            ),
        ],
    )
}
