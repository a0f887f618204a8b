"""Runs to look at, made in memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipeline.history.view import RunView
from pipeline.log.reader import Record
from tests.history.drive import Drive


@pytest.fixture(scope="session")
def records() -> list[Record]:
    """A finished run of four batches and three evaluations."""
    return Drive().run()


@pytest.fixture
def viewed(records: list[Record]) -> Callable[[float], RunView]:
    """The view of that run's first part: `viewed(0.5)`."""

    def view(share: float) -> RunView:
        made = RunView()
        for record in sorted(records, key=lambda r: r.timestamp_ms)[: round(len(records) * share)]:
            made.note(record.timestamp_ms, record.topic, record.event())
        if share:
            made.sample_redis(made.last_ms, 2_345_678, 1_234)
        return made

    return view
