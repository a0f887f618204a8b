"""Which modules a configuration names that this machine doesn't have. None is imported to find out."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from pipeline.config.errors import Problem
from pipeline.config.models import DecisionConfig


def not_here(config: DecisionConfig) -> list[Problem]:
    """A problem for each plugin whose package isn't found here: still to be written, or there for its process alone."""
    found = []
    for key, factory in _factories(config):
        package = factory.partition(":")[0].partition(".")[0]
        if not package.isidentifier() or find_spec(package) is None:
            message = f"there is no module {package!r} here for {factory}; its process needs it: write or install it"
            found.append(Problem("module_not_found", (*key, "factory"), message))
    return found


def _factories(config: DecisionConfig) -> Iterator[tuple[tuple[str, ...], str]]:
    for name in ("prompts", "eval_prompts", "engine", "environment", "learner"):
        if (plugin := getattr(config, name)) is not None:
            yield (name,), plugin.factory
    for name, verifier in config.verifiers.items():
        yield ("verifiers", name), verifier.factory
