"""Who may import what. `domain` imports nothing else of ours; nobody imports `consumers`; each outside library has the
one package that knows it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OURS = ("pipeline", "consumers")
FILES = sorted(path for name in OURS for path in (ROOT / name).rglob("*.py"))

ONLY = {
    "confluent_kafka": ("pipeline/log/",),
    "redis": ("pipeline/store/",),
    "torch": ("pipeline/training/", "pipeline/engines/sorting.py"),
}


def imported(path: Path) -> Iterator[str]:
    """Every module that a file imports, wherever in it, by its full name."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = path.relative_to(ROOT).with_suffix("").parts
            base = ".".join(package[: len(package) - node.level]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            yield module
            yield from (f"{module}.{name.name}" for name in node.names)


def within(module: str, package: str) -> bool:
    return f"{module}.".startswith(f"{package}.")


def broken_rules(place: str, modules: list[str]) -> list[str]:
    """The imports that a file at this place may not make."""
    broken: list[str] = []
    if place.startswith("pipeline/domain/"):
        broken += [m for m in modules if any(within(m, o) for o in OURS) and not within(m, "pipeline.domain")]
        broken = [m for m in broken if m != "pipeline"]
    broken += [m for m in modules if within(m, "consumers")]
    for library, places in ONLY.items():
        if not place.startswith(places):
            broken += [m for m in modules if within(m, library)]
    return broken


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_the_import_rules_are_kept(path: Path) -> None:
    assert broken_rules(path.relative_to(ROOT).as_posix(), list(imported(path))) == []


@pytest.mark.parametrize(
    ("place", "module"),
    [
        ("pipeline/domain/x.py", "pipeline.log.codec"),
        ("pipeline/domain/x.py", "pipeline.sdk"),
        ("pipeline/log/x.py", "consumers.scheduler"),
        ("consumers/x.py", "consumers.scheduler"),
        ("pipeline/store/x.py", "confluent_kafka"),
        ("pipeline/log/x.py", "redis.exceptions"),
        ("pipeline/engines/http.py", "torch"),
        ("pipeline/domain/x.py", "torch.nn"),
    ],
)
def test_a_wrong_import_is_found(place: str, module: str) -> None:
    assert broken_rules(place, [module]) == [module]


def test_a_right_import_is_not() -> None:
    assert broken_rules("pipeline/domain/x.py", ["pipeline.domain.events", "math"]) == []
    assert broken_rules("pipeline/log/x.py", ["confluent_kafka.admin", "pipeline.domain"]) == []
    assert broken_rules("consumers/x.py", ["pipeline.log.loop", "redislike"]) == []
