"""The real broker and the real Redis, on this machine."""

import socket
import subprocess
import sys
import xml.etree.ElementTree as xml
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from pipeline.local import LocalKafka, LocalRedis, LocalServicesError, Services, down, ensure, status
from pipeline.local.daemon import Daemon
from pipeline.local.docker import docker_kafka
from pipeline.local.files import kept_port
from pipeline.local.jars import KAFKA_VERSION, POM
from pipeline.local.probe import kafka_answers, redis_answers, wait_until
from pipeline.log.client import using

MIB = 1024**2


def command(url: str, words: str) -> str:
    """The reply to one inline Redis command."""
    host, port = url.removeprefix("redis://").removesuffix("/0").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as sock:
        sock.sendall(f"{words}\r\n".encode())
        return sock.recv(4096).decode()


def write_in_a_transaction(bootstrap: str, topic: str, value: bytes) -> None:
    with using(Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})) as producer:
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        producer.commit_transaction(30)


def read_first(bootstrap: str, topic: str) -> bytes | None:
    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": "read_committed"}
    with using(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(30)
    return message.value() if message is not None and message.error() is None else None


def test_the_shared_services_answer(services: Services):
    assert kafka_answers(services.bootstrap)
    assert redis_answers(services.redis_url)


def test_ensure_twice_gives_the_same_and_starts_nothing(services: Services, tmp_path: Path):
    first = ensure(tmp_path, bootstrap=services.bootstrap, redis_maxmemory=64 * MIB)
    said: list[str] = []
    second = ensure(tmp_path, bootstrap=services.bootstrap, redis_maxmemory=64 * MIB, say=said.append)
    assert (first, said) == (second, [])
    assert [answers for _, answers in status(tmp_path)] == [True]
    down(tmp_path)


def test_two_processes_that_ensure_at_once_share_one_redis(services: Services, tmp_path: Path):
    code = (
        "from pathlib import Path; from pipeline.local import ensure\n"
        f"print(ensure(Path({str(tmp_path)!r}), bootstrap={services.bootstrap!r}).redis_url)"
    )
    both = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    urls = {process.communicate(timeout=60)[0] for process in both}
    assert len(urls) == 1
    assert len(down(tmp_path, wipe=True)) == 1


def test_down_stops_what_ensure_started_and_ensure_brings_it_back_with_its_data(services: Services, tmp_path: Path):
    given = services.bootstrap
    before = ensure(tmp_path, bootstrap=given, redis_maxmemory=64 * MIB)
    assert command(before.redis_url, "SET kept 1").startswith("+OK")
    (stopped,) = down(tmp_path)
    assert stopped.startswith(f"redis at {before.redis_url} ")
    assert not redis_answers(before.redis_url)
    assert kafka_answers(given)
    assert down(tmp_path) == []
    assert ensure(tmp_path, bootstrap=given, redis_maxmemory=64 * MIB) == before
    assert command(before.redis_url, "GET kept") == "$1\r\n1\r\n"
    down(tmp_path, wipe=True)
    assert status(tmp_path) == []
    assert not (tmp_path / "redis").exists()


def test_a_server_of_another_on_our_old_port_is_not_taken_for_ours(services: Services, tmp_path: Path):
    ours = ensure(tmp_path / "a", bootstrap=services.bootstrap, redis_maxmemory=64 * MIB)
    down(tmp_path / "a")
    other = LocalRedis(tmp_path / "b", 64 * MIB, port=int(ours.redis_url.split(":")[2].removesuffix("/0")))
    other.start()
    assert redis_answers(ours.redis_url)
    assert [answers for _, answers in status(tmp_path / "a")] == [False]
    other.stop()


def test_given_addresses_that_do_not_answer_are_named(tmp_path: Path):
    with pytest.raises(LocalServicesError, match=r"Kafka at 127\.0\.0\.1:1 accepts no connection"):
        ensure(tmp_path, bootstrap="127.0.0.1:1")
    with pytest.raises(LocalServicesError, match=r"Redis at redis://127\.0\.0\.1:1/0 accepts no connection"):
        ensure(tmp_path, redis_url="redis://127.0.0.1:1/0")


def test_one_error_names_all_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.path", [])
    with pytest.raises(LocalServicesError) as raised:
        ensure(tmp_path)
    text = str(raised.value)
    assert all(word in text for word in ("no docker", "no Java", "no redis-server", "apt-get install", "start Docker"))


def test_where_docker_can_not_pull_a_process_is_started(
    services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text('#!/bin/sh\ntest "$1" = version\n')
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(docker.parent), prepend=":")
    said: list[str] = []
    found = ensure(tmp_path, bootstrap=services.bootstrap, redis_maxmemory=64 * MIB, say=said.append)
    assert found.how == "kafka: given, redis: redis-server"
    assert said == ["pulling redis:7.4.6", "starting redis (redis-server)"]
    down(tmp_path)


@pytest.mark.faults
def test_a_killed_broker_comes_back_on_its_port_with_its_data(own_kafka: LocalKafka, run_name: str):
    address = own_kafka.bootstrap
    with using(AdminClient({"bootstrap.servers": address})) as admin:
        admin.create_topics([NewTopic(run_name, 1)])[run_name].result(30)
    write_in_a_transaction(address, run_name, b"kept")
    assert read_first(address, run_name) == b"kept"  # its marker is written: see LocalKafka.kill
    own_kafka.kill()
    assert not kafka_answers(address)
    own_kafka.start()
    assert own_kafka.bootstrap == address
    assert read_first(address, run_name) == b"kept"


@pytest.mark.faults
def test_a_frozen_broker_accepts_but_does_not_answer_until_resumed(own_kafka: LocalKafka):
    own_kafka.pause()
    assert own_kafka.running
    assert wait_until(lambda: not kafka_answers(own_kafka.bootstrap, within_s=0.3), within_s=10)
    own_kafka.resume()
    assert kafka_answers(own_kafka.bootstrap, within_s=10)


def test_the_broker_does_not_make_topics_unasked(services: Services, run_name: str):
    failed: list[object] = []
    with using(Producer({"bootstrap.servers": services.bootstrap, "message.timeout.ms": 2000})) as producer:
        producer.produce(run_name, b"x", on_delivery=lambda error, _: failed.append(error))
        producer.flush(10)
    assert failed[0] is not None


def test_redis_has_the_limit_and_the_policy_asked_for(small_redis: Callable[..., LocalRedis]):
    url = small_redis(maxmemory=64 * MIB).url
    assert str(64 * MIB) in command(url, "CONFIG GET maxmemory")
    assert "noeviction" in command(url, "CONFIG GET maxmemory-policy")
    assert "allkeys-lru" in command(small_redis(policy="allkeys-lru").url, "CONFIG GET maxmemory-policy")


@pytest.mark.faults
def test_a_redis_without_appendonly_forgets_over_a_restart_and_keeps_its_port(small_redis: Callable[..., LocalRedis]):
    redis = small_redis(appendonly=False)
    url = redis.url
    assert command(url, "SET k v").startswith("+OK")
    redis.kill()
    assert not redis.running
    redis.start()
    assert redis.url == url
    assert command(url, "GET k") == "$-1\r\n"


def test_redis_can_listen_on_a_socket_too(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("u")
    redis = LocalRedis(folder, 64 * MIB, appendonly=False, unixsocket=folder / "s")
    redis.start()
    assert redis_answers(f"unix://{folder}/s")
    redis.stop()


def test_a_daemon_that_ends_at_once_shows_the_end_of_its_log(tmp_path: Path):
    with pytest.raises(LocalServicesError, match=r"Thing ended at once(.|\n)*no luck"):
        Daemon("Thing", tmp_path).start(["/bin/sh", "-c", "echo no luck; exit 3"], lambda: False, within_s=10)


def test_a_daemon_that_never_gets_ready_is_ended(tmp_path: Path):
    daemon = Daemon("Thing", tmp_path)
    with pytest.raises(LocalServicesError, match=r"Thing was not ready within 0\.2 s"):
        daemon.start(["/bin/sleep", "60"], lambda: False, within_s=0.2)
    assert daemon.process() is None


def test_the_pom_pins_the_version_that_the_code_names():
    found = {node.text for node in xml.parse(POM).iter("{http://maven.apache.org/POM/4.0.0}version")}
    assert KAFKA_VERSION in found


def test_the_container_gets_the_settings_of_the_local_broker_as_environment(tmp_path: Path):
    words = docker_kafka(tmp_path).options(19092)
    assert "KAFKA_OFFSETS_RETENTION_MINUTES=2147483647" in words
    assert "KAFKA_ADVERTISED_LISTENERS=INTERNAL://localhost:29092,HOST://127.0.0.1:19092" in words


def test_a_redis_that_does_not_answer_is_named_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(LocalServicesError) as refused:
        ensure(tmp_path, redis_url="redis://user:hunter2@127.0.0.1:1/0")
    assert "hunter2" not in str(refused.value)
    assert "127.0.0.1:1" in str(refused.value)


def test_two_ports_that_belong_together_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    drawn = iter([0, 0, 1])
    monkeypatch.setattr("pipeline.local.files.secrets.randbelow", lambda most: next(drawn))
    first = kept_port(tmp_path / "one.json")
    assert kept_port(tmp_path / "two.json", other_than=first) == first + 1


@pytest.mark.faults
def test_a_killed_server_is_gone_with_all_of_its_threads_and_its_port_is_free(small_redis: Callable[..., LocalRedis]):
    """A kill could leave the port taken for a moment: the process was a zombie, but had living threads."""
    redis = small_redis(appendonly=False)
    for _ in range(30):
        redis.kill()
        redis.start()
