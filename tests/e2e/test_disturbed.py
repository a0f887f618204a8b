"""Records that nobody can read, and a broker that goes away, in the middle of a run."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.domain import events as e
from pipeline.domain.topology import StageName, Topic
from pipeline.domain.vocabulary import Category, DeadLetterReason, Reason
from pipeline.local import LocalKafka, Services
from tests.e2e.harness import ROLES, Host, Run, committed

pytestmark = [pytest.mark.e2e, pytest.mark.faults]

UNREADABLE = [None, b"", b"\xc3", b"\xc3\x01half", b"text"]


def test_records_that_cannot_be_read_become_dead_letters_and_the_run_completes(make_run: Callable[..., Run]):
    run = make_run(steps=4)
    run.hold("train-2")
    host = run.start(*ROLES)
    run.reached("train-2")
    topics = (Topic.PROMPTS, Topic.RESPONSES, Topic.ROLLOUTS, Topic.GROUPS, Topic.DISCARDS)
    for topic in topics:
        for value in UNREADABLE:
            run.write_raw(topic, value, b"\xff\xfe" if value else None, partition=1)
    run.until_event(e.DeadLettered, len(topics) * len(UNREADABLE), Topic.DEAD_LETTERS)
    run.release("train-2")
    run.until_event(e.RunFinished, 3, Topic.DROPS)
    run.ended_well(host)
    letters = run.events(e.DeadLettered, Topic.DEAD_LETTERS)
    for topic in topics:
        assert [letter.value for letter in letters if letter.topic == topic] == UNREADABLE
    assert {letter.reason for letter in letters} >= {DeadLetterReason.NULL_VALUE, DeadLetterReason.EMPTY_VALUE}
    assert len(run.events(e.BatchTrained)) == 4
    run.check()


def test_a_group_whose_answer_cannot_be_read_is_ended_and_replaced(make_run: Callable[..., Run]):
    run = make_run(
        steps=2,
        prompts={"factory": "tests.e2e.plugins:Numbers", "options": {"plans": {"0": "slow"}}},
        engine={"factory": "tests.e2e.plugins:Dice", "options": {"batch": 1}},
    )
    run.hold("slow")
    host = run.start(*ROLES)
    [opened] = run.until(
        lambda: run.events(e.GroupOpened, where=lambda event: event.prompt.ordinal == 0), "the first group"
    )
    partition = int(opened.group_id.split("@")[1])
    run.write_raw(Topic.ROLLOUTS, b"text", opened.group_id.encode(), partition)
    [rejected] = run.until_event(e.GroupRejected)
    run.release("slow")
    run.until_event(e.RunFinished, 3, Topic.DROPS)
    run.ended_well(host)
    assert (rejected.group_id, rejected.reason) == (opened.group_id, Reason.UNDECODABLE)
    assert rejected.category is Category.SYSTEM
    assert [event.replaces for event in run.events(e.GroupOpened)].count(opened.group_id) == 1
    run.check()


def test_a_record_on_the_ledger_that_cannot_be_read_stops_who_reads_it(make_run: Callable[..., Run]):
    run = make_run(steps=2)
    run.write_raw(Topic.LEDGER, b"text")
    for role in ("scheduler", "batcher", "trainer", "reaper"):
        host = run.start(role)
        assert host.wait() == 2, host.tail()
        assert host.said("at ledger/0/1") and host.said("nothing on the ledger can be skipped"), host.tail()


@pytest.mark.slow
def test_a_run_goes_on_when_its_broker_was_restarted(
    services: Services, own_kafka: LocalKafka, run_name: str, tmp_path: Path
):
    """Whoever gives up meanwhile is started again, as a container would be; nobody hangs in its Kafka client. No
    transaction ends in the moment of the stop: Kafka can lose the end of such a one (LocalKafka.kill)."""
    folder = tmp_path / "run"
    folder.mkdir()
    run = Run(Services(own_kafka.bootstrap, services.redis_url, services.how), run_name, folder, steps=6, tick="5m")
    try:
        run.hold("train-3")
        hosts = {role: run.start(role) for role in ROLES}
        run.reached("train-3")
        run.until(Quiet(run), "nobody to commit anything")
        own_kafka.stop()
        run.release("train-3")
        own_kafka.start()
        for host in hosts.values():
            host.expected_to_end = True
        run.until(lambda: _tend(run, hosts) and len(run.events(e.RunFinished, Topic.DROPS)) == 3, "the end")
        run.check()
        assert not [str(host) for host in run.hosts if host.said("did not return")]
    finally:
        run.close()


class Quiet:
    """Whether no stage has committed anything for three seconds."""

    def __init__(self, run: Run) -> None:
        self._run, self._seen, self._since = run, [], time.monotonic()

    def __call__(self) -> bool:
        found = [place.offset for stage in StageName for place in committed(self._run, stage)]
        if found != self._seen:
            self._seen, self._since = found, time.monotonic()
        return time.monotonic() - self._since > 3


def _tend(run: Run, hosts: dict[str, Host]) -> bool:
    """Start again what has ended before its time; always true."""
    for role, host in hosts.items():
        if host.exit_code not in (None, 0):
            assert host.exit_code != 2, host.tail()
            hosts[role] = run.start(role)
            hosts[role].expected_to_end = True
    return True
