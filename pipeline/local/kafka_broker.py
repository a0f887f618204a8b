"""Apache Kafka's own broker on the local JVM: one node, on 127.0.0.1, its data in a folder of ours."""

import base64
import shutil
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path

from .daemon import Daemon
from .errors import LocalServicesError
from .files import kept_port
from .jars import JAVA_AT_LEAST, fetch_jars, find_java, jvm_problem
from .kafka_settings import broker_settings
from .probe import kafka_answers

START_WITHIN_S = 60.0
_JVM_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m", "-XX:+ExitOnOutOfMemoryError")
_LOGGING = Path(__file__).with_name("log4j2.properties")


class LocalKafka:
    """A broker in `<state_dir>/kafka`. It keeps its port and its data over `stop`, `kill` and `start`."""

    how = "Kafka's broker on the local JVM"

    def __init__(self, state_dir: Path, port: int | None = None, say: Callable[[str], None] = lambda _: None) -> None:
        self.folder = state_dir.absolute() / "kafka"
        self._wanted_port = port
        self._say = say
        self._daemon = Daemon("Kafka", self.folder)

    @property
    def bootstrap(self) -> str:
        """host:port, for `bootstrap.servers`."""
        return f"127.0.0.1:{kept_port(self.folder / 'port.json', self._wanted_port)}"

    address = bootstrap

    @property
    def running(self) -> bool:
        return self._daemon.process() is not None

    def start(self) -> None:
        """Start it, if it doesn't run, and wait until it answers. Raises LocalServicesError."""
        java = find_java()
        if java is None:
            raise LocalServicesError(f"Kafka needs Java {JAVA_AT_LEAST}: {jvm_problem()}; install one or set JAVA_HOME")
        jvm = [str(java), *_JVM_FLAGS, f"-Dlog4j2.configurationFile={_LOGGING}"]
        jvm += ["-cp", f"{fetch_jars(java, self._say)}/*"]
        settings = self._write_settings()
        if not (self._data / "meta.properties").exists():
            _format(jvm, settings)
        self._daemon.start([*jvm, "kafka.Kafka", str(settings)], lambda: kafka_answers(self.bootstrap), START_WITHIN_S)

    def stop(self) -> bool:
        """Shut it down in order. Whether it ran."""
        return self._daemon.stop()

    def kill(self) -> None:
        """End it as a crash would (SIGKILL).

        Kafka 4.4.0 on one node can lose the marker of a transaction whose commit was acknowledged milliseconds before:
        the coordinator then calls it complete while read_committed readers of its partitions wait forever.
        """
        self._daemon.kill()

    def restart(self) -> None:
        """Stop and start on the same port, with the same data."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze it (SIGSTOP): clients see a broker that accepts and doesn't answer."""
        self._daemon.pause()

    def resume(self) -> None:
        self._daemon.resume()

    def wipe(self) -> None:
        """Remove its data and its port, once stopped."""
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _write_settings(self) -> Path:
        taken = kept_port(self.folder / "port.json", self._wanted_port)
        own = f"127.0.0.1:{kept_port(self.folder / 'controller-port.json', other_than=taken)}"
        listeners = f"INTERNAL://{self.bootstrap},CONTROLLER://{own}"
        lines = broker_settings(listeners, f"INTERNAL://{self.bootstrap}", own, str(self._data))
        path = self.folder / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        return path


def _format(jvm: list[str], settings: Path) -> None:
    """Write the empty log's metadata, as every KRaft broker needs before its first start."""
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "_")
    words = [*jvm, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(settings)]
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        tail = (done.stdout + done.stderr).strip()[-1500:]
        raise LocalServicesError(f"Kafka could not format its storage by {settings} (exit {done.returncode}):\n{tail}")
