"""What the demo runs: a small transformer learns to sort six digits from a 0/1 reward (docs/demo.md has the recipe)."""

from __future__ import annotations

from typing import Any

from pipeline.config import DecisionConfig, parse

NOTE = (
    "The policy is warm-started: about a second of supervised training, stopped once a quarter of its answers are "
    "right. The first evaluation comes after it. From then on it learns from a reward of 0 or 1 alone. Supervised "
    "training by itself learns to sort faster; the demo shows reinforcement learning, not the best way to sort."
)
STEPS = 120
GROUPS = 32


def recipe(run: str, seed: int, steps: int, filtered: bool) -> DecisionConfig:
    """The demo's configuration: GRPO, 32 groups of 8, staleness 1, train and held-out answers disjoint."""
    prompts = {"factory": "pipeline.prompts.sorting:SortingPrompts"}
    settings: dict[str, Any] = {
        "run": run,
        "seed": seed,
        "steps": steps,
        "prompts": prompts | {"options": {"split": "train", "size": 100_000}},
        "eval_prompts": prompts | {"options": {"split": "eval", "size": 200}},
        "engine": {"factory": "pipeline.engines.sorting:SortingEngine"},
        "verifiers": {"exact": {"factory": "pipeline.verifiers.exact:ExactMatch"}},
        "learner": {"factory": "pipeline.training.sorting:SortingLearner"},
        "domains": {"sorting": {"quota": GROUPS}},
        "filters": {"default": [{"type": "zero_std" if filtered else "no_filter"}]},
        "advantages": {"eps": 1e-4},
        "group_size": 8,
        "async_ratio": 1,
        "oversample_max": 1,
        "evaluation": {"every": 20, "max_open": 128},
        "checkpoint_every": 10,
        "payload": {"max": "16KB"},
        "assembly": {"lease": "30s", "deadline": "120s"},
        "starvation": {"no_progress": "10m"},
    }
    return parse(settings)
