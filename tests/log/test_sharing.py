"""Several processes of one stage: each partition has one owner, and one that was frozen changes nothing any more."""

import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from pipeline.domain.topology import READS, StageName
from pipeline.local.files import free_port
from pipeline.log import membership
from pipeline.log.client import leave, stage_consumer
from pipeline.log.errors import Fatal
from pipeline.log.membership import Membership
from pipeline.log.topics import topic_name

from .conftest import ROOT, eventually
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


def test_a_process_that_its_group_gives_no_place_ends_to_be_started_again(toy, monkeypatch):
    """The group waits for a member that doesn't answer: for five minutes, and its client goes on to say it is alive."""
    monkeypatch.setattr(membership, "PLACE_S", 3.0)
    given: list[int] = []

    def ignored(*_: object) -> None:
        pass

    slot = replace(toy.connection, slot="asleep")
    asleep = stage_consumer(slot, StageName.ASSEMBLER, lambda _, found: given.append(len(found)), ignored, ignored)
    eventually(lambda: asleep.poll(0.1) or given, why="the first has a place")
    late = Membership(replace(toy.connection, slot="late"), StageName.ASSEMBLER)
    try:
        with pytest.raises(Fatal, match=r"rollouts gave no place for 3 s; start this process again"):
            eventually(lambda: late.take(0.1), why="the process ends")
    finally:
        late.close()
        leave(asleep)


def test_while_no_broker_answers_a_process_waits_for_one(toy, monkeypatch):
    monkeypatch.setattr(membership, "PLACE_S", 0.5)
    monkeypatch.setattr(membership, "ASKED_S", 0.5)
    alone = Membership(replace(toy.connection, bootstrap=f"127.0.0.1:{free_port()}"), StageName.ASSEMBLER)
    try:
        until = time.monotonic() + 3
        while time.monotonic() < until:
            assert alone.take(0.1) == []
    finally:
        alone.close()


def test_a_member_that_its_group_waits_for_leaves_without_hanging(toy):
    """In a process of its own: where closing hangs, nothing of the process goes on, its tests neither."""
    command = [sys.executable, "-m", "tests.log.leaving", toy.connection.bootstrap]
    topic = topic_name(toy.connection.run, READS[StageName.ASSEMBLER])
    ended = subprocess.run([*command, topic], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "left\n"
