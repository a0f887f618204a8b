"""The list of dead letters is there to be copied from."""

from __future__ import annotations

from dataclasses import replace

from pipeline.cli.dead_letters import lines
from pipeline.domain import events as e
from pipeline.history.dead_letters import Letter
from tests.log.samples import full


def test_each_letter_is_a_line_with_whole_coordinates_however_long() -> None:
    letter = replace(full(e.DeadLettered), topic="responses", partition=12, offset=123_456_789, detail="why " * 50)
    head, first, second = lines([Letter(0, 0, letter), Letter(1_000, 0, replace(letter, offset=7, key=None))])
    assert head.split() == ["number", "time", "stage", "record", "group", "reason", "detail"]
    assert " responses/12/123456789 " in first and first.endswith("why why")
    assert second.startswith("1000 ") and " responses/12/7 " in second
    assert first.index("responses") == second.index("responses") == head.index("record")
