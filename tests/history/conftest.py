"""One whole run for all tests here, and ways to tamper with it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipeline.domain import events as e
from pipeline.history.audits.audit import Audit, audit
from pipeline.history.records import MemoryLog
from pipeline.log.codec import Members
from pipeline.log.reader import Record

from .drive import Drive


@pytest.fixture(scope="session")
def drive() -> Drive:
    """A finished run of four batches and three evaluations."""
    made = Drive()
    made.run()
    return made


@pytest.fixture
def check(drive: Drive) -> Callable[..., Audit]:
    """Audit some records of that run."""
    return lambda records, **options: audit(MemoryLog(records), drive.started, Members(), **options)


@pytest.fixture
def find(drive: Drive) -> Callable[..., Record]:
    """The first record of the run whose event is of a type, and meets a condition."""

    def first(kind: type[e.Event], where: Callable[..., bool] = lambda event: True) -> Record:
        return next(r for r in drive.records if isinstance(event := r.event(), kind) and where(event))

    return first
