"""Offsets and records that are gone: a state with a hole is never used, and nothing starts over by itself."""

import pytest
from confluent_kafka import TopicPartition

from pipeline.domain.topology import StageName, Topic
from pipeline.log.admin import commit_offsets
from pipeline.log.client import admin_client, using
from pipeline.log.errors import Stop
from pipeline.log.recover import recover_run
from pipeline.log.topics import group_name, topic_name

from .conftest import Toy, eventually
from .test_loop import groups, responses

pytestmark = pytest.mark.contract


def refused(function, *arguments) -> bool:
    try:
        function(*arguments)
    except Stop:
        return True
    return False


def set_place(toy: Toy, offset: int, metadata: str = "") -> None:
    """Commit this place for the assembler, once its last member's session is over."""
    place = [TopicPartition("", 0, offset, metadata)]
    eventually(lambda: not refused(commit_offsets, toy.connection, StageName.ASSEMBLER, place), why="session over")


def delete_before(toy: Toy, offset: int) -> None:
    name = topic_name(toy.connection.run, Topic.ROLLOUTS)
    with using(admin_client(toy.connection)) as admin:
        for future in admin.delete_records([TopicPartition(name, 0, offset)]).values():
            future.result(20)


def with_gap(toy: Toy, delete_to: int, snapshot_at: int | None = 40, committed: int = 50, end: int = 120):
    """A log of 120 records, committed up to 50, a snapshot of the first 40, and the beginning deleted."""
    toy.write(*groups(3), *responses(37, 3))
    first = toy.start()
    toy.settled()
    assert first.stop() == 0
    assert toy.committed()[0] == (40, "snap=0")
    toy.write(*responses(end - 40, 3))
    set_place(toy, committed, "" if snapshot_at is None else "snap=0")
    expected = toy.expected()[0]
    delete_before(toy, delete_to)
    return expected


def test_a_committed_offset_that_fell_out_of_retention_is_refused(toy):
    with_gap(toy, delete_to=100)
    process = toy.start()
    line = process.expect("Stop: assembler has handled")
    assert "up to 50, but the first record there is 100: 50 records are gone" in line and "tamis fork" in line
    assert process.wait() == 2
    assert toy.committed()[0] == (50, "snap=0")


def test_a_tail_that_fell_out_of_retention_is_refused(toy):
    with_gap(toy, delete_to=45)
    process = toy.start()
    assert "begins at 45, and nothing covers 40 to 44" in process.expect(
        "Stop: the state of assembler can't be rebuilt"
    )
    assert process.wait() == 2
    assert toy.committed()[0] == (50, "snap=0")


def test_records_that_a_snapshot_covers_may_be_gone(toy):
    expected = with_gap(toy, delete_to=30)
    toy.start().expect("assigned 0")
    later = [answer for answer in expected if int(answer[0].split("/")[3]) >= 50]
    eventually(lambda: later and toy.answers()[0][-len(later) :] == later, why="answers from 50 on")


def test_without_a_snapshot_a_missing_beginning_is_refused(toy):
    with_gap(toy, delete_to=10, snapshot_at=None)
    process = toy.start()
    assert "begins at 10, and nothing covers 0 to 9" in process.expect("Stop: the state of assembler can't be rebuilt")
    assert process.wait() == 2


def delete_group(toy: Toy) -> None:
    group = group_name(toy.connection.run, StageName.ASSEMBLER)
    with using(admin_client(toy.connection)) as admin:

        def gone() -> bool:
            from confluent_kafka import KafkaException

            try:
                admin.delete_consumer_groups([group])[group].result(20)
            except KafkaException:
                return False
            return True

        eventually(gone, why="session over")


def test_a_deleted_group_stops_the_stage_and_recover_rebuilds_it(toy):
    toy.write(*groups(3), *responses(20, 3), *groups(0))
    first = toy.start()
    toy.settled()
    first.signal(9)
    first.wait()
    delete_group(toy)
    process = toy.start()
    name = group_name(toy.connection.run, StageName.ASSEMBLER)
    process.expect(f"Stop: offsets of group {name} are gone; run tamis recover {toy.connection.run}")
    assert process.wait() == 2
    toy.write(*responses(5, 3))
    recovered = {}
    eventually(
        lambda: not refused(lambda: recovered.update(recover_run(toy.connection, toy.rules))), why="session over"
    )
    assert recovered == {StageName.ASSEMBLER: [23]}
    assert toy.committed()[0] == (23, "")
    toy.start().expect("assigned 0")
    toy.settled()


def test_recover_touches_no_offsets_that_are_there(toy):
    before = toy.committed()
    assert recover_run(toy.connection, toy.rules) == {}
    assert toy.committed() == before == {0: (0, "")}


def test_what_was_handled_without_an_answer_is_handled_again_with_none(toy):
    toy.write(*groups(3))
    first = toy.start()
    eventually(lambda: toy.committed()[0][0] == 3, why="lazy commit")
    first.signal(9)
    first.wait()
    delete_group(toy)
    assert recover_run(toy.connection, toy.rules) == {StageName.ASSEMBLER: [0]}
    toy.start().expect("assigned 0")
    toy.write(*responses(6, 3))
    toy.settled()
