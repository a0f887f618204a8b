"""Kafka and Redis by pipeline.local's Docker path, with a real daemon."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from pipeline.local import down, ensure, status
from pipeline.local.docker import docker_problem, image_problem
from pipeline.local.probe import kafka_answers, redis_answers
from pipeline.log.client import using
from tests.local.test_local import MIB, command, read_first, write_in_a_transaction

pytestmark = [pytest.mark.containers, pytest.mark.timeout(300)]


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    down(tmp_path, wipe=True)


def test_kafka_and_redis_come_back_in_their_containers_with_their_data(state: Path) -> None:
    assert docker_problem() is None
    said: list[str] = []
    before = ensure(state, redis_maxmemory=64 * MIB, say=said.append)
    assert before.how == "kafka: Docker, redis: Docker"
    assert said == ["starting kafka (Docker)", "starting redis (Docker)"]
    topic = f"t{secrets.token_hex(4)}"
    with using(AdminClient({"bootstrap.servers": before.bootstrap})) as admin:
        admin.create_topics([NewTopic(topic, 1)])[topic].result(30)
    write_in_a_transaction(before.bootstrap, topic, b"kept")
    assert read_first(before.bootstrap, topic) == b"kept"
    assert command(before.redis_url, "SET kept 1").startswith("+OK")
    assert "noeviction" in command(before.redis_url, "CONFIG GET maxmemory-policy")
    assert len(down(state)) == 2
    assert not kafka_answers(before.bootstrap) and not redis_answers(before.redis_url)
    assert ensure(state) == before
    assert read_first(before.bootstrap, topic) == b"kept"
    assert command(before.redis_url, "GET kept") == "$1\r\n1\r\n"
    down(state, wipe=True)
    assert status(state) == []


def test_containers_whose_state_folder_was_deleted_are_made_anew(state: Path) -> None:
    given = ensure(state / "a", redis_maxmemory=64 * MIB, first="process").bootstrap
    before = ensure(state, bootstrap=given, redis_maxmemory=64 * MIB)
    (state / "docker-redis" / "port.json").unlink()
    (state / "services.json").unlink()
    after = ensure(state, bootstrap=given, redis_maxmemory=64 * MIB)
    assert redis_answers(after.redis_url)
    assert after.redis_url != before.redis_url
    down(state / "a", wipe=True)


def test_an_image_that_nobody_has_is_named() -> None:
    said: list[str] = []
    problem = image_problem("tamis-no-such-image:0", said.append)
    assert problem is not None and "tamis-no-such-image:0" in problem
    assert said == ["pulling tamis-no-such-image:0"]
