"""Making, checking, listing and deleting the topics and consumer groups of runs."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from pipeline.domain.rules import Rules
from pipeline.domain.topology import READS, StageName, Topic, partitions
from pipeline.log.client import SESSION_TIMEOUT_MS, Connection, admin_client, make_client, reader_settings, using
from pipeline.log.errors import PASSING, Stop, Unreachable, fork_of, no_answer
from pipeline.log.topics import PREFIX, group_name, topic_config, topic_name

TIMEOUT_S: Final = 30.0
REQUEST_S: Final = 5.0
OFFSETS_S: Final = 10.0
COORDINATOR_S: Final = 60.0
"""How long a broker that has just started may take until it keeps offsets."""
LEAVE_S: Final = SESSION_TIMEOUT_MS / 1000 + 2
"""How long a process that has ended without a word may count as running."""


def topics_of_broker(connection: Connection, timeout_s: float = 10.0) -> dict[str, int]:
    """Every topic on the broker with its number of partitions. Unreachable if none answers."""
    with using(admin_client(connection)) as admin:
        try:
            listed = admin.list_topics(timeout=timeout_s).topics
        except KafkaException as error:
            raise no_answer(connection.bootstrap, timeout_s, error.args[0]) from error
    return {name: len(topic.partitions) for name, topic in listed.items()}


def list_runs(connection: Connection) -> list[str]:
    """The runs that have topics on this broker, sorted; the connection's own run plays no part."""
    ends = tuple(f".{topic.value}" for topic in Topic)
    names = [name for name in topics_of_broker(connection) if name.startswith(f"{PREFIX}.") and name.endswith(ends)]
    return sorted({name.split(".")[1] for name in names})


def topics_of_run(connection: Connection) -> list[str]:
    """The run's topics that are there, sorted."""
    return sorted(name for name in topics_of_broker(connection) if name.startswith(f"{PREFIX}.{connection.run}."))


def check_free(connection: Connection) -> None:
    """Stop if the run's name is in use."""
    taken = topics_of_run(connection)
    if taken:
        raise Stop(
            f"run {connection.run}: the name is in use ({len(taken)} topics, {taken[0]} …); "
            f"choose another, or remove it with `tamis delete {connection.run}`"
        )


def create_run(connection: Connection, rules: Rules) -> None:
    """Make all topics of a run and commit offset 0 for every stage and partition. Stop if the name is in use. Where it
    fails, the topics that it made are deleted.

    The run exists once RunStarted is in the ledger; a creation that was cut short is undone by `delete_run`.
    """
    check_free(connection)
    new = [
        NewTopic(topic_name(connection.run, topic), partitions(topic, rules), config=topic_config(topic))
        for topic in Topic
    ]
    with using(admin_client(connection)) as admin:
        asked = admin.create_topics(new, operation_timeout=TIMEOUT_S)
        try:
            _wait(asked.items(), "create topic")
            for stage in StageName:
                zeros = [TopicPartition("", partition, 0) for partition in range(partitions(READS[stage], rules))]
                _commit(admin, connection, stage, zeros)
        except BaseException:
            with suppress(Exception):
                if made := [name for name, topic in asked.items() if topic.exception(TIMEOUT_S) is None]:
                    _wait(admin.delete_topics(made, operation_timeout=TIMEOUT_S).items(), "delete topic")
            raise


def commit_offsets(connection: Connection, stage: StageName, positions: Iterable[TopicPartition]) -> None:
    """Set the offsets of a stage that isn't running; the topic of the positions is the stage's input, whatever it says.
    Stop if a member is alive."""
    with using(admin_client(connection)) as admin:
        _commit(admin, connection, stage, positions)


def _commit(admin: AdminClient, connection: Connection, stage: StageName, positions: Iterable[TopicPartition]) -> None:
    name, topic = group_name(connection.run, stage), topic_name(connection.run, READS[stage])
    placed = [TopicPartition(topic, p.partition, p.offset, p.metadata or "") for p in positions]
    began = time.monotonic()
    while True:
        asked = admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(name, placed)], request_timeout=REQUEST_S
        )
        waited = time.monotonic() - began
        errors = _error_codes(asked[name])
        loading = errors & (PASSING | {KafkaError.UNKNOWN_TOPIC_OR_PART}) and waited < COORDINATOR_S
        leaving = KafkaError.UNKNOWN_MEMBER_ID in errors and waited < LEAVE_S
        if not loading and not leaving:
            break
        time.sleep(0.05)
    _wait(asked.items(), "commit offsets of")


