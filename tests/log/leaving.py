"""Members that leave while their group waits for them: `python -m tests.log.leaving BOOTSTRAP TOPIC`."""

from __future__ import annotations

import secrets
import sys
from typing import Any

from confluent_kafka import Consumer

from pipeline.local.probe import wait_until
from pipeline.log.client import leave

GROUPS = 24


def ignored(*_: object) -> None:
    pass


def member(bootstrap: str, topic: str, group: str, slot: str, given: Any = ignored) -> Consumer:
    """As a stage has it: it keeps its place for a session."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.instance.id": slot,
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 300,
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic], on_assign=given, on_revoke=ignored, on_lost=ignored)
    return consumer


def main(bootstrap: str, topic: str) -> None:
    """Each group has a member that has its place and hears nothing more, and one that waits for a place."""
    names = [f"leaving-{secrets.token_hex(4)}" for _ in range(GROUPS)]
    have: set[str] = set()
    first = {n: member(bootstrap, topic, n, "asleep", lambda *_, n=n: have.add(n)) for n in names}
    assert wait_until(lambda: [one.poll(0) for one in first.values()] and len(have) == GROUPS, 30)
    second = [member(bootstrap, topic, name, "late") for name in names]
    for _ in range(20):
        for one in second:
            one.poll(0.002)
    for one in [*first.values(), *second]:
        leave(one)
    print("left")


if __name__ == "__main__":
    main(*sys.argv[1:])
