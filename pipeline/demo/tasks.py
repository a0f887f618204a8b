"""What the demo can learn, and the settings of each task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pipeline.prompts.walk import SYMBOLS


@dataclass(frozen=True, slots=True)
class Task:
    """`about` is for the command line, `note` for the report. `unfiltered` are the filters of --no-filter."""

    about: str
    note: str
    steps: int
    settings: Mapping[str, Any]
    unfiltered: tuple[Mapping[str, Any], ...]


def _prompts(factory: str, train: int, held_out: int) -> dict[str, Any]:
    return {
        "prompts": {"factory": factory, "options": {"split": "train", "size": train}},
        "eval_prompts": {"factory": factory, "options": {"split": "eval", "size": held_out}},
    }


SORTING: Final = Task(
    "sort six digits; one turn, answers checked by a verifier",
    "The policy is warm-started: about a second of supervised training, stopped once a quarter of its answers are "
    "right. The first evaluation comes after it. From then on it learns from a reward of 0 or 1 alone. Supervised "
    "training by itself learns to sort faster; the demo shows reinforcement learning, not the best way to sort.",
    120,
    {
        **_prompts("pipeline.prompts.sorting:SortingPrompts", 100_000, 200),
        "engine": {"factory": "pipeline.engines.sorting:SortingEngine"},
        "verifiers": {"exact": {"factory": "pipeline.verifiers.exact:ExactMatch"}},
        "domains": {"sorting": {"quota": 32}},
        "filters": {"default": [{"type": "zero_std"}]},
    },
    ({"type": "no_filter"},),
)
WALK: Final = Task(
    "walk to a goal on ice; up to eight turns with an environment, some of whose episodes break",
    "The policy begins with random weights and learns from a reward of 1 for reaching the goal, by episodes of up to "
    "eight turns; what the environment writes is masked out. One episode in sixty is broken on purpose: by an "
    "exception, by an answer that never comes, or by the environment's own word. A policy is loaded between two turns.",
    60,
    {
        **_prompts("pipeline.prompts.walk:WalkPrompts", 100_000, 120),
        "engine": {
            "factory": "pipeline.engines.sorting:SortingEngine",
            "options": {"max_tokens": 1, "symbols": SYMBOLS},
        },
        "environment": {
            "factory": "pipeline.environments.walk:Walk",
            "options": {"breaks": 60},
            "max_turns": 8,
            "step_timeout": "3s",
            "episode_timeout": "30s",
            "on_failure": "zero",
        },
        "publication": "refresh",
        "domains": {"walk": {"quota": 24}},
        "filters": {"default": [{"type": "drop_flag"}, {"type": "zero_std"}]},
        "guard": {"default": {"type": "window", "window": 50, "max_ratio": 0.8}},
        "redundancy": 1,
        "replacement": "new_seed",
        "assembly": {"count": "any"},
        "learner": {"options": {"warm_start_accuracy": 0.0}},
    },
    ({"type": "drop_flag"},),
)
TASKS: Final = {"sorting": SORTING, "walk": WALK}
DEFAULT: Final = "sorting"


def choices() -> list[str]:
    """Each task in a line."""
    return [f"{name}: {task.about}" for name, task in TASKS.items()]