def check_topics(connection: Connection, rules: Rules) -> None:
    """Stop if a topic of the run is missing or has another number of partitions than its rules say."""
    there = topics_of_broker(connection)
    for topic in Topic:
        name, wanted = topic_name(connection.run, topic), partitions(topic, rules)
        if name not in there:
            raise Stop(f"topic {name} does not exist; create the run with `tamis init`, or check its name: tamis runs")
        if there[name] != wanted:
            raise Stop(
                f"topic {name} has {there[name]} partitions, expected {wanted}: its records are no longer where their "
                f"ids say; restore the run from an archive, or go on in a new one: `{fork_of(connection.run)}`"
            )


def committed_offsets(connection: Connection, stage: StageName, rules: Rules) -> dict[int, int]:
    """The committed offset of each partition of a stage's input; -1 where it is gone. Unreachable if the broker doesn't
    say."""
    name, topic = group_name(connection.run, stage), topic_name(connection.run, READS[stage])
    wanted = [TopicPartition(topic, partition) for partition in range(partitions(READS[stage], rules))]
    # a consumer, which joins nothing: librdkafka may abort when an admin client waits for offsets in vain (its #4605)
    with using(make_client(Consumer, connection, {**reader_settings(connection), "group.id": name})) as consumer:
        try:
            found = consumer.committed(wanted, timeout=OFFSETS_S)
        except KafkaException as error:
            raise Unreachable(f"the offsets of {name}: {error.args[0].str()}; try again") from error
    if failed := next((position.error for position in found if position.error is not None), None):
        raise Unreachable(f"the offsets of {name}: {failed.str()}; try again")
    return {position.partition: max(position.offset, -1) for position in found}


def delete_run(connection: Connection) -> int:
    """Delete the topics and groups of a run; returns the number of topics. Stop, with nothing deleted, if a stage is
    still running: a process that has just ended counts as running until its session is over."""
    names = topics_of_run(connection)
    with using(admin_client(connection)) as admin:
        existing = {
            group.group_id for group in (admin.list_consumer_groups(request_timeout=TIMEOUT_S).result().valid or ())
        }
        groups = [name for stage in StageName if (name := group_name(connection.run, stage)) in existing]
        deadline = time.monotonic() + LEAVE_S
        while running := _running(admin, groups):
            if time.monotonic() > deadline:
                raise Stop(f"delete group {running[0]}: it has members; stop the processes of {connection.run} first")
            time.sleep(0.2)
        if groups:
            _wait(admin.delete_consumer_groups(groups, request_timeout=TIMEOUT_S).items(), "delete group")
        if names:
            _wait(admin.delete_topics(names, operation_timeout=TIMEOUT_S).items(), "delete topic")
    return len(names)


def _error_codes(future: Any) -> set[int]:
    """Why the broker hasn't set a group's offsets: it may need a moment for its first group, or to know a topic that
    was made just now; and a member that has just ended is one until its session is over."""
    try:
        errors = [position.error for position in future.result(TIMEOUT_S).topic_partitions]
    except KafkaException as error:
        errors = [error.args[0]]
    return {error.code() for error in errors if error is not None}


def _running(admin: AdminClient, groups: list[str]) -> list[str]:
    """Those that have members."""
    asked = admin.describe_consumer_groups(groups, request_timeout=TIMEOUT_S) if groups else {}
    return [group for group, found in asked.items() if found.result(TIMEOUT_S).members]


def _wait(asked: Iterable[tuple[str, Any]], what: str) -> None:
    for name, future in asked:
        try:
            result = future.result(TIMEOUT_S)
        except KafkaException as error:
            reason = error.args[0]
            raise Stop(f"{what} {name}: {reason.str()}{_hint(reason)}") from error
        for position in getattr(result, "topic_partitions", ()):
            if position.error is not None:
                reason = position.error
                raise Stop(f"{what} {name}, partition {position.partition}: {reason.str()}{_hint(reason)}")


def _hint(error: KafkaError) -> str:
    return "; stop its processes first" if error.code() == KafkaError.UNKNOWN_MEMBER_ID else ""
