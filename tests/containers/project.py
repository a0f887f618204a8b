"""A compose project of a test's own: its containers, its run, and what is asked of both from outside."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from pipeline.domain import events as e
from pipeline.domain.topology import READS, StageName, Topic
from pipeline.local.files import free_port
from pipeline.log.client import Connection, admin_client
from pipeline.log.metadata import OffsetMetadata, parse_metadata
from pipeline.log.reader import read_topic
from pipeline.log.topics import group_name, topic_name
from tests.containers.files import ROOT

RUN = "demo"
STEPS = 240


def docker(*words: str, within_s: float = 120.0, check: bool = True) -> str:
    """What a docker command prints; fails with its errors."""
    done = subprocess.run(["docker", *words], capture_output=True, text=True, timeout=within_s)
    assert done.returncode == 0 or not check, f"docker {' '.join(words)}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout.strip()


class Project:
    """Containers of compose.yaml under a name and on ports of their own. `say` tells what is done, with the time."""

    def __init__(self, name: str, init: str) -> None:
        self.name = name
        self._began = time.monotonic()
        self._kafka_port = free_port()
        self.prometheus_port = free_port()
        self._environment = {
            **os.environ,
            "KAFKA_PORT": str(self._kafka_port),
            "REDIS_PORT": str(free_port()),
            "PROMETHEUS_PORT": str(self.prometheus_port),
            "TAMIS_RUN": RUN,
            "TAMIS_INIT": init,
        }

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self._began:5.0f} s] {text}", flush=True)

    def compose(self, *words: str, within_s: float = 600.0, check: bool = True) -> str:
        """What a compose command prints; fails with its errors, or with the consumers' last words."""
        command = ["docker", "compose", "--project-name", self.name, *words]
        done = subprocess.run(
            command, cwd=ROOT, env=self._environment, capture_output=True, text=True, timeout=within_s
        )
        assert done.returncode == 0 or not check, f"{' '.join(command)}: {done.stdout[-4000:]}{done.stderr[-4000:]}"
        return done.stdout.strip()

    def up(self, **replicas: int) -> None:
        """Start what isn't there, and remove replicas that are too many."""
        scale = [word for service, many in replicas.items() for word in ("--scale", f"{service}={many}")]
        self.compose("up", "--detach", "--no-recreate", "--no-build", *scale)

    def down(self) -> None:
        self.compose("--profile", "*", "down", "--volumes", "--timeout", "5")

    def containers(self, *services: str) -> list[str]:
        """Ids of the containers of these services, ended ones too; oldest first."""
        label = "com.docker.compose"
        form = f'{{{{.Label "{label}.container-number"}}}} {{{{.Label "{label}.service"}}}} {{{{.ID}}}}'
        mine = f"label={label}.project={self.name}"
        rows = [row.split() for row in docker("ps", "--all", "--filter", mine, "--format", form).splitlines()]
        return [container for _, service, container in sorted(rows) if service in services]

    def inspect(self, *services: str) -> list[dict[str, Any]]:
        """What Docker knows of these services' containers."""
        found: list[dict[str, Any]] = json.loads(docker("inspect", *self.containers(*services)))
        return found

    def tamis(self, *words: str) -> str:
        """What the command line prints, in a container of its own."""
        return self.compose("run", "--rm", "--no-TTY", "cli", *words)

    def connection(self) -> Connection:
        """The run's log, from this machine."""
        return Connection(f"localhost:{self._kafka_port}", RUN, "outside")

    def trained(self) -> int:
        """Batches trained so far."""
        return sum(isinstance(r.event(), e.BatchTrained) for r in read_topic(self.connection(), Topic.LEDGER))

    def metadata(self, stage: StageName, partition: int) -> OffsetMetadata:
        """What goes with a stage's committed offset."""
        place = TopicPartition(topic_name(RUN, READS[stage]), partition)
        group = group_name(RUN, stage)
        admin = admin_client(self.connection())  # one that is let go of never answers
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group, [place])])
        (found,) = asked[group].result(30).topic_partitions
        return parse_metadata(found.metadata)

    def wait(self, what: str, condition: Callable[[], bool], within_s: float = 240.0) -> None:
        """Until it is so; fails with what the consumers said last."""
        began = time.monotonic()
        while not condition():
            if time.monotonic() - began > within_s:
                tails = self.compose("logs", "--tail", "4", "--no-color", check=False)
                raise AssertionError(f"not within {within_s:g} s: {what}\n{tails}")
            time.sleep(1.0)
        self.say(f"{what} (after {time.monotonic() - began:.0f} s)")
