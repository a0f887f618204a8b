"""Engines that a process of its own can build."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.sdk import Sample, SampleRequest


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
