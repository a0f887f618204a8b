"""What every test may use: one broker and one Redis for all tests and all xdist workers, and names of its own on them.

`TAMIS_TEST_BOOTSTRAP` and `TAMIS_TEST_REDIS` name running ones; else the first test that asks starts them, and the end
of the session stops them.
"""

import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import settings

from pipeline.local import LocalKafka, LocalRedis, Services, down, ensure

settings.register_profile("tamis", deadline=None)  # a busy machine is not a fault; each test has its time limit
settings.load_profile("tamis")

MIB = 1024**2
_STATE = "TAMIS_TEST_STATE"  # the folder that the workers share; they inherit it from the controller


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        os.environ[_STATE] = tempfile.mkdtemp(prefix="tamis-tests-")


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") and (state := os.environ.pop(_STATE, None)):
        down(Path(state), wipe=True)
        shutil.rmtree(state)


@pytest.fixture(autouse=True)
def _fresh_logs() -> Iterator[None]:
    """A test that configures logs does so for itself: its standard error is closed after it."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def services() -> Services:
    """A broker and a Redis of 512 MB, shared by all tests: use topics and keys under `run_name` only."""
    return ensure(
        Path(os.environ[_STATE]),
        bootstrap=os.environ.get("TAMIS_TEST_BOOTSTRAP"),
        redis_url=os.environ.get("TAMIS_TEST_REDIS"),
        redis_maxmemory=512 * MIB,
    )


@pytest.fixture
def run_name() -> str:
    """A valid run name that no other test has."""
    return f"t{secrets.token_hex(4)}"


@pytest.fixture
def small_redis(tmp_path: Path) -> Iterator[Callable[..., LocalRedis]]:
    """Makes and starts a Redis of the test's own: `small_redis(maxmemory=64 * MIB, policy="noeviction", ...)`."""
    made: list[LocalRedis] = []

    def make(maxmemory: int = 64 * MIB, policy: str = "noeviction", appendonly: bool = False) -> LocalRedis:
        server = LocalRedis(tmp_path / f"redis-{len(made)}", maxmemory, policy, appendonly)
        made.append(server)
        server.start()
        return server

    yield make
    for server in made:
        server.stop()


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[LocalKafka]:
    """A started broker of the test's own, to kill, freeze and restart (3 s to start, 6 s after a kill)."""
    broker = LocalKafka(tmp_path / "own")
    broker.start()
    yield broker
    broker.stop()
