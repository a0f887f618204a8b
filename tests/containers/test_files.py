"""Dockerfile, compose.yaml and their locks say what the code says; no Docker is needed to know that."""

from __future__ import annotations

import re
import shlex

import pytest

from pipeline.cli.common import STAGES
from pipeline.config import load
from pipeline.demo.recipe import recipe
from pipeline.demo.tasks import TASKS
from pipeline.local.docker import KAFKA_IMAGE, REDIS_IMAGE
from pipeline.local.kafka_settings import broker_settings
from pipeline.local.redis_server import redis_options
from pipeline.local.services import GIB
from tests.containers.files import DOCKERFILE, PROMETHEUS, PYTHON_IMAGE, ROOT, SERVICES, TORCH, pins, version

CONSUMERS = {name: SERVICES[name] for name in STAGES}
IMAGES = ROOT / "deploy" / "images"


def test_the_locks_of_the_images_pin_what_the_projects_lock_pins() -> None:
    everything, slim, full = (pins(p) for p in (ROOT / "requirements.lock", IMAGES / "slim.lock", IMAGES / "full.lock"))
    assert len(slim) > 20
    assert all(everything[name] == hashes for name, hashes in full.items())
    assert slim.items() <= full.items()
    assert not [name for name in slim if name.startswith(("torch", "nvidia", "pytest", "wandb"))]
    assert [name for name in slim if name.startswith("tensorboardx==")]
    assert [name for name in full if name.startswith("torch==")]


def test_the_images_need_nothing_but_their_base() -> None:
    assert "# syntax" not in DOCKERFILE
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)[0] == "${PYTHON_IMAGE}"
    assert re.findall(r"^ARG (\S+)", DOCKERFILE, re.MULTILINE) == [
        f"PYTHON_IMAGE={PYTHON_IMAGE}",
        f"VERSION={version()}",
        *["SOURCE=unknown", "REVISION=unknown"] * 2,
    ]
    built = [service["build"]["args"] for service in SERVICES.values() if "build" in service]
    assert built == [["PYTHON_IMAGE", "SOURCE", "REVISION"]] * 2
    assert DOCKERFILE.count("USER 10001:10001") == 2
    assert f"VERSION := {version()}\n" in (ROOT / "Makefile").read_text()


def test_every_image_has_a_version_to_the_patch() -> None:
    images = {service["image"] for service in SERVICES.values()}
    assert {KAFKA_IMAGE, f"${{REDIS_IMAGE:-{REDIS_IMAGE}}}", f"tamis:{version()}-slim"} <= images
    named = {re.sub(r"\$\{\w+:-(.+)\}", r"\1", image) for image in images} | {PYTHON_IMAGE}
    assert all(re.search(r":v?\d+\.\d+\.\d+(-\w+)?$", image) for image in named), named


def test_every_consumer_is_a_service_that_is_started_again_within_limits() -> None:
    for name, service in CONSUMERS.items():
        assert shlex.split(service["command"]) == ["python", "-m", f"consumers.{name}", "--until-finished"]
        assert service["restart"] == "on-failure:10"  # and not for ever: one that ends with 2 waits for a person
        assert service["mem_limit"]
        assert service["init"] and service["read_only"]
        assert service["depends_on"] == {"init": {"condition": "service_completed_successfully"}}
        assert service["image"].endswith("full" if name in TORCH else "slim")
        assert ("files:/data" in service["volumes"]) == (name in (*TORCH, "monitor"))  # which keeps its trackers' files
        assert service["environment"]["TAMIS_TRACKERS"] == "${TAMIS_TRACKERS:-}"
        assert "TAMIS_SLOT" not in service["environment"]  # the host name, which each replica has for itself


def test_commands_find_kafka_and_redis_at_work_and_may_write_files() -> None:
    cli = SERVICES["cli"]
    assert cli["depends_on"] == {name: {"condition": "service_healthy"} for name in ("kafka", "redis")}
    assert cli["working_dir"] == "/data" and "files:/data" in cli["volumes"]


def test_kafka_has_the_settings_that_the_pipeline_relies_on() -> None:
    given = SERVICES["kafka"]["environment"]
    wanted = broker_settings(
        "INTERNAL://0.0.0.0:29092,HOST://0.0.0.0:9092,CONTROLLER://localhost:29093",
        "INTERNAL://kafka:29092,HOST://localhost:${KAFKA_PORT:-9092}",
        "localhost:29093",
        "/var/lib/kafka/data",
    )
    names = {f"KAFKA_{key.replace('.', '_').upper()}": value for key, value in wanted.items()}
    assert given == names | {"KAFKA_HEAP_OPTS": "-Xmx512m"}


def test_redis_never_evicts_and_keeps_its_data() -> None:
    assert shlex.split(SERVICES["redis"]["command"]) == ["redis-server", *redis_options(GIB)]


def test_compose_runs_the_demo() -> None:
    assert load(ROOT / "examples" / "demo.yaml") == recipe("demo", 1, TASKS["sorting"].steps, True)
    command = SERVICES["init"]["command"]
    assert command.startswith("tamis init /config/${TAMIS_CONFIG:-demo.yaml} --if-missing")


@pytest.mark.parametrize("path", ["Dockerfile", "compose.yaml", ".dockerignore", "deploy/images/tamis"])
def test_the_container_files_are_there_and_name_no_registry(path: str) -> None:
    assert not re.search(r"https?://|[a-z]\.(io|com|org)/", (ROOT / path).read_text())


def test_prometheus_asks_every_consumer() -> None:
    (job,) = PROMETHEUS["scrape_configs"]
    (found,) = job["dns_sd_configs"]
    assert sorted(found["names"]) == sorted(STAGES)
    assert {service["environment"]["TAMIS_METRICS_PORT"] for service in CONSUMERS.values()} == {str(found["port"])}
