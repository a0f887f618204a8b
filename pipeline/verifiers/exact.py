"""The verifier that compares strings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.sdk import Score, ScoreRequest

RIGHT, WRONG = Score(1.0), Score(0.0)


class ExactMatch:
    """1.0 if the response is the target, character for character, else 0.0. It takes no options."""

    batch = 4096
    concurrency = 1

    def __init__(self, seed: int, options: Mapping[str, Any]) -> None:
        if options:
            raise ValueError(f"unknown options: {sorted(options)}")

    async def score(self, requests: Sequence[ScoreRequest]) -> Sequence[Score]:
        """One score for each request, in order."""
        return [RIGHT if request.text == request.target else WRONG for request in requests]
