"""Every disagreement of a text of docs/filters.md with the code."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from pipeline.config import DecisionConfig
from pipeline.config.models import Assembly, Domain, Evaluation, Payload, Starvation
from pipeline.config.selection import CustomSelection, Ranked, Windows
from pipeline.config.values import _bytes, _milliseconds
from pipeline.domain.filters.guard import KEEPABLE
from pipeline.domain.selection.rules import Metric, Strategy
from pipeline.domain.selection.weights import Rescale
from pipeline.domain.vocabulary import Reason

from . import policies, product
from .examples import disagreements
from .formula import value_of
from .page import Section, sections

OF_FILTERS = {  # the reasons that each filter gives, beside `ungraded` and `non_finite_reward`
    "provenance": {"provenance"},
    "no_filter": set(),
    "drop_flag": {"drop_flag"},
    "finished_zero_std": {"insufficient_finished_responses", "zero_std"},
    "zero_std": {"zero_std"},
    "std_filter": {"std"},
    "mean_filter": {"mean_low", "mean_high"},
    "band": {"band"},
    "custom": {"custom", "filter_error"},
}
PARTS = {
    "assembly": Assembly,
    "starvation": Starvation,
    "payload": Payload,
    "evaluation": Evaluation,
    "domains": Domain,
}
STRATEGIES = ("top_p", "top_p, linear", "top_p, softmax", "top_k", "top_k_abs", "min_p, largest", "min_p, smallest")
SELECTION = {
    "metric": product.ranked,
    "weights": product.weighed,
    "loss_rescale": product.scaled,
    "variance_stop": product.collapsed,
}
ELSEWHERE = {
    "run", "seed", "steps", "prompts", "eval_prompts", "engine", "environment", "verifiers", "learner", "metric",
    "filter_zero_std_groups", "filters", "guard", "shadow_filters", "response_filter", "selection", "partitions",
    "filter_partitions", "advantages", "correction", "loss", "sample_masks", "checkpoint_every", "record_text", "tick",
    "domains.filters", "domains.guard", "domains.shadow_filters", "evaluation.every", "evaluation.samples",
    "evaluation.max_open", "evaluation.limit",
}  # fmt: skip
"""Settings that are no policy: what a run is made of, and what other chapters and pages are about."""


def problems(text: str, known: str = "") -> list[str]:
    """What the text says otherwise than the code. Sections of `known`, which has no problems, are passed by."""
    told, same = sections(text), sections(known)
    changed = {title: section for title, section in told.items() if section != same.get(title)}
    return [*_titles(told), *_settings(told), *_reasons(text, told), *_names(text), *_values(told), *_examples(changed)]


def _expected() -> dict[str, Any]:
    """Each section's title, and the settings whose parameters it lists; None: those of POLICIES, or none."""
    models: dict[str, Any] = {name: product.FILTERS[name] for name in OF_FILTERS} | product.GUARDS
    models |= {"selection: ranked": Ranked, "selection: custom": CustomSelection}
    models |= {f"strategy: {name}": None for name in STRATEGIES} | {f"selection {name}": None for name in SELECTION}
    models |= {f"policy: {name}": None for name in (*policies.POLICIES, *policies.UNTESTED)}
    return models | {f"predicate: {name}": model for name, model in product.PREDICATES.items()}


def _titles(told: Mapping[str, Section]) -> Iterator[str]:
    for title in told.keys() ^ _expected().keys():
        yield f"{title}: {'is nothing that there is' if title in told else 'has no section'}"
    for title, section in told.items():
        if not section.said("Origin"):
            yield f"{title}: no Origin"
        _, _, name = title.rpartition("policy: ")
        stage = policies.UNTESTED.get(name) or policies.POLICIES.get(name, [""])[0]
        if title.startswith("policy: ") and not re.search(rf"\bRuns\s+in\s+the\s+{stage}\b", section.text):
            yield f"{title}: it runs in the {stage}"


