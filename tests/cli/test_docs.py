"""What the documents name is there: files, modules to run, targets of make."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from .conftest import ROOT

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FOLDERS = ("benchmarks", "consumers", "deploy", "docs", "examples", "pipeline", "schemas", "tests")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_and_module_that_a_document_names_exists(path: Path) -> None:
    text = path.read_text()
    files = set(re.findall(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]*)`", text))
    links = {link.partition("#")[0] for link in re.findall(r"\]\((?!https?:)([^)#][^)]*)\)", text)}
    assert [name for name in sorted(files) if not (ROOT / name).exists()] == []
    assert [name for name in sorted(links) if not (path.parent / name).exists()] == []
    modules = set(re.findall(r"python -m ([\w.]+)", text)) - {"pytest"}
    assert [name for name in sorted(modules) if importlib.util.find_spec(name) is None] == []
    targets = set(re.findall(r"`make ([a-z-]+)", text))
    made = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert targets <= made


def test_the_picture_in_the_readme_is_small() -> None:
    assert (ROOT / "docs" / "report.png").stat().st_size < 300_000
