"""The demo in containers: scaled up and down in mid-run, with a container of each kind killed. Nothing is lost, nothing
doubled, nothing left."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable

import pytest

from pipeline.cli.common import STAGES
from pipeline.domain.topology import StageName
from tests.containers.files import PYTHON_IMAGE, version
from tests.containers.project import RUN, STEPS, Project, docker

pytestmark = [pytest.mark.containers, pytest.mark.timeout(1800)]
MB = 1_000_000
MANY = {"generator": 3, "scorer": 2, "assembler": 2}
"""Containers of the stages that are scaled; with so many the run ends."""
KILL_ALL = "kill -9 -1"
"""Kills what runs in a container but its init, which ends with it: to Docker that is a crash, not a wish."""


def size(image: str) -> int:
    return int(docker("image", "inspect", "--format", "{{.Size}}", image))


def is_well(project: Project) -> bool:
    return all(one["State"]["Health"]["Status"] == "healthy" for one in project.inspect(*STAGES))


def is_finished(project: Project) -> bool:
    return all((one["State"]["Status"], one["State"]["ExitCode"]) == ("exited", 0) for one in project.inspect(*STAGES))


def kill_one_of_each(project: Project) -> None:
    """Kill the first container of each consumer, and Redis. Kafka is restarted in order: one node that is killed may
    lose the marker of a transaction (docs/decisions/0006)."""
    killed = [project.containers(stage)[0] for stage in STAGES]
    for container in killed:
        docker("exec", container, "sh", "-c", KILL_ALL, check=False)
    (redis,) = project.containers("redis")
    docker("kill", "--signal", "KILL", redis)
    docker("start", redis)
    project.compose("restart", "kafka")
    restarts = [int(docker("inspect", "--format", "{{.RestartCount}}", container)) for container in killed]
    assert min(restarts) >= 1, restarts
    project.say("killed one container of each consumer and Redis, restarted Kafka in order")


def owned(project: Project, container: str) -> list[int]:
    """The partitions that an assembler's container has; its host name is its slot."""
    members = json.loads(project.tamis("status", RUN, "--json"))["members"]
    (found,) = [m["partitions"] for m in members if m["stage"] == "assembler" and m["slot"] == container[:12]]
    assert found, members
    return list(found)


def snapshots(project: Project, partitions: Iterable[int]) -> dict[int, int]:
    """Where the newest snapshot of each of these partitions of the assembler is; -1: there is none."""
    found = {partition: project.metadata(StageName.ASSEMBLER, partition).snap for partition in partitions}
    return {partition: -1 if snap is None else snap for partition, snap in found.items()}


def stop_one_of_each(project: Project) -> None:
    """Each ends by SIGTERM with exit code 0 in under 5 s, an assembler with a new snapshot of each partition that it
    had, and goes on when it is started again."""
    for stage in STAGES:
        container = project.containers(stage)[0]
        before = snapshots(project, owned(project, container)) if stage == "assembler" else {}
        began = time.monotonic()
        docker("stop", "--time", "9", container)
        took = time.monotonic() - began
        code = docker("inspect", "--format", "{{.State.ExitCode}}", container)
        project.say(f"stopped {stage} in {took:.1f} s, exit code {code}")
        assert (code, took < 5.0) == ("0", True), docker("logs", "--tail", "5", container)
        after = snapshots(project, before)
        assert all(after[partition] > snap for partition, snap in before.items()), (before, after)
        docker("start", container)


def test_the_slim_image_adds_less_than_250_mb_to_its_base_and_has_no_torch(project: Project) -> None:
    project.compose("build")
    images = {name: f"tamis:{version()}-{name}" for name in ("slim", "full")}
    added = size(images["slim"]) - size(os.environ.get("PYTHON_IMAGE", PYTHON_IMAGE))
    project.say(f"slim adds {added / MB:.0f} MB to its base, full {(size(images['full']) - added) / MB:.0f} MB to slim")
    assert added < 250 * MB
    find = ["python", "-c", "import importlib.util as u; print(u.find_spec('torch') is not None)"]
    found = {name: docker("run", "--rm", "--read-only", image, *find) for name, image in images.items()}
    assert found == {"slim": "False", "full": "True"}
    for image in images.values():
        labels = json.loads(docker("image", "inspect", "--format", "{{json .Config.Labels}}", image))
        assert labels["org.opencontainers.image.version"] == version()
        assert {"org.opencontainers.image.source", "org.opencontainers.image.revision"} <= labels.keys()
        assert docker("image", "inspect", "--format", "{{.Config.User}}", image) == "10001:10001"


def scale(project: Project) -> dict[str, int]:
    """How many containers there are of each stage that is scaled, ended ones too."""
    return {stage: len(project.containers(stage)) for stage in MANY}


def more_batches(project: Project, many: int) -> None:
    wanted = min(project.trained() + many, STEPS)
    project.wait(f"{wanted} batches are trained", lambda: project.trained() >= wanted)


def test_a_run_is_scaled_up_and_down_survives_kills_and_ends_clean(project: Project) -> None:
    project.compose("build")
    project.say("built the images")
    project.up(generator=1, scorer=1, assembler=1)
    project.wait("2 batches are trained", lambda: project.trained() >= 2)
    project.up(**MANY)
    assert scale(project) == MANY
    project.wait("all consumers are well with 3 generators, 2 scorers and 2 assemblers", lambda: is_well(project))
    more_batches(project, 2)
    stop_one_of_each(project)
    project.up(generator=1, scorer=1, assembler=1)
    more_batches(project, 1)
    project.up(**MANY)
    project.wait("all consumers are well again", lambda: is_well(project))
    assert project.trained() < STEPS, f"the run of {STEPS} steps is over too soon"
    kill_one_of_each(project)
    more_batches(project, 2)
    project.wait("the run is finished, and every consumer has ended with 0", lambda: is_finished(project), 600)
    assert scale(project) == MANY
    audit = json.loads(project.tamis("audit", RUN, "--json"))
    assert audit["clean"], audit
    status = json.loads(project.tamis("status", RUN, "--json"))
    assert (status["outcome"], status["payload_keys"]) == ("completed", 0), status
    assert project.trained() == STEPS
    project.say(f"audit clean: {audit['checked']}; 0 keys left")
