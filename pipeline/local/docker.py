"""Kafka and Redis in containers, through the `docker` command."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from .errors import LocalServicesError
from .files import kept_port
from .jars import KAFKA_VERSION
from .kafka_settings import broker_settings
from .probe import kafka_answers, redis_answers, wait_until
from .redis_server import redis_options

KAFKA_IMAGE = f"apache/kafka:{KAFKA_VERSION}"
REDIS_IMAGE = "redis:7.4.6"
START_WITHIN_S = 90.0


def redis_image() -> str:
    """The image of Redis; the environment's REDIS_IMAGE, as in compose.yaml, names a stand-in."""
    return os.environ.get("REDIS_IMAGE") or REDIS_IMAGE


def docker_problem() -> str | None:
    """Why Docker can't be used here, or None if a daemon answers."""
    if shutil.which("docker") is None:
        return "no docker on the PATH"
    answer = _docker("version", "--format", "{{.Server.Version}}", within_s=10.0)
    return None if answer.returncode == 0 else "the Docker daemon does not answer"


def image_problem(image: str, say: Callable[[str], None]) -> str | None:
    """Why `image` can't be had, or None if it is there, perhaps by pulling it now."""
    if _docker("image", "inspect", image, within_s=10.0).returncode == 0:
        return None
    say(f"pulling {image}")
    pulled = _docker("pull", "--quiet", image, within_s=600.0)
    return None if pulled.returncode == 0 else f"docker pull {image}: {pulled.stderr.strip()[-300:]}"


@dataclass
class Container:
    """One service in a container whose name follows from the state folder. Its data live as long as the container."""

    name: str
    image: str
    inside_port: int
    folder: Path
    address_form: str
    answers: Callable[[str], bool]
    options: Callable[[int], Sequence[str]]
    command: Sequence[str] = ()
    how: str = "Docker"

    @cached_property
    def port(self) -> int:
        return kept_port(self.folder / "port.json")

    @property
    def address(self) -> str:
        return self.address_form.format(port=self.port)

    @property
    def running(self) -> bool:
        return _docker("container", "inspect", "--format", "{{.State.Running}}", self.name).stdout.strip() == "true"

    def start(self) -> None:
        """Start the container, made on first use, and wait until it answers. Raises LocalServicesError with its log."""
        if not (self.folder / "port.json").exists():  # a container whose folder was deleted: its port is unknown
            self.wipe()
        if _docker("container", "inspect", self.name).returncode == 0:
            _must("start", self.name)
        else:
            publish = ["--publish", f"127.0.0.1:{self.port}:{self.inside_port}"]
            _must("run", "--detach", "--name", self.name, *publish, *self.options(self.port), self.image, *self.command)
        if not wait_until(lambda: self.answers(self.address), START_WITHIN_S, every_s=0.2):
            tail = _docker("logs", "--tail", "20", self.name)
            raise LocalServicesError(
                f"container {self.name} was not ready within {START_WITHIN_S:g} s. The end of its log:\n"
                f"{tail.stdout}{tail.stderr}"
            )

    def stop(self) -> bool:
        return _docker("stop", self.name, within_s=60.0).returncode == 0

    def wipe(self) -> None:
        _docker("rm", "--force", "--volumes", self.name, within_s=60.0)
        shutil.rmtree(self.folder, ignore_errors=True)


def kafka_environment(address: str) -> dict[str, str]:
    """The official image's environment for a broker that clients reach at `address`. One setting from outside drops all
    of its defaults, so it gets the full set."""
    listeners = "INTERNAL://localhost:29092,HOST://0.0.0.0:9092,CONTROLLER://localhost:29093"
    advertised = f"INTERNAL://localhost:29092,HOST://{address}"
    settings = broker_settings(listeners, advertised, "localhost:29093", "/var/lib/kafka/data")
    names = {"KAFKA_" + key.replace(".", "_").upper(): value for key, value in settings.items()}
    return names | {"KAFKA_HEAP_OPTS": "-Xmx512m"}


def docker_kafka(state_dir: Path) -> Container:
    """The official image."""

    def environment(port: int) -> list[str]:
        pairs = kafka_environment(f"127.0.0.1:{port}")
        return [word for name, value in pairs.items() for word in ("--env", f"{name}={value}")]

    return Container(
        name=_name(state_dir, "kafka"),
        image=KAFKA_IMAGE,
        inside_port=9092,
        folder=state_dir.absolute() / "docker-kafka",
        address_form="127.0.0.1:{port}",
        answers=kafka_answers,
        options=environment,
    )


def docker_redis(state_dir: Path, maxmemory: int) -> Container:
    """The official image, with the options of the local server."""
    return Container(
        name=_name(state_dir, "redis"),
        image=redis_image(),
        inside_port=6379,
        folder=state_dir.absolute() / "docker-redis",
        address_form="redis://127.0.0.1:{port}/0",
        answers=redis_answers,
        options=lambda _: (),
        command=["redis-server", *redis_options(maxmemory)],
    )


def _name(state_dir: Path, service: str) -> str:
    digest = hashlib.sha256(str(state_dir.absolute()).encode()).hexdigest()
    return f"tamis-{digest[:10]}-{service}"


def _docker(*words: str, within_s: float = 30.0) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(["docker", *words], capture_output=True, text=True, timeout=within_s)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 124, "", f"no answer within {within_s:g} s")


def _must(*words: str) -> None:
    done = _docker(*words, within_s=60.0)
    if done.returncode != 0:
        raise LocalServicesError(f"docker {words[0]} failed (exit {done.returncode}): {done.stderr.strip()[-600:]}")
