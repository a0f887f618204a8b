"""The settings that the page is about, and their defaults as it writes them."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from pipeline.config import DecisionConfig
from pipeline.config.models import Assembly, Domain, Evaluation, Payload, Starvation
from pipeline.config.values import _bytes, _milliseconds

from .formula import value_of

PARTS = {
    "assembly": Assembly,
    "starvation": Starvation,
    "payload": Payload,
    "evaluation": Evaluation,
    "domains": Domain,
}
ELSEWHERE = {
    "run", "seed", "steps", "start", "prompts", "eval_prompts", "engine", "environment", "verifiers", "learner",
    "metric", "filter_zero_std_groups", "filters", "guard", "shadow_filters", "response_filter", "selection",
    "partitions", "filter_partitions", "advantages", "correction", "loss", "sample_masks", "checkpoint_every",
    "record_text", "tick", "domains.filters", "domains.guard", "domains.shadow_filters", "evaluation.every",
    "evaluation.samples", "evaluation.max_open", "evaluation.limit",
}  # fmt: skip
"""Settings that are no policy: what a run is made of, and what other chapters and pages are about."""


def default(field: Any) -> Any:
    """A field's default as the page writes it, with nothing else given."""
    if field.is_required():
        return "required"
    value = field.default_factory({}) if field.default is PydanticUndefined else field.default
    return "none" if value is None else json.dumps(value)


def is_default(cell: str, name: str, field: Any) -> bool:
    """Whether a cell is the default: written with its unit where it has one, as a formula where it follows another."""
    if cell.startswith("`"):
        ratios = (0.0, 0.5, 1.0, 2.5)
        follow = [field.default_factory({"async_ratio": ratio}) for ratio in ratios]
        return follow == [value_of(cell.strip("`"), {"async_ratio": ratio}) for ratio in ratios]
    if name.endswith("_ms"):
        return not cell.isdigit() and _milliseconds(cell) == field.default
    if name == "max_bytes":
        return not cell.isdigit() and _bytes(cell) == field.default
    return bool(cell == default(field))


def fields_of(model: type[BaseModel], prefix: str = "") -> dict[str, tuple[str, Any]]:
    """The settings of a section as a person writes them: the field's name and the field."""
    fields = model.model_fields.items()
    return {f"{prefix}{field.alias or name}": (name, field) for name, field in fields if name != "type"}


def policy_fields() -> dict[str, tuple[str, Any]]:
    """All settings that are policies."""
    whole = fields_of(DecisionConfig)
    for part, model in PARTS.items():
        del whole[part]
        whole |= fields_of(model, f"{part}.")
    return {path: field for path, field in whole.items() if path not in ELSEWHERE}
