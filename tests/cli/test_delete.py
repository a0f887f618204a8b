"""`tamis delete`: it asks before anything is gone, and either all of a run goes or nothing."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from pipeline.local import Services
from pipeline.log.client import Connection
from pipeline.store.keys import fresh_key
from pipeline.store.payloads import PayloadStore

from .conftest import Tamis

pytestmark = pytest.mark.contract


class Terminal(io.StringIO):
    """A person who types this."""

    def isatty(self) -> bool:
        return True


def leave_behind(services: Services, run: str, home: Path) -> PayloadStore:
    """Three payloads and a checkpoint of a run."""
    store = PayloadStore(services.redis_url, run, max_payload_bytes=100)
    store.put_many([(fresh_key(run, "0@0", slot, 0), b"payload") for slot in range(3)], 60_000)
    file = home / ".tamis" / "files" / run / "c.bin"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"weights")
    return store


def test_a_deleted_name_is_free_again(tamis: Tamis, created: Connection) -> None:
    unasked = tamis("delete", created.run)
    assert unasked.code == 2 and f"deleting 9 topics of run {created.run} needs a yes: use --yes" in unasked.err
    answer = tamis("delete", created.run, "--yes")
    assert (answer.code, answer.out) == (0, f"deleted 9 topics of run {created.run}\n")
    assert created.run not in tamis("runs").out.split()
    assert tamis("delete", created.run, "--yes").out == f"there is no run {created.run}\n"
    assert tamis("init", "run.yaml").code == 0


def test_what_is_left_of_a_run_that_this_kafka_does_not_know_is_asked_about_too(
    tamis: Tamis, services: Services, run_name: str, home: Path
) -> None:
    store, folder = leave_behind(services, run_name, home), home / ".tamis" / "files" / run_name
    answer = tamis("delete", run_name)
    assert answer.code == 2
    assert f"deleting 3 payloads and the folder {folder} of run {run_name} (Kafka at" in answer.err
    assert "has no such run: is it the right one?) needs a yes" in answer.err
    assert (store.count_keys(), folder.exists()) == (3, True)
    answer = tamis("delete", run_name, "--yes")
    assert (answer.code, answer.out) == (0, f"deleted 3 payloads and the folder {folder} of run {run_name}\n")
    assert (store.count_keys(), folder.exists()) == (0, False)


def test_nothing_is_deleted_where_redis_is_not_known_or_does_not_answer(
    offline: Tamis, created: Connection, services: Services, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = leave_behind(services, created.run, home)
    monkeypatch.delenv("TAMIS_REDIS_URL")
    answer = offline("delete", created.run, "--yes")
    assert answer.code == 2 and "TAMIS_REDIS_URL (--redis-url): is not set" in answer.err
    # It listens, but it isn't a Redis.
    answer = offline("delete", created.run, "--yes", "--redis-url", f"redis://{services.bootstrap}/0")
    assert answer.code == 3 and "can't serve" in answer.err
    assert created.run in offline("runs").out.split() and store.count_keys() == 3
    assert (home / ".tamis" / "files" / created.run / "c.bin").exists()


@pytest.mark.parametrize(("word", "code"), [("y", 0), ("n", 1)])
def test_the_question_is_not_part_of_the_answer(
    tamis: Tamis, created: Connection, monkeypatch: pytest.MonkeyPatch, word: str, code: int
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(f"{word}\n"))
    answer = tamis("delete", created.run, "--json")
    assert answer.code == code and f"Delete for ever 9 topics of run {created.run}?" in answer.err
    if word == "y":
        assert json.loads(answer.out) == {"run": created.run, "topics": 9, "payloads": 0, "folder": None}
    else:
        assert answer.out.strip() == "" and created.run in tamis("runs").out.split()