def default(field: Any) -> Any:
    """A field's default as the page writes it, with nothing else given."""
    if field.is_required():
        return "required"
    value = field.default_factory({}) if field.default is PydanticUndefined else field.default
    return "none" if value is None else json.dumps(value)


def _is_default(cell: str, name: str, field: Any) -> bool:
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


def _settings(told: Mapping[str, Section]) -> Iterator[str]:
    known = policy_fields()
    listed = {
        name: cell for title, s in told.items() if title.startswith("policy: ") for name, cell in s.parameters.items()
    }
    yield from _differing("policies", listed, known)
    for title, model in _expected().items():
        if model is not None and title in told:
            shared = Windows.model_fields if issubclass(model, Windows) else {}
            own = {name: field for name, field in fields_of(model).items() if name not in shared}
            yield from _differing(title, told[title].parameters, own)
            if not own and "It has no parameters" not in re.sub(r"\s+", " ", told[title].text):
                yield f"{title}: doesn't say that it has no parameters"


def _differing(title: str, listed: Mapping[str, str], fields: Mapping[str, tuple[str, Any]]) -> Iterator[str]:
    for name in listed.keys() ^ fields.keys():
        yield f"{title}: {name} {'is no setting' if name in listed else 'is not listed'}"
    for name in listed.keys() & fields.keys():
        if not _is_default(listed[name], *fields[name]):
            yield f"{title}: the default of {name} is not {listed[name]}"


def _reasons(text: str, told: Mapping[str, Section]) -> Iterator[str]:
    for title, reasons in OF_FILTERS.items():
        said = told[title].said("Reasons?") if title in told else ""
        words = set(re.findall(r"`(\w+)`", said or "")) & {r.value for r in Reason}
        if words != reasons:
            yield f"{title}: gives {sorted(reasons)}, not {sorted(words)}"
        if (
            reasons
            and title in told
            and title != "custom"
            and "easured:" not in told[title].text
            and "(measured:" not in told[title].text
        ):
            yield f"{title}: doesn't say what it measures"
    sentence = text.partition("for one of these reasons:")[2].partition(". ")[0]
    if re.findall(r"`(\w+)`", sentence) != [r.value for r in KEEPABLE]:
        yield "guards: other reasons may be overruled"


def _names(text: str) -> Iterator[str]:
    """Settings that are named in prose."""
    for part, name in re.findall(r"`(assembly|starvation|payload|evaluation)\.(\w+)`", text):
        if name not in fields_of(PARTS[part]):
            yield f"{part}.{name} is no setting"


def _examples(told: Mapping[str, Section]) -> Iterator[str]:
    """Worked examples that the product, or the rule as it is written, answers otherwise."""
    known, ranked = policy_fields(), fields_of(Ranked)
    for title, section in told.items():
        if title not in _expected() or title.startswith("selection: "):
            continue
        fields = fields_of(_expected()[title]) if _expected()[title] else ranked if "policy" not in title else known
        yield from disagreements(section, {name: field for name, (_, field) in fields.items()}, _asked(title))


def _values(told: Mapping[str, Section]) -> Iterator[str]:
    """Words of a selection that no example has."""
    for name, words in (("metric", Metric), ("loss_rescale", Rescale)):
        section = told.get(f"selection {name}")
        if {row.get(name) for row in (section.examples if section else [])} != set(get_args(words)):
            yield f"selection {name}: expected an example for each of {get_args(words)}"
    if {name.partition(",")[0] for name in STRATEGIES} != set(get_args(Strategy)):
        yield f"strategies: expected {get_args(Strategy)}"


def _asked(title: str) -> Any:
    """What asks the product about an example of a section; None: there are none."""
    kind, _, name = title.partition(": ")
    if kind in ("policy", "predicate", "strategy"):
        policy = policies.POLICIES.get(name, ("", None))[1]
        return {"policy": policy, "predicate": product.predicated, "strategy": product.selected}[kind]
    if title.startswith("selection "):
        return SELECTION[title.removeprefix("selection ")]
    return product.filtered if title in product.FILTERS else product.guarded
