"""docs/importing.md has the tables that the import goes by. `python -m tests.config.test_import_docs` writes them."""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path

import pytest

from pipeline.config.imports import SYSTEMS
from pipeline.config.imports.table import Absent, Row

PAGE = Path(__file__).parents[2] / "docs" / "importing.md"
FATES = {
    "no_counterpart": "no counterpart",
    "elsewhere": "elsewhere",
    "later": "later",
    "unresolved": "not read",
    "not_needed": "not needed",
}


def table(rows: tuple[Row, ...]) -> str:
    """The rows of a system, those that share a reason in one line."""
    lines = ["| key | becomes | |", "|---|---|---|"]
    for (kept, note, fate), same in groupby(rows, lambda row: (row.rule is not None, row.note, row.fate)):
        together = list(same)
        for some in [[row] for row in together] if kept else [together]:
            keys = ", ".join(f"`{row.key}`" for row in some)
            ours = f"`{some[0].ours}`" if some[0].ours else f"– ({FATES[fate]})"
            lines.append(f"| {keys} | {ours} | {_note(some[0], note)} |")
    return "\n".join(lines)


def _note(row: Row, note: str) -> str:
    """Its note, and the value that is written out where the file doesn't say."""
    if row.rule is None or isinstance(row.default, Absent):
        return note
    told = f"default there {str(row.default).lower() if isinstance(row.default, bool) else row.default}"
    return f"{note}; {told}" if note else told


def marked(system: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- {system} -->\n).*?(\n<!-- end -->)", re.S)


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_page_has_the_rows_of_each_system(system: str) -> None:
    found = marked(system).search(PAGE.read_text())
    assert found is not None
    said = found[0].partition("\n")[2].rpartition("\n")[0]
    assert said == table(SYSTEMS[system].rows), "write them anew: python -m tests.config.test_import_docs"


@pytest.mark.parametrize("system", SYSTEMS)
def test_no_row_is_hidden_by_one_before_it(system: str) -> None:
    rows = SYSTEMS[system].rows
    assert len({row.key for row in rows}) == len(rows)
    for place, row in enumerate(rows):
        example = tuple(row.key.replace(".**", ".anything").replace("*", "0").split("."))
        assert [r.key for r in rows[: place + 1] if r.names(example) is not None] == [row.key]


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_row_says_what_it_becomes_or_why_not(system: str) -> None:
    for row in SYSTEMS[system].rows:
        assert row.ours or row.note, row.key
        assert row.rule is not None or (row.note and row.fate in FATES), row.key


if __name__ == "__main__":
    text = PAGE.read_text()
    for each, of in SYSTEMS.items():
        text = marked(each).sub(lambda found, of=of: found[1] + table(of.rows) + found[2], text)
    PAGE.write_text(text)
