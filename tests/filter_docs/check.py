"""Every disagreement of a text of docs/filters.md with the code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pipeline.config.selection import CustomSelection, Ranked, Windows
from pipeline.domain.filters.chain import FILTERS as CHAINED
from pipeline.domain.filters.guard import KEEPABLE
from pipeline.domain.selection.rules import Metric, Strategy
from pipeline.domain.selection.weights import Rescale
from pipeline.domain.vocabulary import Reason, StarvationCause, WaiverReason

from . import policies, product
from .examples import disagreements
from .page import Section, sections
from .settings import PARTS, fields_of, is_default, policy_fields

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
ORDER = [*CHAINED, "custom"]
COLLAPSE = StarvationCause.REWARD_VARIANCE_COLLAPSE
STRATEGIES = ("top_p", "top_p, linear", "top_p, softmax", "top_k", "top_k_abs", "min_p, largest", "min_p, smallest")
SELECTION = {
    "metric": product.ranked,
    "weights": product.weighed,
    "loss_rescale": product.scaled,
    "variance_stop": product.collapsed,
}


def problems(text: str, known: str = "") -> list[str]:
    """What the text says otherwise than the code. Sections of `known`, which has no problems, are passed by."""
    told, same = sections(text), sections(known)
    changed = {title: section for title, section in told.items() if section != same.get(title)}
    return [*_titles(told), *_settings(told), *_reasons(text, told), *_names(text), *_values(told), *_examples(changed)]


def _expected() -> dict[str, Any]:
    """Each section's title, and the settings whose parameters it lists; None: those of POLICIES, or none."""
    models: dict[str, Any] = {name: product.FILTERS[name] for name in OF_FILTERS} | product.GUARDS
    models |= {"integrity": None, "selection: ranked": Ranked, "selection: custom": CustomSelection}
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
        if not is_default(listed[name], *fields[name]):
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
    for name, reason in policies.REASONS.items():
        said = told[f"policy: {name}"].said("Reason") if f"policy: {name}" in told else None
        if re.findall(r"`(\w+)`", said or "") != [reason]:
            yield f"policy: {name}: its reason is {reason}, not {said}"
    for chapter, words in (("Replacement", WaiverReason), ("Starvation", StarvationCause)):
        rows = text.partition(f"\n## {chapter}\n")[2].partition("\n## ")[0]
        missing = {word.value for word in words} - set(re.findall(r"`(\w+)`", rows)) - {"empty_selections", COLLAPSE}
        yield from (f"{chapter}: nothing about {word}" for word in sorted(missing))
    chain = re.sub(r"\s+", " ", text).partition("provenance → aborted → ")[2].partition(" ```")[0].split(" → ")
    if [name for name in chain if name in OF_FILTERS] != [n for n in ORDER if n not in ("provenance", "no_filter")]:
        yield f"the chain's order is {ORDER}"
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
    if title == "integrity":
        return product.checked
    if title.startswith("selection "):
        return SELECTION[title.removeprefix("selection ")]
    return product.filtered if title in product.FILTERS else product.guarded
