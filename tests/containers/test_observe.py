"""Prometheus beside a run in containers: it finds every replica, and has what the dashboard asks for."""

from __future__ import annotations

import subprocess
from collections import Counter
from functools import partial

import pytest

from pipeline.cli.common import STAGES
from tests.containers.files import QUERIES, SERVICES
from tests.containers.project import STEPS, Project
from tests.containers.prometheus import Prometheus

pytestmark = [pytest.mark.containers, pytest.mark.timeout(1200)]
ONE_EACH = Counter(dict.fromkeys(((stage, "up") for stage in STAGES), 1))
SCALE = {"generator": 3, "scorer": 2, "assembler": 2}
ONLY_IF = " > 0"
"""How a query leaves out what did not happen."""


def need(image: str) -> None:
    """Skip the test where the image isn't here and can't be pulled."""
    have = subprocess.run(["docker", "image", "inspect", image], capture_output=True, timeout=30).returncode == 0
    if have:
        return
    pulled = subprocess.run(["docker", "pull", "--quiet", image], capture_output=True, text=True, timeout=300)
    if pulled.returncode != 0:
        pytest.skip(f"{image} is not here and can't be pulled: {pulled.stderr.strip()[-200:]}")


def test_prometheus_finds_every_replica_and_has_what_the_dashboard_asks_for(project: Project) -> None:
    need(SERVICES["prometheus"]["image"])
    project.compose("build")
    project.up(**SCALE)
    project.compose("up", "--detach", "--no-deps", "prometheus")
    asked = Prometheus(project.prometheus_port)
    scaled = ONE_EACH | Counter({(stage, "up"): many for stage, many in SCALE.items()})
    project.wait(f"Prometheus reads {scaled.total()} consumers", lambda: asked.targets() == scaled)
    project.up(generator=1, scorer=1, assembler=1)
    project.wait(f"Prometheus has seen that {ONE_EACH.total()} are left", lambda: asked.targets() == ONE_EACH)
    for query in QUERIES:
        happened = query.removesuffix(ONLY_IF)
        project.wait(f"Prometheus has {happened}", partial(asked.has, happened))
    finished = f"tamis_step == {STEPS} and tamis_finished == 1"
    project.wait("Prometheus has the last numbers of the finished run", partial(asked.has, finished))
