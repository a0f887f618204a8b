"""Who serves the stages of a run now, as the broker knows it."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import wait
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin._group import ConsumerGroupDescription, MemberDescription

from pipeline.domain.topology import StageName
from pipeline.log.admin import topics_of_broker
from pipeline.log.client import Connection, admin_client, using
from pipeline.log.errors import Unreachable
from pipeline.log.topics import group_name

TIMEOUT_S: Final = 10.0
ASK_EVERY_S: Final = 2.0
NOT_THERE: Final = frozenset({KafkaError.GROUP_ID_NOT_FOUND, KafkaError.COORDINATOR_NOT_AVAILABLE})


class StageMember(NamedTuple):
    """A process of a stage: its slot, where it runs, and the partitions that it serves; with none it stands by. A
    process that ended without a word counts until its session is over (6 s)."""

    stage: StageName
    slot: str
    host: str
    partitions: tuple[int, ...]


def members_of(connection: Connection, stages: Iterable[StageName] = StageName) -> list[StageMember]:
    """The processes of these stages, in the order of stages and slots. Unreachable if the broker doesn't say."""
    names = {group_name(connection.run, stage): stage for stage in stages}
    return sorted(_member(names[name], member) for name, member in _described(connection, list(names)))


def at_work(connection: Connection, runs: Iterable[str]) -> set[str]:
    """Those of these runs that a scheduler serves. Unreachable if the broker doesn't say."""
    names = {group_name(run, StageName.SCHEDULER): run for run in runs}
    return {names[name] for name, _ in _described(connection, list(names))}


def _described(connection: Connection, names: list[str]) -> list[tuple[str, MemberDescription]]:
    """The members of these groups."""
    if not names:
        return []
    topics_of_broker(connection, TIMEOUT_S)  # to wait in vain for groups is worse: see committed_offsets
    found: list[tuple[str, MemberDescription]] = []
    with using(admin_client(connection)) as admin:
        asked = admin.describe_consumer_groups(names, request_timeout=TIMEOUT_S)
        wait(asked.values(), TIMEOUT_S + 2)  # a client that is closed while it asks in vain may abort the process
        for name, future in asked.items():
            try:
                described: ConsumerGroupDescription = future.result(0)
            except KafkaException as error:
                if error.args[0].code() in NOT_THERE:
                    continue
                why = error.args[0].str()
                raise Unreachable(
                    f"Kafka at {connection.bootstrap} didn't tell the members of {name}: {why}"
                ) from error
            except TimeoutError as error:
                waited = f"{TIMEOUT_S:g} s; try again"
                raise Unreachable(
                    f"Kafka at {connection.bootstrap} didn't tell the members of {name} within {waited}"
                ) from error
            found += [(name, member) for member in described.members]
    return found


def _member(stage: StageName, member: MemberDescription) -> StageMember:
    instance = member.group_instance_id or member.member_id
    partitions = tuple(sorted(place.partition for place in member.assignment.topic_partitions))
    return StageMember(stage, instance.removeprefix(f"{stage.value}-"), member.host.lstrip("/"), partitions)


class Attendance:
    """The processes of a run, asked for again and again by a thread, until `stop`: a broker that is away takes long not
    to answer. `problem`: why it didn't say a moment ago. The first answer is there at once, or Unreachable."""

    def __init__(self, connection: Connection) -> None:
        self.members = members_of(connection)
        self.problem: str | None = None
        self._connection = connection
        self._stopped = threading.Event()
        threading.Thread(target=self._ask, daemon=True).start()

    def stop(self) -> None:
        """Ask no more."""
        self._stopped.set()

    def _ask(self) -> None:
        while not self._stopped.wait(ASK_EVERY_S):
            try:
                self.members, self.problem = members_of(self._connection), None
            except Exception as error:  # shown by whoever watches
                self.problem = str(error)
