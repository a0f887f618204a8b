"""A stage at work commits while it is looked at: that is no topic made anew."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.domain.rules import Rules
from pipeline.domain.topology import StageName
from pipeline.history import lags as looking
from pipeline.history.status import problem
from pipeline.log.client import Connection
from tests.domain.given import rules


class Busy:
    """A topic that grows with each look, of which everything is always handled."""

    def __init__(self) -> None:
        self.end = 100

    def committed(self, connection: Connection, stage: StageName, rules: Rules) -> dict[int, int]:
        self.end += 10
        return {0: self.end}

    def ends(self, connection: Connection, topic: str, partitions: Any) -> dict[int, tuple[int, int]]:
        self.end += 10
        return dict.fromkeys(partitions, (0, self.end))


def test_no_stage_is_ahead_of_its_input(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = Busy()
    monkeypatch.setattr(looking, "committed_offsets", busy.committed)
    monkeypatch.setattr(looking, "watermarks", busy.ends)
    rows = looking.lags(Connection("127.0.0.1:1", "t", "s"), rules())
    assert [problem(row, "t") for row in rows] == [None] * len(rows)
    assert {row["stage"]: row["lag"] for row in rows if row["lag"] != 10} == {"trainer": None}
    found = looking.lag_by_stage(Connection("127.0.0.1:1", "t", "s"), rules())
    assert "trainer" not in found and set(found.values()) == {10}
