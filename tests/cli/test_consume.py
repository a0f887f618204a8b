"""`tamis consume` as a process: it goes on past what can't be read, and stops where going on would be wrong."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from pipeline import health
from pipeline.domain import events as e
from pipeline.domain.topology import StageName, Topic
from pipeline.log.admin import commit_offsets
from pipeline.log.client import Connection, admin_client, fact_producer
from pipeline.log.codec import MARKER, encode
from pipeline.log.reader import read_topic
from pipeline.log.topics import topic_name
from pipeline.process import log_refusal, print_refusal, refusal
from tests.log.samples import full

from .conftest import ROOT, Consumer, Tamis, eventually

pytestmark = [pytest.mark.contract, pytest.mark.timeout(240)]
Consume = Callable[..., Consumer]


def write(connection: Connection, topic: Topic, *values: bytes) -> None:
    producer = fact_producer(connection)
    for value in values:
        producer.produce(topic_name(connection.run, topic), value, partition=0)
    assert producer.flush(30) == 0


def tail(tamis: Tamis, *words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in tamis("tail", *words, "--json").out.splitlines()]


def test_a_record_that_cannot_be_read_is_a_dead_letter_and_the_run_goes_on(
    tamis: Tamis, created: Connection, consume: Consume
) -> None:
    misplaced = encode(replace(full(e.ResponseGenerated), group_id="3@1"))
    write(created, Topic.ROLLOUTS, b"hello", b"\xc3", misplaced)
    assembler = consume("assembler", "--run", created.run)
    letters = eventually(
        lambda: found if len(found := tail(tamis, created.run, "dead-letters")) == 3 else None, "three dead letters"
    )
    assert [letter["event"] for letter in letters] == ["DeadLettered"] * 3
    assert [letter["offset"] for letter in letters] == [0, 1, 2]
    found = tail(tamis, created.run, "dead-letters", "--reason", "truncated", "--event", "DeadLettered")
    assert [letter["offset"] for letter in found] == [1]
    status = json.loads(tamis("status", created.run, "--json").out)
    assert status["dead_letters"] == {"no_marker": 1, "truncated": 1, "wrong_topic": 1}
    handled = {row["partition"]: row["committed"] for row in status["stages"] if row["stage"] == "assembler"}
    assert handled == {0: 3, 1: 0}
    assert [(m["stage"], m["partitions"]) for m in status["members"]] == [("assembler", [0, 1])]
    assert f"no trainer is at work: tamis consume trainer --run {created.run}" in status["waiting"]
    assert not any("assembler" in text for text in status["waiting"])
    dead_letters(tamis, created.run)
    refused = tamis("delete", created.run, "--yes")
    assert refused.code == 2 and "assembler" in refused.err and "has members" in refused.err
    assert json.loads(tamis("status", created.run, "--json").out)["problems"] == []  # nothing was deleted
    assert "no scheduler is at work" in tamis("stop", created.run).err
    assert assembler.process.poll() is None
    assert assembler.end(signal.SIGINT) == 0
    assert "Traceback" not in assembler.said()
    told = [line for line in map(json.loads, assembler.said().splitlines()) if line["event"] == "dead letters"]
    where = ["rollouts/0/0: no_marker", "rollouts/0/1: truncated", "rollouts/0/2: wrong_topic"]
    assert [record for line in told for record in line["records"]] == where
    assert sum(line["many"] for line in told) == 3


def dead_letters(tamis: Tamis, run: str) -> None:
    """They are listed, shown with their bytes, and only what can be read and may come again is sent again."""
    listed = json.loads(tamis("dead-letters", "list", run, "--json").out)
    assert [(row["record"], row["reason"]) for row in listed] == [
        ("rollouts/0/0", "no_marker"), ("rollouts/0/1", "truncated"), ("rollouts/0/2", "wrong_topic"),
    ]  # fmt: skip
    first, last = (row["number"] for row in (listed[0], listed[2]))
    assert "wrong_topic" in tamis("dead-letters", "list", run).out
    shown = tamis("dead-letters", "show", run, first).out
    assert "68 65 6c 6c 6f" in shown and "hello" in shown and "still can't be read" in shown
    refused = tamis("dead-letters", "replay", run, first)
    assert (refused.code, "still can't be read" in refused.err) == (2, True)
    assert f"run {run} has no dead letter 99" in tamis("dead-letters", "show", run, 99).err
    assert "to responses/1" in tamis("dead-letters", "replay", run, last).out
    again = tail(tamis, run, "responses")
    assert [(row["event"], row["group_id"]) for row in again] == [("ResponseGenerated", "3@1")]
    assert again[0]["record"].startswith("responses/1/") and again[0]["cause"].startswith("cli/")


def test_an_unknown_schema_stops_it_with_the_coordinates(tamis: Tamis, created: Connection, consume: Consume) -> None:
    write(created, Topic.ROLLOUTS, MARKER + b"12345678" + b"body")
    assembler = consume("assembler", "--run", created.run)
    assert assembler.wait() == 2
    why = json.loads(assembler.said().splitlines()[-1])["why"]
    assert "rollouts/0/0" in why and "3132333435363738" in why
    assert tamis("tail", created.run, "dead-letters").out == ""


def test_records_that_are_gone_before_they_were_handled_stop_it(
    tamis: Tamis, created: Connection, consume: Consume
) -> None:
    name = topic_name(created.run, Topic.ROLLOUTS)
    write(created, Topic.ROLLOUTS, *[b"hello"] * 10)
    commit_offsets(created, StageName.ASSEMBLER, [TopicPartition(name, 0, 5), TopicPartition(name, 1, 0)])
    admin = admin_client(created)
    admin.delete_records([TopicPartition(name, 0, 8)])[TopicPartition(name, 0)].result(30)
    assembler = consume("assembler", "--run", created.run)
    assert assembler.wait() == 2
    why = json.loads(assembler.said().splitlines()[-1])["why"]
    assert "up to 5, but the first record there is 8: 3 records are gone" in why
    problems = json.loads(tamis("status", created.run, "--json").out)["problems"]
    gone = "assembler: rollouts/0: 3 records from 5 on are gone before they were handled"
    assert problems == [f"{gone}; restore the topic from an archive"]
    assert "problem            assembler: rollouts/0" in tamis("status", created.run).out


def test_offsets_that_are_gone_stop_it_and_recover_brings_them_back(
    tamis: Tamis, created: Connection, consume: Consume
) -> None:
    group = f"tamis.{created.run}.{StageName.BATCHER.value}"
    admin = admin_client(created)
    admin.delete_consumer_groups([group])[group].result(30)
    batcher = consume("batcher", "--run", created.run)
    assert batcher.wait() == 2
    assert f"run tamis recover {created.run}" in json.loads(batcher.said().splitlines()[-1])["why"]
    problems = json.loads(tamis("status", created.run, "--json").out)["problems"]
    assert problems == [f"batcher: ledger/0: its committed offset is gone; run tamis recover {created.run}"]
    assert tamis("recover", created.run).code == 0
    assert json.loads(tamis("status", created.run, "--json").out)["problems"] == []


def test_every_process_serves_metrics(created: Connection, consume: Consume) -> None:
    ports = [free_port(), free_port()]
    processes = [
        consume(stage, "--run", created.run, TAMIS_METRICS_PORT=str(port))
        for stage, port in zip(("monitor", "scheduler"), ports, strict=True)
    ]

    def sample(index: int, name: str, **labels: str) -> float | None:
        assert processes[index].process.poll() is None, processes[index].said()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{ports[index]}/metrics", timeout=5) as answer:
                text = str(answer.read().decode())
        except OSError:
            return None
        samples = [s for family in text_string_to_metric_families(text) for s in family.samples if s.name == name]
        return next((s.value for s in samples if s.labels == labels), None)

    eventually(lambda: sample(0, "tamis_steps") == 3, "the run's steps")
    rejected = {"domain": "a", "category": "low_information", "reason": "zero_std", "filter": "zero_std"}
    assert sample(0, "tamis_groups_rejected_total", **rejected) == 0
    eventually(lambda: sample(1, "tamis_restores_total", stage="scheduler") == 1, "the scheduler's restore")
    eventually(lambda: (sample(1, "tamis_transactions_total", stage="scheduler") or 0) > 1, "its transactions")
    assert (sample(1, "tamis_records_handled_total", stage="scheduler") or 0) > 1
    assert sample(1, "tamis_transactions_aborted_total", stage="scheduler") == 0
    eventually(lambda: sample(0, "tamis_lag_records", stage="batcher"), "the lag of the batcher, which doesn't run")
    assert [process.end(signal.SIGTERM) for process in processes] == [0, 0]
    for process, stage in zip(processes, ("monitor", "scheduler"), strict=True):
        lines = [json.loads(line) for line in process.said().splitlines()]
        assert lines or stage != "monitor", "the monitor tells each step"
        assert {(line["consumer"], line["run"]) for line in lines} <= {(stage, created.run)}
        assert all(line["slot"] for line in lines)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_who_works_and_who_stands_by_is_well_and_ends_within_5_s(
    created: Connection, consume: Consume, tmp_path: Path
) -> None:
    files = [tmp_path / name for name in ("first", "second", "reaper")]
    stages = ("batcher", "batcher", "reaper")
    consumers = [
        consume(stage, "--run", created.run, "--slot", file.name, TAMIS_HEARTBEAT=str(file))
        for stage, file in zip(stages, files, strict=True)
    ]

    def standings() -> list[tuple[str, int]] | None:
        if any(health.problems(str(file), time.monotonic()) for file in files):
            return None
        return sorted((loop["stage"], loop["partitions"]) for file in files for loop in json.loads(file.read_text()))

    expected = [("batcher", 0), ("batcher", 1), ("discard-reaper", 2), ("reaper", 1)]
    eventually(lambda: standings() == expected, f"all are well: {expected}")
    asked = time.monotonic()
    for consumer in consumers:
        consumer.process.send_signal(signal.SIGTERM)
    assert [consumer.wait() for consumer in consumers] == [0, 0, 0]
    assert time.monotonic() - asked < 5.0


def test_a_stage_that_does_not_exist_is_refused(tamis: Tamis) -> None:
    answer = tamis("consume", "assember", "--run", "first")
    assert answer.code == 2
    assert answer.err.startswith("error: there is no stage 'assember'; expected one of: scheduler, generator")


def test_a_run_must_be_named(consume: Consume) -> None:
    scheduler = consume("scheduler")
    assert scheduler.wait() == 2
    why = json.loads(scheduler.said())["why"]
    assert why == "TAMIS_RUN (--run): is not set; expected the name of a run [not_set]"


def test_a_person_at_a_terminal_is_told_in_a_sentence_why_a_consumer_ends(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal, inside = pty.openpty()
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TAMIS_SLOT": "a b"}
    command = [sys.executable, "-m", "consumers.batcher"]
    with subprocess.Popen(command, env=environment, cwd=home, stdout=inside, stderr=inside) as batcher:
        assert batcher.wait(60) == 2
    assert (
        os.read(terminal, 4_000).decode().startswith("error: TAMIS_SLOT: 'a b' is no slot; expected 1 to 200 letters")
    )
    os.close(inside)
    with open(terminal, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        assert refusal(as_json=False) is print_refusal
        assert refusal(as_json=True) is log_refusal


def test_a_consumer_that_is_stopped_while_it_starts_leaves_no_traceback(created: Connection, consume: Consume) -> None:
    trainer = consume("trainer", "--run", created.run)
    assert trainer.end(signal.SIGINT) in (-signal.SIGINT, 0)
    assert "Traceback" not in trainer.said()
    assert [type(record.event()) for record in read_topic(created, Topic.LEDGER)] == [e.RunStarted]


def test_a_place_that_can_not_be_written_is_named_and_a_person_has_to_act(
    created: Connection, consume: Consume, tmp_path: Path
) -> None:
    (tmp_path / "taken").write_text("a file")
    where = {"TAMIS_TRACKERS": "jsonl", "TAMIS_DATA_DIR": str(tmp_path / "taken")}
    monitor = consume("monitor", "--run", created.run, **where)
    assert monitor.wait() == 2, monitor.said()
    assert f"{tmp_path}/taken/{created.run}/trackers/jsonl: Not a directory; expected a place that" in monitor.said()
    assert "Traceback" not in monitor.said()
