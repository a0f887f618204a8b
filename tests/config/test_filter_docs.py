"""docs/filters.md says what the code does: every filter and guard, each with its parameters, defaults and reasons."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pydantic_core import PydanticUndefined

from pipeline.config.filters import Filter
from pipeline.config.guards import Guard
from pipeline.config.selection import Selection, Windows
from pipeline.domain.filters.guard import KEEPABLE
from pipeline.domain.vocabulary import Reason

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "filters.md").read_text()
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


def kinds(union: Any) -> dict[str, Any]:
    """The classes of a union of settings, by type."""
    return {get_args(c.model_fields["type"].annotation)[0]: c for c in get_args(get_args(union)[0])}


FILTERS, GUARDS = kinds(Filter), kinds(Guard)
SECTIONS = {
    title: body.partition("\n## ")[0] for title, body in re.findall(r"^### (\w+)\n(.*?)(?=^### |\Z)", TEXT, re.M | re.S)
}


SELECTIONS = kinds(Selection)
SELECTION = TEXT.partition("\n## Selection\n")[2].partition("\n## ")[0]


def written(value: Any) -> str:
    """A default as the page writes it."""
    return "none" if value is None else json.dumps(value)


def default(field: Any) -> str:
    """A field's default, with nothing else given."""
    if field.is_required():
        return "required"
    if field.default is PydanticUndefined:
        return written(field.default_factory({}))
    return written(field.default)


def test_every_filter_and_guard_has_a_section_and_nothing_else_has_one() -> None:
    assert list(SECTIONS) == [*sorted(FILTERS, key=[*OF_FILTERS].index), *GUARDS]


@pytest.mark.parametrize("name", [*FILTERS, *GUARDS])
def test_parameters_and_defaults_are_those_of_the_code(name: str) -> None:
    fields = (FILTERS | GUARDS)[name].model_fields
    rows = re.findall(r"^\| (\w+) \| (.*?) \|", SECTIONS[name], re.M)
    told = {parameter: value for parameter, value in rows if parameter != "parameter"}
    assert told == {parameter: default(field) for parameter, field in fields.items() if parameter != "type"}
    assert bool(told) is not ("no parameters" in SECTIONS[name] or name == "no_filter")


@pytest.mark.parametrize("name", FILTERS)
def test_reasons_are_those_of_the_code(name: str) -> None:
    told = re.findall(r"Reasons?:(.*?)(?:\. |\.\n)", SECTIONS[name], re.S)
    words = {word for sentence in told for word in re.findall(r"`(\w+)`", sentence)}
    assert words & {r.value for r in Reason} == OF_FILTERS[name]


def test_the_reasons_that_a_guard_may_overrule_are_listed() -> None:
    sentence = TEXT.partition("for one of these reasons:")[2].partition(". ")[0]
    assert re.findall(r"`(\w+)`", sentence) == [r.value for r in KEEPABLE]


def test_the_example_is_a_configuration(problems: Any) -> None:
    example, selection = re.findall(r"```yaml\n(.*?)```", TEXT, re.S)
    assert problems(domains={"math": {"quota": 4}, "code": {"quota": 2}}, **yaml.safe_load(example)) == []
    assert problems(**yaml.safe_load(selection)) == []


def test_every_selection_has_a_section_with_its_parameters_and_defaults() -> None:
    common, *parts = re.split(r"^### selection: (\w+)\n", SELECTION, flags=re.M)
    assert told_in(common) == {name: default(field) for name, field in Windows.model_fields.items()}
    assert parts[::2] == [*SELECTIONS]
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        own = SELECTIONS[name].model_fields.keys() - Windows.model_fields.keys() - {"type"}
        assert told_in(text) == {key: default(SELECTIONS[name].model_fields[key]) for key in own}


def told_in(text: str) -> dict[str, str]:
    """Parameters and defaults in the table of that head."""
    table = text.partition("| parameter | default | meaning |")[2].partition("\n\n")[0]
    return dict(re.findall(r"^\| (\w+) \| (.*?) \|", table, re.M))
