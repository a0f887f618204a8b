"""Kafka and Redis of the tests in containers, by testcontainers, where `--containers` asks for them: same images, same
settings, and the same to the tests as the processes of pipeline.local."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")  # the tests remove their containers themselves

from testcontainers.core.container import DockerContainer

from pipeline.local import LocalServicesError
from pipeline.local.docker import KAFKA_IMAGE, kafka_environment, redis_image
from pipeline.local.files import free_port
from pipeline.local.probe import kafka_answers, redis_answers, wait_until
from pipeline.local.redis_server import redis_options

START_WITHIN_S = 90.0


class Server:
    """A container on a port that it keeps over stop, kill and start, as its data."""

    inside_port: int
    address: str

    def __init__(self, image: str) -> None:
        self.port = free_port()
        self._made = DockerContainer(image).with_bind_ports(self.inside_port, self.port)
        self._is_made = False
        self._host = self._made.get_docker_client().host()

    @property
    def running(self) -> bool:
        self._container.reload()
        return self._container.status in ("running", "paused")

    @property
    def container_id(self) -> str:
        return str(self._container.id)

    @property
    def _container(self) -> Any:
        return self._made.get_wrapped_container()

    def start(self) -> None:
        """Start it, made on first use, and wait until it answers."""
        if self._is_made:
            self._container.start()
        else:
            self._is_made = True
            self._made.start()
        if not wait_until(self.answers, START_WITHIN_S, every_s=0.2):
            raise LocalServicesError(f"{self._made.image} was not ready:\n{self._container.logs(tail=20).decode()}")

    def answers(self) -> bool:
        raise NotImplementedError

    def stop(self) -> bool:
        """In order. Whether it ran."""
        ran = self.running
        self._container.stop(timeout=30)
        return ran

    def kill(self) -> None:
        self._container.kill()
        self._container.wait()

    def restart(self) -> None:
        self.stop()
        self.start()

    def pause(self) -> None:
        self._container.pause()

    def resume(self) -> None:
        self._container.unpause()

    def remove(self) -> None:
        """Container and data, whatever state it is in."""
        if self._is_made:
            self._made.stop(force=True, delete_volume=True)


class KafkaServer(Server):
    """The image of pipeline.local. Its listener for clients has a fixed port, which it tells them."""

    inside_port = 9092

    def __init__(self) -> None:
        super().__init__(KAFKA_IMAGE)
        self.bootstrap = self.address = f"{self._host}:{self.port}"
        self._made.with_envs(**kafka_environment(self.bootstrap))

    def answers(self) -> bool:
        return kafka_answers(self.bootstrap)


class RedisServer(Server):
    """The image of pipeline.local."""

    inside_port = 6379

    def __init__(self, maxmemory: int, policy: str = "noeviction", appendonly: bool = True) -> None:
        super().__init__(redis_image())
        self.url = self.address = f"redis://{self._host}:{self.port}/0"
        self._made.with_command(["redis-server", *redis_options(maxmemory, policy, appendonly)])

    def answers(self) -> bool:
        return redis_answers(self.url)


def shared(folder: Path, maxmemory: int) -> tuple[str, str]:
    """The addresses of a Kafka and a Redis that all who name this folder share; who asks first starts them."""
    known = folder / "servers.json"
    with (folder / "servers.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not known.exists():
            kafka, redis = started(KafkaServer, lambda: RedisServer(maxmemory))
            known.write_text(json.dumps([[server.address, server.container_id] for server in (kafka, redis)]))
        (bootstrap, _), (redis_url, _) = json.loads(known.read_text())
    return bootstrap, redis_url


def remove_shared(folder: Path) -> None:
    """Remove what `shared` started, if anybody asked for it."""
    known = folder / "servers.json"
    if known.exists():
        containers = [container for _, container in json.loads(known.read_text())]
        subprocess.run(["docker", "rm", "--force", "--volumes", *containers], capture_output=True, check=True)


def started(*makers: Callable[[], Server]) -> list[Server]:
    """Servers that answer; all are removed again if one of them can't be had."""
    servers: list[Server] = []
    try:
        for make in makers:
            servers.append(make())
            servers[-1].start()
    except Exception:
        for server in servers:
            server.remove()
        raise
    return servers
