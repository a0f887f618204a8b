"""The loop on a real broker: the answers are those of the pure fold of the input, whatever happens to the process."""

import signal

import pytest

from pipeline.domain import events as e
from pipeline.domain.topology import Topic
from pipeline.domain.vocabulary import Outcome
from pipeline.log.crash import STEPS
from pipeline.log.metadata import parse_metadata

from .conftest import eventually
from .toy import opened, scored

pytestmark = pytest.mark.contract


def groups(count: int, partition: int = 0) -> list[e.Event]:
    return [opened(f"{n}@{partition}") for n in range(count)]


def responses(count: int, group_count: int, partition: int = 0) -> list[e.Event]:
    return [scored(f"{n % group_count}@{partition}", n) for n in range(count)]


def test_every_input_is_answered_once_and_in_order(toy):
    toy.write(*groups(3), *responses(50, 3))
    toy.start().expect("assigned 0")
    toy.write(*responses(50, 3))
    toy.settled()


@pytest.mark.faults
@pytest.mark.parametrize("step", STEPS)
def test_nothing_is_lost_or_doubled_when_the_process_is_killed_at(step, toy):
    toy.write(*groups(3), *responses(40, 3))
    crashing = toy.start(TAMIS_CRASH_AT=f"assembler:{step}:2")
    crashing.expect("assigned 0")
    eventually(lambda: len(toy.read()) >= 40, why="first batch")
    toy.write(*responses(40, 3))
    assert crashing.wait() == -signal.SIGKILL
    toy.start().expect("assigned 0")
    toy.write(*responses(10, 3))
    toy.settled()


def test_a_clean_stop_leaves_a_snapshot_and_the_next_process_reads_nothing_again(toy):
    toy.write(*groups(3), *responses(20, 3))
    first = toy.start()
    toy.settled()
    assert first.stop() == 0
    offset, metadata = toy.committed()[0]
    assert offset == 23 and parse_metadata(metadata).snap == 0
    chunk = toy.read(Topic.SNAPSHOTS)[0].event()
    assert (chunk.input_offset, chunk.count) == (23, 1)
    toy.start().expect("assigned 0")
    toy.write(*responses(20, 3))
    toy.settled()


def test_a_snapshot_of_another_shape_is_not_used(toy):
    toy.write(*groups(3), *responses(20, 3))
    first = toy.start()
    toy.settled()
    assert first.stop() == 0
    second = toy.start(TOY_SHAPE="new")
    second.expect("its state has another shape")
    second.expect("assigned 0")
    toy.write(*responses(20, 3))
    toy.settled()


@pytest.mark.parametrize("damage", [None, b"", b"not a chunk"])
def test_a_damaged_snapshot_is_not_used(toy, damage):
    toy.write(*groups(3), *responses(20, 3))
    first = toy.start()
    toy.settled()
    assert first.stop() == 0
    toy.write_raw(damage, b"assembler/0/0", partition=3, topic=Topic.SNAPSHOTS)
    from confluent_kafka import TopicPartition

    from pipeline.domain.topology import StageName
    from pipeline.log.admin import commit_offsets

    damaged = max(record.offset for record in toy.read(Topic.SNAPSHOTS))
    place = TopicPartition("", 0, 23, f"snap={damaged}")
    eventually(lambda: _tried(commit_offsets, toy.connection, StageName.ASSEMBLER, [place]), why="session over")
    second = toy.start()
    second.expect("snapshot not used")
    second.expect("assigned 0")
    toy.write(*responses(20, 3))
    toy.settled()
    assert toy.read(Topic.DEAD_LETTERS) == []


def _tried(function, *arguments):
    from pipeline.log.errors import Stop

    try:
        function(*arguments)
    except Stop:
        return False
    return True


def test_input_that_leads_to_nothing_is_committed_within_seconds(toy):
    toy.start().expect("assigned 0")
    toy.write(*groups(7))
    eventually(lambda: toy.committed()[0][0] == 7, 10, "lazy commit")
    assert toy.read() == []


def test_a_finished_run_ends_the_process_and_its_successor(toy):
    toy.write(*groups(2), *responses(10, 2), e.RunFinished(Outcome.COMPLETED, 1, 0))
    assert toy.start("a", "--until-finished").wait() == 0
    toy.settled()
    assert [type(r.event()) for r in toy.read(Topic.GROUPS)] == [e.RunFinished]
    assert parse_metadata(toy.committed()[0][1]).end == 1
    assert toy.start("a", "--until-finished").wait() == 0
    assert len(toy.read(Topic.GROUPS)) == 1


def test_a_broken_invariant_stops_with_coordinates(toy):
    toy.write(*groups(1), e.GroupCancelled("0@0", 0), *responses(1, 1))
    process = toy.start()
    line = process.expect("Stop: assembler at rollouts/0/1: group 0@0 must not be cancelled")
    run = toy.connection.run
    assert f"run tamis audit {run}, then tamis fork {run} --as {run}-2" in line
    assert process.wait() == 2
    assert toy.committed()[0][0] == 0 and toy.read() == []


def test_an_unknown_schema_stops_with_coordinates(toy):
    toy.write(*groups(1))
    toy.write_raw(b"\xc3\x01" + b"\x77" * 8 + b"body", b"0@0")
    process = toy.start()
    process.expect("Stop: assembler at rollouts/0/1: schema fingerprint 7777777777777777")
    assert process.wait() == 2
    assert toy.read(Topic.DEAD_LETTERS) == []
