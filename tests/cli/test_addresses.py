"""Where Kafka or Redis doesn't answer, a command says so within seconds, and what to do next."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.cli import common
from pipeline.cli.services import other_memory
from pipeline.local import LocalRedis, Services
from pipeline.local.files import write_json
from pipeline.log.client import Connection

from .conftest import Tamis

MIB = 1024**2
NOBODY = "127.0.0.1:1"
"""A port that nothing listens at."""
KAFKA = f"error: Kafka at {NOBODY} accepts no connection; start it, start one here with `tamis up`, or correct"


@pytest.mark.parametrize(
    "words",
    [
        ("runs",),
        ("status", "first"),
        ("tail", "first"),
        ("trace", "first", "1@0"),
        ("audit", "first"),
        ("stop", "first"),
        ("recover", "first"),
        ("delete", "first", "--yes"),
        ("consume", "scheduler", "--run", "first"),
    ],
    ids=lambda words: words[0],
)
def test_kafka_that_is_not_there_is_said_at_once(offline: Tamis, words: tuple[str, ...]) -> None:
    began = time.monotonic()
    answer = offline(*words, "--bootstrap", NOBODY)
    assert answer.code == 3
    assert answer.err == f"{KAFKA} --bootstrap (TAMIS_BOOTSTRAP)\n"
    assert time.monotonic() - began < 10


def test_init_needs_kafka_and_redis(
    offline: Tamis, write: Callable[..., Path], services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write()
    answer = offline("init", path, "--bootstrap", NOBODY, "--redis-url", services.redis_url)
    assert (answer.code, answer.err.startswith(KAFKA)) == (3, True)
    monkeypatch.setenv("TAMIS_REDIS_URL", f"redis://:secret@{NOBODY}/0")
    answer = offline("init", path, "--bootstrap", services.bootstrap)
    assert answer.code == 3
    assert answer.err.startswith(f"error: Redis at redis://***@{NOBODY}/0 accepts no connection; start it")
    assert "TAMIS_REDIS_URL" in answer.err


@pytest.mark.parametrize("option", ["--bootstrap", "--redis-url"])
def test_the_demo_does_not_start_without_the_services_that_it_is_given(
    offline: Tamis, services: Services, option: str
) -> None:
    given = {"--bootstrap": services.bootstrap, "--redis-url": services.redis_url}
    given[option] = NOBODY if option == "--bootstrap" else f"redis://{NOBODY}/0"
    answer = offline("demo", *[word for pair in given.items() for word in pair])
    assert answer.code == 3
    assert "accepts no connection; start it, or leave the address out" in answer.err


def test_no_address_at_all_is_said_with_the_variable_and_the_option(offline: Tamis) -> None:
    answer = offline("status", "first")
    assert answer.code == 2
    assert answer.err.startswith("error: TAMIS_BOOTSTRAP (--bootstrap): is not set; expected Kafka's host:port")


def test_a_redis_that_may_lose_payloads_is_refused(
    tamis: Tamis, write: Callable[..., Path], small_redis: Callable[..., LocalRedis], run_name: str
) -> None:
    address = small_redis(policy="allkeys-lru").address
    answer = tamis("init", write(run=run_name), "--redis-url", address)
    assert answer.code == 2
    assert "has maxmemory-policy allkeys-lru and would lose payloads; expected noeviction" in answer.err
    assert run_name not in tamis("runs").out.split()


def test_a_payload_that_redis_could_never_take_is_a_caution(
    tamis: Tamis, write: Callable[..., Path], small_redis: Callable[..., LocalRedis], run_name: str
) -> None:
    path = write(
        run=run_name,
        group_size=1,
        domains={"a": {"quota": 1}},
        filters={"default": [{"type": "no_filter"}]},
        payload={"budget": "28MiB", "max": "28MiB"},
    )
    answer = tamis("init", path, "--redis-url", small_redis(maxmemory=64 * MIB).address)
    assert answer.code == 0
    assert f"caution: payload.max: is {28 * MIB}, more than 0.4 of Redis' maxmemory {64 * MIB}" in answer.err
    assert answer.err.endswith("[payload_never_fits]\n")


def test_a_kafka_that_accepts_and_says_nothing_is_said_within_seconds(
    offline: Tamis, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert common.ANSWER_S == 10.0
    monkeypatch.setattr(common, "ANSWER_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        answer = offline("status", "first", "--bootstrap", where)
        assert time.monotonic() - began < 5
    assert answer.code == 3
    assert answer.err.startswith(f"error: no Kafka broker answers at {where} within 0.5 s (")
    assert "correct --bootstrap (TAMIS_BOOTSTRAP); TLS and passwords" in answer.err


def test_a_run_has_a_status_while_redis_is_away(
    tamis: Tamis, created: Connection, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAMIS_REDIS_URL", f"redis://{NOBODY}/0")
    away = f"Redis at redis://{NOBODY}/0 accepts no connection; start it"
    answer = tamis("status", created.run)
    assert answer.code == 0 and f"problem            {away}" in answer.out and "0 of 3" in answer.out
    found = json.loads(tamis("status", created.run, "--json").out)
    assert found["payload_keys"] is None and found["problems"][0].startswith(away)
    monkeypatch.delenv("TAMIS_REDIS_URL")
    found = json.loads(tamis("status", created.run, "--json").out)
    assert found["problems"][0].startswith("TAMIS_REDIS_URL (--redis-url): is not set")


def test_services_of_up_that_have_gone_are_named(offline: Tamis, home: Path, services: Services) -> None:
    record = {
        kind: {"kind": kind, "backend": "process", "address": address, "how": "a process"}
        for kind, address in (("kafka", NOBODY), ("redis", f"redis://{NOBODY}/0"))
    }
    write_json(home / ".tamis" / "services.json", record)
    again = "doesn't answer; `tamis up` starts it again"
    answer = offline("runs")
    assert (answer.code, answer.err) == (3, f"error: Kafka, which `tamis up` started at {NOBODY}, {again}\n")
    answer = offline("audit", "first", "--bootstrap", services.bootstrap)
    assert (answer.code, answer.err) == (3, f"error: Redis, which `tamis up` started at redis://{NOBODY}/0, {again}\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("status", "bad name"), "RUN: 'bad name' is no name of a run; expected 1 to 63 of a-z, 0-9, _ and -"),
        (("consume", "scorer", "--run", "x", "--slot", "a b"), "--slot: 'a b' is no slot; expected 1 to 200 letters"),
        (("runs", "--bootstrap", "foo:bar"), "--bootstrap: 'foo:bar' is no address; expected host:port"),
    ],
)
def test_a_word_of_the_command_line_is_refused_by_its_name(offline: Tamis, words: tuple[str, ...], said: str) -> None:
    answer = offline(*words)
    assert (answer.code, answer.err.startswith(f"error: {said}")) == (2, True), answer.err


@pytest.mark.parametrize("words", [("report", "first", "--out"), ("demo", "--json")], ids=lambda words: words[0])
def test_a_file_that_could_not_be_written_is_refused_before_the_work(
    offline: Tamis, home: Path, words: tuple[str, ...]
) -> None:
    (home / "taken").write_text("a file")
    answer = offline(*words, "taken/deep/result", "--bootstrap", NOBODY, "--redis-url", f"redis://{NOBODY}/0")
    assert answer.code == 2
    assert answer.err.startswith(f"error: {words[-1]} taken/deep/result: taken")
    assert answer.err.endswith("Not a directory; name a file in a folder that can be written\n")


@pytest.mark.parametrize("command", ["up", "down", "runs"])
def test_a_state_folder_that_cannot_be_used_names_its_variable(offline: Tamis, home: Path, command: str) -> None:
    (home / ".tamis").write_text("a file")
    answer = offline(command)
    assert answer.code == 2 and ".tamis" in answer.err.partition(";")[0]
    assert answer.err.endswith("; expected a folder that can be written: set TAMIS_STATE to one\n")


def test_a_redis_that_runs_with_another_limit_is_a_caution(home: Path, small_redis: Callable[..., LocalRedis]) -> None:
    address = small_redis(maxmemory=64 * MIB).address
    assert other_memory(address, 64) is None
    told = other_memory(address, 128)
    assert told is not None and told.startswith(f"Redis at {address} runs already, with 64 MiB; for 128 MiB: `tamis")
    assert told.endswith("`tamis down` and `tamis up --maxmemory 128`")
