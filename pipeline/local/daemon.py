"""A background process that outlives its starter and is found again, by its folder, from any process."""

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from .errors import LocalServicesError
from .files import read_json, write_json
from .probe import wait_until

# The shell starts the command and ends, so the daemon is nobody's child: no zombie, no signal from our terminal.
_DETACH = 'log=$1; shift; exec 3>&1 >>"$log" 2>&1 </dev/null; "$@" 3>&- & echo $! >&3'


class Daemon:
    """One process, known by `<folder>/pid.json`; what it prints goes to `<folder>/log`."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.log = folder / "log"

    def start(self, command: Sequence[str], ready: Callable[[], bool], within_s: float) -> None:
        """Start it unless it runs, and wait until it is `ready`. Raises LocalServicesError with the end of its log."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.process() is None:
            self.log.touch()
            written = self.log.stat().st_size
            self._spawn(command)
        else:
            written = 0
        if wait_until(lambda: self.process() is None or ready(), within_s) and self.process() is not None:
            return
        state = f"was not ready within {within_s:g} s" if self.process() else "ended at once"
        self.kill()
        tail = self.log.read_bytes()[written:].decode(errors="replace").splitlines()[-20:]
        raise LocalServicesError("\n  ".join([f"{self.name} {state}. The end of {self.log}:", *tail]))

    def stop(self, within_s: float = 30.0) -> bool:
        """Ask it to end, and kill it if it hasn't within `within_s` seconds. Whether it ran."""
        ran = self._signal(signal.SIGTERM)
        self.resume()
        if not wait_until(lambda: self.process() is None, within_s):
            self.kill()
        self._pid_file.unlink(missing_ok=True)
        return ran

    def kill(self) -> None:
        """End it as a crash would, and wait until it is gone."""
        self._signal(signal.SIGKILL)
        wait_until(lambda: self.process() is None, within_s=10.0, every_s=0.01)

    def pause(self) -> None:
        """Freeze it: it keeps its connections and does nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def process(self) -> psutil.Process | None:
        """The running process. A process id that the system has given to another since isn't it."""
        recorded = read_json(self._pid_file)
        try:
            process = psutil.Process(recorded["pid"])
            ours = abs(process.create_time() - recorded["created"]) < 2.0
            return process if ours and not _over(process) else None
        except (KeyError, psutil.NoSuchProcess):
            return None

    @property
    def _pid_file(self) -> Path:
        return self.folder / "pid.json"

    def _spawn(self, command: Sequence[str]) -> None:
        shell = ["/bin/sh", "-c", _DETACH, "sh", str(self.log), *command]
        printed = subprocess.run(shell, stdout=subprocess.PIPE, start_new_session=True, check=True, cwd=self.folder)
        pid = int(printed.stdout)
        try:
            write_json(self._pid_file, {"pid": pid, "created": psutil.Process(pid).create_time()})
        except psutil.NoSuchProcess:  # ended at once; `start` says so with its log
            self._pid_file.unlink(missing_ok=True)

    def _signal(self, number: signal.Signals) -> bool:
        process = self.process()
        if process is None:
            return False
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            return False
        return True


def _over(process: psutil.Process) -> bool:
    """Whether it has ended with all of its threads: until then a killed one, a zombie already, holds its port."""
    return process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1
