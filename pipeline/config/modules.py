"""Which modules and prompt files a configuration names that this machine doesn't have. None is read to find out."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path as File
from typing import Final

from pipeline.config.errors import Problem
from pipeline.config.models import DecisionConfig

JSONL: Final = "pipeline.prompts.jsonl:JsonlPrompts"


def not_here(config: DecisionConfig) -> list[Problem]:
    """A problem for each plugin whose package isn't found here: still to be written, or there for its process alone."""
    found = []
    for key, factory in _factories(config):
        package = factory.partition(":")[0].partition(".")[0]
        if not package.isidentifier() or find_spec(package) is None:
            message = f"there is no module {package!r} here for {factory}; its process needs it: write or install it"
            found.append(Problem("module_not_found", (*key, "factory"), message))
    return [*found, *_missing_files(config)]


def _missing_files(config: DecisionConfig) -> Iterator[Problem]:
    """Of prompt sources that read a file: `tamis init` needs it."""
    for name in ("prompts", "eval_prompts"):
        plugin = getattr(config, name)
        path = plugin.options.get("path") if plugin is not None and plugin.factory == JSONL else None
        if isinstance(path, str) and not File(path).exists():
            message = f"there is no file {path!r} here; tamis init and the scheduler read it"
            yield Problem("prompts_not_found", (name, "options", "path"), message)


def _factories(config: DecisionConfig) -> Iterator[tuple[tuple[str, ...], str]]:
    for name in ("prompts", "eval_prompts", "engine", "environment", "learner"):
        if (plugin := getattr(config, name)) is not None:
            yield (name,), plugin.factory
    for name, verifier in config.verifiers.items():
        yield ("verifiers", name), verifier.factory
