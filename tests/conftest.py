"""What every test may use: one broker and one Redis for all tests and all xdist workers, and names of its own on them.

`TAMIS_TEST_BOOTSTRAP` and `TAMIS_TEST_REDIS` name running ones; else the first test that asks starts them, as processes
of this machine or, with `--containers`, by testcontainers. The end of the session stops them.
"""

import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import settings

from pipeline.local import LocalKafka, LocalRedis, Services, down, ensure

settings.register_profile("tamis", deadline=None)  # a busy machine is not a fault; each test has its time limit
settings.load_profile("tamis")

MIB = 1024**2
_STATE = "TAMIS_TEST_STATE"  # the folder that the workers share; they inherit it from the controller
_GIVEN = "TAMIS_TEST_BOOTSTRAP", "TAMIS_TEST_REDIS"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--containers", action="store_true", help="Kafka and Redis in containers, by testcontainers")


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        return
    os.environ[_STATE] = tempfile.mkdtemp(prefix="tamis-tests-")
    if config.option.containers or "containers" in config.option.markexpr:
        from tests.images import use_what_is_here

        use_what_is_here()


def pytest_unconfigure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        return
    if state := os.environ.pop(_STATE, None):
        if config.option.containers:
            from tests.servers import remove_shared

            remove_shared(Path(state))
        down(Path(state), wipe=True)
        shutil.rmtree(state)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests of the mark `containers` out unless `-m` names them."""
    if "containers" in config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker("containers")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(autouse=True)
def _fresh_logs() -> Iterator[None]:
    """A test that configures logs does so for itself: its standard error is closed after it."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def services(request: pytest.FixtureRequest) -> Services:
    """A broker and a Redis of 512 MB, shared by all tests: use topics and keys under `run_name` only."""
    state = Path(os.environ[_STATE])
    bootstrap, redis_url = (os.environ.get(name) for name in _GIVEN)
    if request.config.option.containers and not (bootstrap and redis_url):
        from tests.servers import shared

        bootstrap, redis_url = shared(state, 512 * MIB)
    return ensure(
        state,
        bootstrap=bootstrap,
        redis_url=redis_url,
        redis_maxmemory=512 * MIB,
        first="process",
    )


@pytest.fixture
def run_name() -> str:
    """A valid run name that no other test has."""
    return f"t{secrets.token_hex(4)}"


@pytest.fixture
def small_redis(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Makes and starts a Redis of the test's own: `small_redis(maxmemory=64 * MIB, policy="noeviction", ...)`."""
    made: list[tuple[Any, Callable[[], object]]] = []

    def make(maxmemory: int = 64 * MIB, policy: str = "noeviction", appendonly: bool = False) -> Any:
        if request.config.option.containers:
            from tests.servers import RedisServer

            container = RedisServer(maxmemory, policy, appendonly)
            made.append((container, container.remove))
        else:
            process = LocalRedis(tmp_path / f"redis-{len(made)}", maxmemory, policy, appendonly)
            made.append((process, process.stop))
        made[-1][0].start()
        return made[-1][0]

    yield make
    for _, end in made:
        end()


@pytest.fixture
def own_kafka(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A started broker of the test's own, to kill, freeze and restart (3 s to start, 6 s after a kill)."""
    broker: Any = LocalKafka(tmp_path / "own")
    end = broker.stop
    if request.config.option.containers:
        from tests.servers import KafkaServer

        broker = KafkaServer()
        end = broker.remove
    try:
        broker.start()
        yield broker
    finally:
        end()
