"""The verifier of symbolic mathematics, in a bounded pool of processes. It needs `pip install tamis[math]`."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from pipeline.config.files import document
from pipeline.config.load import validated
from pipeline.config.values import Section
from pipeline.sdk import Score, ScoreRequest
from pipeline.verifiers.pool import Pool, TimedOut
from pipeline.verifiers.template import Died


class MathOptions(Section):
    """`workers`: processes; `timeout_s`: seconds that one may take for a response before it is killed and replaced."""

    workers: int = Field(4, ge=1, le=256)
    timeout_s: float = Field(45.0, gt=0, le=3600)


class MathVerify:
    """1.0 if a response's answer equals the target as mathematics, else 0.0. One that isn't decided in time is
    ungraded, not wrong. Options: `MathOptions`."""

    batch = 1

    def __init__(self, seed: int, options: Mapping[str, Any]) -> None:
        chosen = validated(MathOptions, document(options, "options of MathVerify"))
        if importlib.util.find_spec("math_verify") is None:
            raise ImportError("math-verify is not installed; run pip install 'tamis[math]'")
        self.concurrency = self.max_concurrency = chosen.workers
        self._timeout_s = chosen.timeout_s
        self.pool = Pool("pipeline.verifiers.math_child", chosen.workers)

    async def score(self, requests: Sequence[ScoreRequest]) -> Sequence[Score]:
        """One score for each request, in order."""
        return await asyncio.gather(*(self._one(request) for request in requests))

    def close(self) -> None:
        """End all processes."""
        self.pool.close()

    async def _one(self, request: ScoreRequest) -> Score:
        try:
            found = await self.pool.ask({"target": request.target, "text": request.text}, self._timeout_s)
        except TimedOut:
            detail = f"not decided within {self._timeout_s:g} s; its process was killed"
            return Score(None, "timeout", detail=detail)
        except Died as error:
            return Score(None, "error", detail=str(error))
        if "value" in found:
            return Score(found["value"], answer=found["answer"])
        outcome = "misconfigured" if "misconfigured" in found else "error"
        return Score(None, outcome, detail=found[outcome])
