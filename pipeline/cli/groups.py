"""What commands are told about a group."""

from __future__ import annotations

from pipeline.cli.common import fail
from pipeline.domain.ids import parse_group_id
from pipeline.domain.topology import Topic
from pipeline.log.client import Connection


def check_group(connection: Connection, group: str) -> None:
    """Refuse what can't be the id of one of the run's groups."""
    from pipeline.log.admin import topics_of_broker
    from pipeline.log.topics import topic_name

    if (found := parse_group_id(group)) is None:
        fail(f"{group!r} is not a group's id; expected number@partition, such as 12@0", 2)
    many = topics_of_broker(connection).get(topic_name(connection.run, Topic.PROMPTS))
    if many is not None and found.partition >= many:
        there = "partition 0 alone" if many == 1 else f"partitions 0 to {many - 1}"
        fail(f"run {connection.run} has no group {group}: it has {there}", 2)
