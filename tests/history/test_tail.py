"""Which records `tamis tail` shows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from pipeline.history.tail import Wanted

from .drive import Drive


def shown(drive: Drive, wanted: Wanted) -> Counter[str]:
    return Counter(type(record.event()).__name__ for record in drive.records if wanted.shows(record))


def test_ticks_are_shown_by_name_only(drive: Drive) -> None:
    every = Counter(type(record.event()).__name__ for record in drive.records)
    assert every["Tick"] > 20
    assert shown(drive, Wanted(event="Tick")) == {"Tick": every["Tick"]}
    del every["Tick"]
    assert shown(drive, Wanted()) == every
    assert shown(drive, Wanted(domain="sort"))["Tick"] == 0


def test_what_cannot_be_read_is_shown(drive: Drive) -> None:
    for value in (None, b"", b"hello", (drive.records[0].value or b"")[:5]):
        assert Wanted().shows(replace(drive.records[0], value=value))
