from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.config import ConfigError, DecisionConfig, Problem, load, parse

Make = Callable[..., DecisionConfig]


@pytest.fixture
def tree() -> Callable[..., dict[str, Any]]:
    """The least that a run needs, with what a test changes."""

    def made(**changes: Any) -> dict[str, Any]:
        plugin = {"factory": "somewhere:Something"}
        least = {"run": "r", "steps": 10, "prompts": plugin, "engine": plugin, "learner": plugin}
        return least | {"domains": {"math": {"quota": 4}}} | changes

    return made


@pytest.fixture
def config(tree: Callable[..., dict[str, Any]]) -> Make:
    return lambda **changes: parse(tree(**changes))


@pytest.fixture
def problems(tree: Callable[..., dict[str, Any]]) -> Callable[..., list[Problem]]:
    """What is wrong with a configuration."""

    def found(**changes: Any) -> list[Problem]:
        try:
            parse(tree(**changes))
        except ConfigError as error:
            return list(error.problems)
        return []

    return found


LEAST = """\
run: r
steps: 10
prompts: {factory: "somewhere:Something"}
engine: {factory: "somewhere:Something"}
learner: {factory: "somewhere:Something"}
"""


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., DecisionConfig]:
    """Load a YAML file: the least a run needs (5 lines) and `text`. A key that `text` gives too replaces its line."""

    def loaded(text: str, overrides: tuple[str, ...] = ()) -> DecisionConfig:
        keys = {line.partition(":")[0] for line in text.splitlines()}
        kept = [line if line.partition(":")[0] not in keys else "#" for line in LEAST.splitlines()]
        if not any(line.startswith("domains:") for line in text.splitlines()):
            text += "\ndomains: {math: {quota: 4}}"
        path = tmp_path / "run.yaml"
        path.write_text("\n".join([*kept, text, ""]))
        return load(path, overrides)

    return loaded
