"""A selection of your own: prompts that are solved half of the time teach most. Named in examples/selector.yaml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.sdk import Candidate


class HalfSolved:
    """Keeps the `keep` groups of a window whose mean reward is nearest to `target`, and weighs each by how near it is.

    Options: `keep`, at least 1; `target`, 0.5 if not given. Among equals the lower id is first, since the order of a
    window must not decide.
    """

    def __init__(self, seed: int, options: Mapping[str, Any]) -> None:
        self._keep = int(options["keep"])
        self._target = float(options.get("target", 0.5))

    def __call__(self, window: Sequence[Candidate]) -> dict[str, float]:
        known = [(c.group_id, c.scores.reward_mean) for c in window]
        far = sorted((abs(mean - self._target), group) for group, mean in known if mean is not None)
        return {group: 1.0 - distance for distance, group in far[: self._keep] if distance < 1.0}
