"""The consumers as processes of this machine: started, restarted when they die, stopped in order."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pipeline.demo.errors import ProcessFailed
from pipeline.metrics.server import PORT

STOP_S: Final = 6.0
DEATHS_IN_A_ROW: Final = 5
LIVES_S: Final = 60.0
"""A process that lived this long had a life: its death counts as its first."""
PERMANENT: Final = 2
"""Exit code of a consumer that no restart mends (pipeline/log/errors.py)."""


@dataclass(frozen=True, slots=True)
class Role:
    """A consumer and the slot it takes."""

    consumer: str
    slot: str

    @property
    def name(self) -> str:
        """As shown to people, and as its log file is called."""
        return f"{self.consumer}-{self.slot}"


@dataclass(slots=True)
class Child:
    """A running consumer. `ready` once it has touched its sign of life."""

    role: Role
    process: subprocess.Popen[bytes]
    started_s: float
    deaths: int = 0
    ready: bool = False


@dataclass(slots=True)
class Processes:
    """All consumers of a run, each with a log of its own."""

    environment: Mapping[str, str]
    logs: Path
    children: list[Child] = field(default_factory=list)

    def start(self, roles: Sequence[Role]) -> None:
        """Start them all."""
        self.logs.mkdir(parents=True, exist_ok=True)
        for role in roles:
            self.children.append(Child(role, self._spawn(role), time.monotonic()))

    def tend(self) -> Iterator[str]:
        """Start again what died; yields a sentence for each. Raises ProcessFailed for what won't live."""
        for child in self.children:
            code = child.process.poll()
            if code is None or code == 0:
                continue
            lived_s = time.monotonic() - child.started_s
            child.deaths = 1 if lived_s >= LIVES_S else child.deaths + 1
            if code == PERMANENT or child.deaths >= DEATHS_IN_A_ROW:
                raise ProcessFailed(self._obituary(child, code))
            child.process, child.started_s, child.ready = self._spawn(child.role), time.monotonic(), False
            yield f"{child.role.name} ended ({_word(code)}) and was started again"

    def standing(self) -> list[tuple[str, bool]]:
        """Each process, and whether it is at work."""
        for child in self.children:
            child.ready = child.ready or self._life_of(child.role).exists()
        return [(child.role.name, child.ready) for child in self.children]

    def finished(self) -> bool:
        """Whether all have ended by themselves."""
        return all(child.process.poll() == 0 for child in self.children)

    def stop(self) -> list[str]:
        """Ask all to end. The names of those that had to be killed, since they took longer than STOP_S."""
        deadline = time.monotonic() + STOP_S
        alive = [child for child in self.children if child.process.poll() is None]
        for child in alive:
            child.process.send_signal(signal.SIGTERM)
        killed = []
        for child in alive:
            try:
                child.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait()
                killed.append(child.role.name)
        return killed

    def kill(self) -> None:
        """End all at once, as a crash would: the log bears it."""
        for child in self.children:
            child.process.kill()

    def log_of(self, role: Role) -> Path:
        """Where a consumer writes."""
        return self.logs / f"{role.name}.log"

    def _life_of(self, role: Role) -> Path:
        return self.logs / f"{role.name}.alive"

    def _spawn(self, role: Role) -> subprocess.Popen[bytes]:
        alive = self._life_of(role)
        alive.unlink(missing_ok=True)
        environment = {**os.environ, **self.environment, "TAMIS_SLOT": role.slot, "TAMIS_HEARTBEAT": str(alive)}
        if role.consumer != "monitor":  # a port is for one of them
            environment.pop(PORT, None)
        with self.log_of(role).open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", f"consumers.{role.consumer}", "--until-finished"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _obituary(self, child: Child, code: int) -> str:
        path = self.log_of(child.role)
        lines = path.read_text(errors="replace").splitlines()
        why = _why(lines[-1]) if lines else None
        times = "" if code == PERMANENT else f", {child.deaths} times in a row"
        ended = f"{child.role.name} ended with {_word(code)}{times}" + (f": {why}" if why else "")
        return "\n  ".join([f"{ended}\nthe end of {path}:", *lines[-8:]])


def _why(line: str) -> str | None:
    """The reason that a consumer's last line gives, if it does."""
    try:
        why = json.loads(line).get("why")
    except (ValueError, AttributeError):
        return None
    return str(why) if why else None


def _word(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"signal {-code}"
