"""A running Prometheus, asked by its HTTP API."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import httpx

WINDOW_S = 900
STEP_S = 5


class Prometheus:
    """The one that listens at a port of this machine."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def targets(self) -> Counter[tuple[str, str]]:
        """How many targets each consumer has, by health: `up`, `down` or `unknown`. Empty until it is ready."""
        try:
            found = self._get("targets", state="active")["activeTargets"]
        except httpx.HTTPError:
            return Counter()
        return Counter((target["labels"]["consumer"], target["health"]) for target in found)

    def has(self, query: str) -> bool:
        """Whether a query finds a number in the last quarter of an hour, asked as the dashboard does; NaN is none.
        AssertionError if it is refused."""
        now = time.time()
        found = self._get("query_range", query=query, start=now - WINDOW_S, end=now, step=STEP_S)["result"]
        return any(value != "NaN" for one in found for _, value in one["values"])

    def _get(self, path: str, **words: Any) -> Any:
        answer = httpx.get(f"{self._url}/api/v1/{path}", params=words, timeout=10.0)
        assert answer.status_code != 400, answer.text
        answer.raise_for_status()
        return answer.json()["data"]
