"""Train-infer correction: ROLL's configuration as the product's, its masks and metrics back."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite, isnan
from typing import Any

import torch
from torch import Tensor

from pipeline.training.correction import Correction, CorrectionConfig, Filter, correct
from pipeline.training.ratios import LEVELS, Ratios

from ..family import Case, Departure, Family, NotCompared, Refused
from .purpose import refused

FILTER = {"agg_type": "level", "ratio_enabled": "ratio", "diff_enabled": "diff", "ratio_low": "ratio_low",
          "ratio_high": "ratio_high", "diff_low": "diff_low", "diff_high": "diff_high"}  # fmt: skip
OUTSIDE = NotCompared("a value outside the mask")
UNMASKED = NotCompared("a mean whose recorded sum runs over positions outside the mask")
NAN_WEIGHT = NotCompared("a recorded weight of NaN; the product's is 0, and its token masked")
NOT_FINITE = NotCompared("a recorded mean that is NaN or infinite; the product's is finite, over finite values")
POISONED = "what stands outside the mask never reaches a statistic"


def answer(case: Case) -> Mapping[str, Any]:
    """Masks, weights, ratios, diffs and metrics."""
    source = case["input"]
    whole = torch.tensor(source["mask"] if source["kind"] == "correction" else source["response_mask"])
    mask = whole if source["kind"] == "correction" else whole[:, 1:]
    train, sampler = _logprobs(source["train_logprobs"]), _logprobs(source["infer_logprobs"])
    off = (train is None or sampler is None) and not _enabled(source["config"])
    try:
        found = correct(train, sampler, mask, None if off else _config(source["config"]))
    except ValueError as error:
        raise Refused(str(error)) from error
    updated = _updated(source, whole, found) if source["kind"] == "batch" else {}
    if train is None or sampler is None:
        return updated | {"is_weight": found.weights.tolist(), "metrics": found.metrics}
    ratios = Ratios(train, sampler, mask.bool())
    return updated | {
        "filter_mask": _inside(mask, found.mask.long()),
        "final_mask": found.mask.long().tolist(),
        "is_weight": _weights(mask, found, case["expected"].get("is_weight", [])),
        "ratio": {level: _inside(mask, ratios.ratio(level)) for level in LEVELS},
        "diff": {level: _inside(mask, ratios.diff(level)) for level in LEVELS},
        "metrics": _metrics(mask, found, source["config"], case["expected"].get("metrics", {})),
    }


def _logprobs(values: Any) -> Tensor | None:
    return None if values is None else torch.tensor(values, dtype=torch.float32)


def _enabled(config: Mapping[str, Any]) -> bool:
    return bool(_filters(config) or config.get("is_weight", {}).get("enabled"))


def _config(config: Mapping[str, Any]) -> CorrectionConfig:
    weight = config.get("is_weight", {})
    return CorrectionConfig(
        filters=tuple(Filter(**{FILTER[k]: v for k, v in f.items() if k in FILTER}) for f in _filters(config)),
        weight_level=weight.get("weight_type", "token") if weight.get("enabled") else None,
        weight_upper=weight.get("upper_bound", 1.2),
    )


def _filters(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [f for f in config.get("filters", []) if f.get("enabled")]


def _level(filter: Mapping[str, Any]) -> str:
    return str(filter.get("agg_type", "token"))


def _inside(mask: Tensor, values: Tensor) -> list[list[Any]]:
    pairs = zip(values.expand_as(mask).tolist(), mask.tolist(), strict=True)
    return [[v if m else OUTSIDE for v, m in zip(*row, strict=True)] for row in pairs]


def _weights(mask: Tensor, found: Correction, recorded: list[list[float]]) -> list[list[Any]]:
    ours, kept = _inside(mask, found.weights), found.mask.tolist()
    for row, values in enumerate(recorded):
        for at, value in enumerate(values):
            if isnan(value) and ours[row][at] == 0.0 and not kept[row][at]:
                ours[row][at] = NAN_WEIGHT
    return ours


def _updated(source: Mapping[str, Any], whole: Tensor, found: Correction) -> Mapping[str, Any]:
    """The masks of a batch, those that it names corrected. The leading column of the response mask stays."""
    names, final = source.get("update_mask_keys") or ["response_mask"], source.get("final_response_mask")
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
        parts = {part: f"kept_{i}_{_level(f)}_{part}" for part in ("ratio", "diff")}
        over_all |= {f"actor/train_infer_{_level(f)}_{p}_mask_mean@sum": ours for p, ours in parts.items()}
    whole = bool(mask.all())
    named = {name: found.metrics.get(ours) for name, ours in over_mask.items()}
    named |= {name: found.metrics.get(ours) if whole else UNMASKED for name, ours in over_all.items()}
    finite = all(map(isfinite, found.metrics.values()))
    return named | {name: NOT_FINITE for name, value in recorded.items() if finite and not isfinite(value)}


def _numbers(case: Case) -> list[tuple[float, float, int]]:
    """Each position's log-probabilities and mask."""
    source = case["input"]
    if source["train_logprobs"] is None or source["infer_logprobs"] is None:
        return []
    mask = source["mask"] if "mask" in source else [row[1:] for row in source["response_mask"]]
    rows = zip(source["train_logprobs"], source["infer_logprobs"], mask, strict=True)
    return [place for row in rows for place in zip(*row, strict=True)]


def _poisoned(case: Case) -> bool:
    return any(not m and not (isfinite(t) and isfinite(s)) for t, s, m in _numbers(case))


def _cleaned(case: Case) -> Mapping[str, Any]:
    """The masks with a plain number in those places."""
    source = case["input"]
    mask = source["mask"] if "mask" in source else [row[1:] for row in source["response_mask"]]
    clean = {
        name: [[v if m else 0.0 for v, m in zip(*row, strict=True)] for row in zip(source[name], mask, strict=True)]
        for name in ("train_logprobs", "infer_logprobs")
    }
    got = answer({**case, "input": {**source, **clean}})
    return {name: got[name] for name in ("final_mask", "response_mask", "final_response_mask") if name in got}


def _missing(case: Case) -> bool:
    source = case["input"]
    return _enabled(source["config"]) and None in (source["train_logprobs"], source["infer_logprobs"])


def _kept_nan(case: Case) -> bool:
    """Without a filter, the recorded mask keeps a NaN."""
    return not _filters(case["input"]["config"]) and any(m and isnan(t - s) for t, s, m in _numbers(case))


def _without_nan(case: Case) -> Mapping[str, Any]:
    final = [v for row in case["expected"]["final_mask"] for v in row]
    kept = [0 if isnan(t - s) else v for (t, s, _), v in zip(_numbers(case), final, strict=True)]
    width = len(case["expected"]["final_mask"][0])
    return {"final_mask": [kept[i : i + width] for i in range(0, len(kept), width)]}


FAMILIES = {
    "train_infer_correction": Family(
        answer,
        kinds=frozenset({"batch", "correction"}),
        departures=[
            Departure("missing log-probabilities are an error", _missing, refused),
            Departure("what stands outside the mask never reaches a statistic", _poisoned, _cleaned),
            Departure("a NaN is masked out, filter or none", _kept_nan, _without_nan),
        ],
    )
}
