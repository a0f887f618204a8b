"""Who follows a run says when it has read what was there, and that each of its readers still turns."""

from __future__ import annotations

import threading

from pipeline.domain.topology import Topic
from pipeline.health import Standing
from pipeline.history.watch import Watch
from pipeline.store.payloads import PayloadStore

from .conftest import eventually
from .toy import opened


def test_a_watch_has_read_nothing_before_its_readers_have(toy, services) -> None:
    toy.write(*(opened(f"{number}@0") for number in range(3)), topic=Topic.GROUPS)
    told: list[tuple[str, int]] = []

    def beat(standing: Standing) -> None:
        told.append((standing.stage, threading.get_ident()))

    store = PayloadStore(services.redis_url, toy.connection.run, max_payload_bytes=1)
    watch = Watch(toy.connection, store, topics=(Topic.GROUPS, Topic.LEDGER), heartbeat=beat)
    watch.lock.acquire()  # so that the reader of the groups is stuck at the first of them
    try:
        watch.start()
        eventually(lambda: watch.behind == {Topic.GROUPS}, why="the ledger is read")
        turns = told.copy()
        eventually(lambda: [name for name, _ in told[len(turns) :]].count("reader of ledger") > 2, why="it goes on")
        assert watch.behind == {Topic.GROUPS}
    finally:
        watch.lock.release()
    try:
        eventually(lambda: not watch.behind or watch.errors, why="the groups are read")
    finally:
        watch.stop()
    assert not watch.errors
    assert {name for name, _ in told} == {"reader of groups", "reader of ledger"}
    assert len({thread for _, thread in told}) == 2
