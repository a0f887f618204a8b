"""docs/filters.md as data: its sections, and in each the parameters, the rule and the worked examples."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

RULE = re.compile(r"Rule: (?:(rejects when|keeps when|yes when|the fewest for which) )?`([^`]+)`")
Row = dict[str, Any]


@dataclass(frozen=True)
class Section:
    """A section with a title of its own. A parameter's default is as it is written."""

    title: str
    text: str
    parameters: Mapping[str, str]
    examples: list[Row]
    rule: tuple[str, str] | None

    def said(self, label: str) -> str | None:
        """What stands behind `label:`, to the end of the sentence."""
        found = re.search(rf"\b{label}:\s(.+?)(?:\.\s|\.\Z)", self.text + "\n", re.S)
        return found[1] if found else None


def sections(text: str) -> dict[str, Section]:
    """Every section of the third level by its title."""
    found = re.findall(r"^### ([^\n]+)\n(.*?)(?=^##|\Z)", text, re.M | re.S)
    return {title: _section(title, body) for title, body in found}


def _section(title: str, body: str) -> Section:
    parameters: dict[str, str] = {}
    examples: list[Row] = []
    for table in re.findall(r"(?:^\|.*\n)+", body + "\n", re.M):
        head, _, *rows = [[cell.strip() for cell in line.strip("|").split(" |")] for line in table.strip().split("\n")]
        if head[:2] == ["parameter", "default"]:
            parameters |= {row[0]: row[1] for row in rows}
        elif head[-1] == "outcome":
            examples += [{name: _cell(cell) for name, cell in zip(head, row, strict=True) if cell} for row in rows]
    rule = RULE.search(re.sub(r"\s+", " ", body))
    return Section(title, body, parameters, examples, (rule[1] or "", rule[2]) if rule else None)


@cache
def _cell(cell: str) -> Any:
    """`none` is None, a cell in backticks its text; else what YAML makes of it."""
    if cell.startswith("`"):
        return cell.strip("`")
    return None if cell == "none" else cell if cell in ("yes", "no") else yaml.safe_load(cell)
