"""Engines, verifiers and predicates that a configuration can name."""

from __future__ import annotations

import asyncio
import math
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.sdk import Misconfigured, Opinion, Sample, SampleRequest, Score, ScoreRequest


class Echo:
    """Answers with the prompt's text. Options: batch, concurrency, and `seconds` that a call takes."""

    def __init__(self, seed: int, options: Mapping[str, Any]) -> None:
        self.batch = int(options.get("batch", 4))
        self.concurrency = int(options.get("concurrency", 8))
        self._seconds = float(options.get("seconds", 0.0))

    async def load_policy(self, path: Path, version: int) -> None:
        """Nothing to load."""

    async def generate(self, requests: Sequence[SampleRequest]) -> Sequence[Sample]:
        await asyncio.sleep(self._seconds)
        return [Sample(array("i", (1, 2)), array("f", (-0.5, -0.25)), request.text) for request in requests]


class Ready:
    """A verifier whose scores are written in the responses: what comes after `score=` is evaluated as its answer."""

    batch = 64
    concurrency = 2

    def __init__(self, seed: int, options: Mapping[str, Any]) -> None:
        self._seconds = float(options.get("seconds", 0.0))

    async def score(self, requests: Sequence[ScoreRequest]) -> Sequence[Any]:
        await asyncio.sleep(self._seconds)
        return [self._answer(request.text) for request in requests]

    def _answer(self, text: str) -> Any:
        if text == "misconfigured":
            raise Misconfigured("there is no judge of that name")
        if "raise" in text:
            raise RuntimeError("the judge is on strike")
        return eval(text, {"Score": Score, "nan": math.nan})


def rejects_bad(seed: int, options: Mapping[str, Any]) -> Any:
    """A custom predicate: it rejects texts with `bad` in them, and breaks on `broken`."""

    def predicate(judged: Any) -> Any:
        if "broken" in judged.text:
            raise ValueError("broken")
        return "odd" if judged.text == "odd" else "bad" in judged.text

    return predicate


class Touchy:
    """A custom group filter that breaks on a group without tokens, and rejects responses of 7 tokens in odd words."""

    def __init__(self, seed: int, options: Mapping[str, Any]) -> None:
        """It takes none."""

    def __call__(self, members: Sequence[Any]) -> Any:
        if not any(member.response_tokens for member in members):
            raise ValueError("no tokens at all: \ud83d")
        if members[0].response_tokens == 7:
            return Opinion(np.bool_(False), "\ud83d", np.float32(7), np.int64(8))  # type: ignore[arg-type]
        return True
