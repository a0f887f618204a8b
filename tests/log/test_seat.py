"""The seat on the ledger says how many records were handled when it commits."""

from __future__ import annotations

from pipeline.domain.topology import StageName, Topic
from pipeline.health import Standing
from pipeline.log.seat import Fact, Position, Seat
from pipeline.metrics import own

from .conftest import eventually
from .toy import opened


def ignore(standing: Standing) -> None:
    pass


def handled() -> float:
    return own.REGISTRY.get_sample_value("tamis_records_handled_total", {"stage": "trainer"}) or 0.0


def test_records_that_came_before_a_commit_are_counted_as_handled(toy) -> None:
    seat, before = Seat(toy.connection, StageName.TRAINER, ignore), handled()
    try:
        eventually(lambda: seat.poll(0.1) or seat.turn, why="it has the seat")
        position, entries = seat.restore() or (None, [])
        assert (position, entries) == (Position(0, {}), [])
        toy.write(*(opened(f"{number}@0") for number in range(3)), topic=Topic.LEDGER)
        found = []
        eventually(lambda: found.extend(seat.poll(0.1)) or len(found) == 3, why="three records")
        assert handled() == before
        seat.commit([Fact(opened("9@0"), "trainer/ledger/0/2/0")], Position(3, {}))
        assert handled() == before + 3
        seat.commit([], Position(3, {}))
        assert handled() == before + 3
    finally:
        seat.close()
