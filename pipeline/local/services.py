"""One Kafka and one Redis per state folder: those that the user names, else Docker's, else our own processes."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, Protocol
from urllib.parse import urlsplit

from .docker import KAFKA_IMAGE, docker_kafka, docker_problem, docker_redis, image_problem, redis_image
from .errors import LocalServicesError, NothingListens
from .files import locked, read_json, write_json
from .jars import JAVA_AT_LEAST, jvm_problem
from .kafka_broker import LocalKafka
from .probe import kafka_answers, kafka_listens, redis_answers, redis_listens
from .redis_server import LocalRedis, redis_problem

GIB = 1024**3
Kind = Literal["kafka", "redis"]
Backend = Literal["docker", "process"]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Services:
    """Addresses that answer; `how` says where they come from, in words."""

    bootstrap: str
    redis_url: str
    how: str


@dataclass(frozen=True, slots=True)
class Started:
    """One service that `ensure` started, as `services.json` records it."""

    kind: Kind
    backend: Backend
    address: str
    how: str


class Server(Protocol):
    """What Docker's containers and our own processes have in common."""

    how: str

    @property
    def address(self) -> str: ...
    @property
    def running(self) -> bool: ...
    def start(self) -> None: ...
    def stop(self) -> bool: ...
    def wipe(self) -> None: ...


def ensure(
    state_dir: Path,
    *,
    bootstrap: str | None = None,
    redis_url: str | None = None,
    redis_maxmemory: int = GIB,
    first: Backend = "docker",
    say: Say = lambda _: None,
) -> Services:
    """Kafka and Redis that answer: the given ones, those that run for `state_dir`, or new ones that outlive the caller.

    `redis_maxmemory` (bytes) holds for a Redis that is started now, `first` says what is tried first for it. Raises
    LocalServicesError, once, with all that is missing and what to install.
    """
    state_dir = state_dir.absolute()
    addresses: dict[Kind, str | None] = {"kafka": bootstrap, "redis": redis_url}
    given = {kind: address for kind, address in addresses.items() if address}
    _check_given(bootstrap, redis_url)
    with locked(state_dir / "lock"):
        record = _read(state_dir)
        there = {kind for kind, started in record.items() if _answers(started, state_dir)}
        missing = [kind for kind in addresses if kind not in given and kind not in there]
        for kind, backend in _choose(missing, record, first, say).items():
            server = _server(kind, backend, state_dir, redis_maxmemory, say)
            say(f"starting {kind} ({server.how})")
            server.start()
            record[kind] = Started(kind, backend, server.address, server.how)
            _write(state_dir, record)
    found = {kind: (started.address, started.how) for kind, started in record.items()}
    found |= {kind: (address, "given") for kind, address in given.items()}
    how = ", ".join(f"{kind}: {found[kind][1]}" for kind in ("kafka", "redis"))
    return Services(found["kafka"][0], found["redis"][0], how)


def down(state_dir: Path, *, wipe: bool = False) -> list[str]:
    """Stop what `ensure` started for `state_dir`, and with `wipe` remove its data. What was stopped, in words."""
    stopped = []
    with locked(state_dir / "lock"):
        record = _read(state_dir)
        for started in record.values():
            server = _server(started.kind, started.backend, state_dir)
            if server.stop():
                stopped.append(f"{started.kind} at {started.address} ({started.how})")
            if wipe:
                server.wipe()
        if wipe:
            _write(state_dir, {})
    return stopped


def status(state_dir: Path) -> list[tuple[Started, bool]]:
    """What `ensure` started for `state_dir`, each with whether it answers now."""
    return [(started, _answers(started, state_dir)) for started in _read(state_dir).values()]


def _answers(started: Started, state_dir: Path) -> bool:
    """Whether ours runs and answers; another's server on a port that ours once had isn't it."""
    server = _server(started.kind, started.backend, state_dir)
    ask = kafka_answers if started.kind == "kafka" else redis_answers
    return server.running and ask(started.address)


def _check_given(bootstrap: str | None, redis_url: str | None) -> None:
    if bootstrap and not kafka_listens(bootstrap):
        raise NothingListens(f"Kafka at {bootstrap} accepts no connection; start it, or leave the address out")
    if redis_url and not redis_listens(redis_url):
        raise NothingListens(f"Redis at {shown(redis_url)} accepts no connection; start it, or leave the address out")


def shown(url: str) -> str:
    """A Redis URL as people may see it: without user, password and options."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()


def _choose(kinds: Iterable[Kind], record: dict[Kind, Started], first: Backend, say: Say) -> dict[Kind, Backend]:
    """A backend for each kind: the one that holds its data, else the first that is usable."""
    chosen: dict[Kind, Backend] = {}
    problems: list[str] = []
    order: tuple[Backend, ...] = ("docker", "process") if first == "docker" else ("process", "docker")
    for kind in kinds:
        found: dict[Backend, str] = {}
        for backend in order:
            problem = _problem(kind, backend, record, say)
            if problem is None:
                chosen[kind] = backend
                break
            found[backend] = problem
        else:
            problems.append(f"{kind}: Docker: {found['docker']}. Without Docker: {found['process']}.")
    if problems:
        raise LocalServicesError("\n".join(["Kafka and Redis can't both be had on this machine.", *problems, _INSTALL]))
    return chosen


def _problem(kind: Kind, backend: Backend, record: dict[Kind, Started], say: Say) -> str | None:
    """Why a kind can't be had by a backend, or None if it can."""
    if kind in record and record[kind].backend != backend:
        if backend == "docker":
            return "its data are not in Docker"
        return "its data are in Docker (tamis down --wipe gives them up)"
    return _docker_problem(kind, say) if backend == "docker" else _process_problem(kind)


_INSTALL = f"""Do one of these:
  - start Docker
  - install Java {JAVA_AT_LEAST} or newer, Maven and Redis (Debian, Ubuntu: apt-get install default-jre-headless maven \
redis-server; macOS: brew install openjdk maven redis)
  - give the addresses of a Kafka and a Redis that run already"""


def _docker_problem(kind: Kind, say: Say) -> str | None:
    return docker_problem() or image_problem(KAFKA_IMAGE if kind == "kafka" else redis_image(), say)


def _process_problem(kind: Kind) -> str | None:
    return jvm_problem() if kind == "kafka" else redis_problem()


def _server(kind: Kind, backend: Backend, state_dir: Path, maxmemory: int = GIB, say: Say = lambda _: None) -> Server:
    if backend == "docker":
        return docker_kafka(state_dir) if kind == "kafka" else docker_redis(state_dir, maxmemory)
    return LocalKafka(state_dir, say=say) if kind == "kafka" else LocalRedis(state_dir, maxmemory)


def _read(state_dir: Path) -> dict[Kind, Started]:
    return {started["kind"]: Started(**started) for started in read_json(state_dir / "services.json").values()}


def _write(state_dir: Path, record: dict[Kind, Started]) -> None:
    write_json(state_dir / "services.json", {kind: asdict(started) for kind, started in record.items()})
