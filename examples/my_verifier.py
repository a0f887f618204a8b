"""A verifier of your own: how many of the target's words are in a response. Named in examples/custom.yaml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.sdk import Misconfigured, Score, ScoreRequest


class Words:
    """The share of the target's words that are in the response. Option `lower`: whether case makes no difference."""

    batch = 256
    concurrency = 1

    def __init__(self, seed: int, options: Mapping[str, Any]) -> None:
        self._lower = bool(options.get("lower", True))

    async def score(self, requests: Sequence[ScoreRequest]) -> Sequence[Score]:
        return [self._one(request) for request in requests]

    def _one(self, request: ScoreRequest) -> Score:
        text, target = (t.lower() if self._lower else t for t in (request.text, request.target))
        wanted = target.split()
        if not wanted:
            raise Misconfigured(f"the target of {request.response_id} has no words")
        found = [word for word in wanted if word in text.split()]
        return Score(len(found) / len(wanted), answer=" ".join(found))
