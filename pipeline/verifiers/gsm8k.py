"""The verifier of grade-school problems: the final number of a response against that of the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.sdk import Score, ScoreRequest
from pipeline.verifiers.answers import final_number, same_number


class Gsm8k:
    """1.0 if the response's final number equals the target's, else 0.0. It takes no options."""

    batch = 1024
    concurrency = 1

    def __init__(self, seed: int, options: Mapping[str, Any]) -> None:
        if options:
            raise ValueError(f"unknown options: {sorted(options)}")

    async def score(self, requests: Sequence[ScoreRequest]) -> Sequence[Score]:
        """One score for each request, in order."""
        return [_score(request) for request in requests]


def _score(request: ScoreRequest) -> Score:
    wanted, given = final_number(request.target), final_number(request.text)
    if wanted is None:
        detail = f"the target {request.target!r:.80} has no number; mend the row of the data that it comes from"
        return Score(None, "misconfigured", detail=detail)
    return Score(float(same_number(given, wanted)), answer=given)
