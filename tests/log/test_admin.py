"""Making and removing runs on a real broker."""

import threading
import time

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import ConfigResource

from pipeline.domain.topology import READS, StageName, Topic, partitions
from pipeline.log.admin import check_topics, create_run, delete_run, list_runs, topics_of_broker
from pipeline.log.client import Connection, admin_client, leave, using
from pipeline.log.errors import Stop
from pipeline.log.recover import recover_run
from pipeline.log.topics import group_name, topic_name

from .toy import toy_rules

pytestmark = pytest.mark.contract


@pytest.fixture
def connection(services, run_name) -> Connection:
    return Connection(services.bootstrap, run_name, "a")


def test_a_run_has_all_its_topics_and_offsets(connection):
    rules = toy_rules(connection.run, 3, 1)
    create_run(connection, rules)
    there = topics_of_broker(connection)
    assert {t: there[topic_name(connection.run, t)] for t in Topic} == {t: partitions(t, rules) for t in Topic}
    check_topics(connection, rules)
    assert recover_run(connection, rules) == {}, "every stage has its offsets"
    assert connection.run in list_runs(connection)
    assert delete_run(connection) == len(Topic)
    assert connection.run not in list_runs(connection)


def test_everything_is_kept_for_ever(connection):
    create_run(connection, toy_rules(connection.run))
    resources = {t: ConfigResource(ConfigResource.Type.TOPIC, topic_name(connection.run, t)) for t in Topic}
    with using(admin_client(connection)) as admin:
        described = {r: told.result(20) for r, told in admin.describe_configs(list(resources.values())).items()}
    for topic in Topic:
        config = {name: entry.value for name, entry in described[resources[topic]].items()}
        assert (config["retention.ms"], config["retention.bytes"]) == ("-1", "-1")
        assert config["cleanup.policy"] == ("compact" if topic is Topic.SNAPSHOTS else "delete")
        if topic in (Topic.GROUPS, Topic.LEDGER):
            assert config["max.message.bytes"] == str(8 << 20)


def test_a_name_in_use_is_refused(connection):
    create_run(connection, toy_rules(connection.run))
    with pytest.raises(Stop, match=f"run {connection.run}: the name is in use.*tamis delete {connection.run}"):
        create_run(connection, toy_rules(connection.run))


def test_a_run_of_which_any_stage_runs_is_left_whole(connection, monkeypatch):
    rules = toy_rules(connection.run)
    create_run(connection, rules)
    monkeypatch.setattr("pipeline.log.admin.LEAVE_S", 0.5)
    stage = list(StageName)[-1]
    names = {"bootstrap.servers": connection.bootstrap, "group.id": group_name(connection.run, stage)}
    consumer = Consumer(names)
    joined = threading.Event()
    consumer.subscribe([topic_name(connection.run, READS[stage])], on_assign=lambda *_: joined.set())
    end = time.monotonic() + 30
    while not joined.is_set() and time.monotonic() < end:
        consumer.poll(0.1)
    with pytest.raises(Stop, match=f"{stage}: it has members; stop the processes of {connection.run} first"):
        delete_run(connection)
    assert recover_run(connection, rules) == {}, "every stage still has its offsets"
    leave(consumer)
    assert delete_run(connection) == len(Topic)


def test_another_number_of_partitions_is_refused(connection):
    create_run(connection, toy_rules(connection.run, 2))
    with pytest.raises(Stop, match="has 2 partitions, expected 3"):
        check_topics(connection, toy_rules(connection.run, 3))


def test_a_missing_run_is_named(connection):
    with pytest.raises(Stop, match="does not exist; create the run with `tamis init`"):
        check_topics(connection, toy_rules(connection.run))


@pytest.mark.parametrize("name", ["", "a.b", "a b", "-a", "x" * 101, "é"])
def test_a_run_name_that_no_topic_can_have_is_refused(name):
    with pytest.raises(ValueError, match="is no name of a run"):
        Connection("127.0.0.1:1", name, "a")


def test_every_stage_reads_a_topic_of_the_run():
    assert set(READS) == set(StageName)
