"""Several processes of one stage: each partition has one owner, and one that was frozen changes nothing any more."""

import signal

import pytest

from .conftest import eventually
from .test_loop import groups, responses

pytestmark = [pytest.mark.contract, pytest.mark.faults]


def write_to_all(toy, count: int) -> None:
    for partition in range(toy.partitions):
        toy.write(*responses(count, 2, partition), partition=partition)


def test_two_processes_share_the_partitions_and_one_takes_over(make_toy):
    toy = make_toy(partitions=2)
    for partition in range(2):
        toy.write(*groups(2, partition), partition=partition)
    one = toy.start("one")
    one.expect("assigned 0 1")
    write_to_all(toy, 10)
    two = toy.start("two")
    line = two.expect("assigned")
    assert line in ("assigned 0", "assigned 1")
    one.expect("assigned " + ("1" if line == "assigned 0" else "0"))
    write_to_all(toy, 10)
    toy.settled()
    assert one.stop() == 0
    write_to_all(toy, 10)
    two.expect("assigned 0 1")
    toy.settled()


def test_a_restart_in_place_takes_over_at_once(toy):
    toy.write(*groups(2), *responses(10, 2))
    first = toy.start("same")
    toy.settled()
    first.signal(signal.SIGKILL)
    first.wait()
    toy.write(*responses(10, 2))
    toy.start("same").expect("assigned 0")
    toy.settled()


def test_a_frozen_owner_is_fenced_by_its_successor_in_another_slot(toy):
    toy.write(*groups(2), *responses(10, 2))
    frozen = toy.start("frozen")
    toy.settled()
    frozen.signal(signal.SIGSTOP)
    toy.write(*responses(10, 2))
    other = toy.start("other")
    other.expect("assigned 0")
    toy.settled()
    frozen.signal(signal.SIGCONT)
    toy.write(*responses(10, 2))
    toy.settled()
    assert other.stop() == 0
    eventually(lambda: toy.answers() == toy.expected(), why="still the same")


def test_a_frozen_owner_is_fenced_by_its_successor_in_the_same_slot(toy):
    toy.write(*groups(2), *responses(10, 2))
    frozen = toy.start("same")
    toy.settled()
    frozen.signal(signal.SIGSTOP)
    toy.write(*responses(10, 2))
    toy.start("same").expect("assigned 0")
    toy.settled()
    frozen.signal(signal.SIGCONT)
    frozen.expect("Fenced")
    assert frozen.wait() == 4
    toy.write(*responses(10, 2))
    toy.settled()
