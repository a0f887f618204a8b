"""The examples of docs/filters.md are configurations, and what all selections share is told (tests/filter_docs)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from pipeline.config.selection import Windows
from tests.filter_docs.settings import default

TEXT = (Path(__file__).parents[2] / "docs" / "filters.md").read_text()


def test_the_example_is_a_configuration(problems: Any) -> None:
    example, selection = re.findall(r"```yaml\n(.*?)```", TEXT, re.S)
    assert problems(domains={"math": {"quota": 4}, "code": {"quota": 2}}, **yaml.safe_load(example)) == []
    assert problems(**yaml.safe_load(selection)) == []


def test_what_every_selection_has_is_told_with_its_defaults() -> None:
    chapter = TEXT.partition("\n## Selection\n")[2].partition("\n### ")[0]
    told = dict(re.findall(r"^\| (\w+) \| (.*?) \|", chapter, re.M))
    del told["parameter"]
    assert told == {name: default(field) for name, field in Windows.model_fields.items()}
