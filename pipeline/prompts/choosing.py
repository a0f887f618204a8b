"""Which rows of a prompt file are used. What is left out is counted by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import Any

from pydantic import Field

from pipeline.config.errors import shown
from pipeline.config.values import Many, Section
from pipeline.prompts.rows import BadRow, Row


class Difficulty(Section):
    """Keeps rows whose `metadata.<key>` is within [low, high], both inclusive; one without that number is an error."""

    key: str = "difficulty"
    low: float | None = None
    high: float | None = None


class Choice(Section):
    """What of a file is used: by difficulty, by `metadata.source`, and of each domain the first `count` at most."""

    difficulty: Difficulty | None = None
    sources: Many[str] | None = None
    count: int | None = Field(None, ge=1)


def choose(rows: Iterable[Row], choice: Choice, path: str, left_out: Counter[str]) -> Iterator[Row]:
    """The rows that are used, in their order. `left_out` gets the others by reason: difficulty, source, count."""
    used = Counter[str]()
    for row in rows:
        reason = _reason(row, choice, path)
        if reason is None and choice.count is not None and used[row.domain] >= choice.count:
            reason = "count"
        if reason is None:
            used[row.domain] += 1
            yield row
        else:
            left_out[reason] += 1


def _reason(row: Row, choice: Choice, path: str) -> str | None:
    if choice.sources is not None and row.task.metadata.get("source") not in choice.sources:
        return "source"
    bounds = choice.difficulty
    if bounds is None:
        return None
    value: Any = row.task.metadata.get(bounds.key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        where = f"{path}:{row.line}: metadata.{bounds.key}"
        raise BadRow(f"{where}: is {shown(value)}; expected a number, which the option difficulty looks at")
    low, high = (-inf if bounds.low is None else bounds.low), (inf if bounds.high is None else bounds.high)
    return None if low <= value <= high else "difficulty"


def told(left_out: Mapping[str, int]) -> str:
    """In words."""
    return ", ".join(f"{many} by {reason}" for reason, many in sorted(left_out.items()))
