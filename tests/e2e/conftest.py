"""Runs for the tests here. The seed of what is left to chance is printed, and can be given in E2E_SEED."""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.local import Services
from tests.e2e.harness import Run


@pytest.fixture
def make_run(services: Services, tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Makes runs: `make_run(steps=2, ...)`, configuration as in harness.BASE; all their processes end with the test."""
    made: list[Run] = []

    def make(**config: object) -> Run:
        folder = tmp_path / f"run-{len(made)}"
        folder.mkdir()
        made.append(Run(services, f"e{secrets.token_hex(4)}", folder, **config))
        return made[-1]

    yield make
    for run in made:
        run.close()


@pytest.fixture
def chance() -> random.Random:
    """Chance, of a seed that is printed."""
    seed = os.environ.get("E2E_SEED") or secrets.token_hex(4)
    print(f"E2E_SEED={seed}")
    return random.Random(seed)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first process of a session waits for torch, which takes long on a busy machine."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.timeout(300))
