"""What the demo runs: a small transformer learns a task from a 0/1 reward (docs/demo.md has the recipe)."""

from __future__ import annotations

from typing import Any

from pipeline.config import DecisionConfig, parse
from pipeline.demo.tasks import TASKS


def recipe(run: str, seed: int, steps: int, filtered: bool, task: str = "sorting") -> DecisionConfig:
    """The demo's configuration: GRPO in groups of 8, staleness 1, train and held-out prompts disjoint."""
    chosen = TASKS[task]
    settings: dict[str, Any] = {
        "run": run,
        "seed": seed,
        "steps": steps,
        "advantages": {"eps": 1e-4},
        "group_size": 8,
        "async_ratio": 1,
        "oversample_max": 1,
        "evaluation": {"every": 20, "max_open": 128},
        "checkpoint_every": 10,
        "payload": {"max": "16KB"},
        "starvation": {"no_progress": "10m"},
        **chosen.settings,
    }
    settings["learner"] = {"factory": "pipeline.training.sorting:SortingLearner", **settings.get("learner", {})}
    settings["assembly"] = {"lease": "30s", "deadline": "120s", **settings.get("assembly", {})}
    if not filtered:
        settings["filters"] = {"default": [dict(link) for link in chosen.unfiltered]}
    return parse(settings)


def note_of(config: DecisionConfig) -> str:
    """What the report of such a run says above all else."""
    return "".join(TASKS[name].note for name in config.domains)
