"""Who follows a run waits for a Kafka that is away: what can't be asked isn't shown, and is right again afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.cli.top import Lines
from pipeline.domain.topology import Output, Topic
from pipeline.history.watch import Watch
from pipeline.local import Services
from pipeline.local.probe import wait_until
from pipeline.log.admin import create_run
from pipeline.log.client import Connection
from pipeline.log.facts import FactWriter
from pipeline.log.members import Attendance
from pipeline.store.payloads import PayloadStore

from .drive import Drive

pytestmark = pytest.mark.contract


def test_lag_and_members_are_unknown_while_kafka_is_away(
    own_kafka: Any, services: Services, run_name: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    for name, seconds in (("admin.OFFSETS_S", 1.0), ("members.TIMEOUT_S", 1.0), ("members.ASK_EVERY_S", 0.1)):
        monkeypatch.setattr(f"pipeline.log.{name}", seconds)
    monkeypatch.setattr("pipeline.history.watch.LAG_S", 0.1)
    drive = Drive({"run": run_name})
    connection = Connection(own_kafka.bootstrap, run_name, "here")
    create_run(connection, drive.rules)
    facts, started = FactWriter(connection, "test"), Output(Topic.LEDGER, 0, drive.started)
    facts.write([started])
    store = PayloadStore(services.redis_url, run_name, max_payload_bytes=1)
    watch, present = Watch(connection, store, rules=drive.rules), Attendance(connection)
    watch.start()

    def shown() -> dict[str, Any]:
        Lines().update(watch, present, drive.rules)
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    try:
        assert wait_until(lambda: watch.view.lags.get("batcher") == 1, 30)
        assert shown()["problems"] == [] and "no scheduler is at work" in shown()["waiting"][0]
        own_kafka.pause()
        assert wait_until(lambda: bool(present.problem and not watch.view.lags), 30)
        (problem,) = shown()["problems"]
        assert "Kafka" in problem and own_kafka.bootstrap in problem
        assert shown()["waiting"] == []
        own_kafka.resume()
        facts.write([started])
        assert wait_until(lambda: watch.view.lags.get("batcher") == 2 and not present.problem, 30)
        assert watch.errors == []
    finally:
        present.stop()
        watch.stop()
        facts.close()


def test_whatever_ends_a_thread_is_told(services: Services, run_name: str, tmp_path: Path) -> None:
    store = PayloadStore(services.redis_url, run_name, max_payload_bytes=1)
    watch = Watch(Connection(services.bootstrap, run_name, "here"), store, tmp_path / "nowhere" / "samples", topics=())
    watch.start()
    assert wait_until(lambda: bool(watch.errors), 30)
    assert isinstance(watch.errors[0], FileNotFoundError)
    watch.stop()
