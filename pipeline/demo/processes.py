"""The consumers as processes of this machine: started, restarted when they die, stopped in order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

STOP_S = 8.0
RESTART_LIMIT = 20
PERMANENT = 2
"""Exit code of a consumer that no restart mends (pipeline/log/errors.py)."""


class ProcessFailed(Exception):
    """A consumer ended for good, with the end of its log."""


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
    """A running consumer."""

    role: Role
    process: subprocess.Popen[bytes]
    restarts: int = 0


@dataclass(slots=True)
class Processes:
    """All consumers of a run. Upstream ends first when stopping, so that what is under way can settle."""

    environment: Mapping[str, str]
    logs: Path
    children: list[Child] = field(default_factory=list)

    def start(self, roles: Sequence[Role]) -> None:
        """Start them all; each writes to a log of its own."""
        self.logs.mkdir(parents=True, exist_ok=True)
        for role in roles:
            self.children.append(Child(role, self._spawn(role)))

    def tend(self) -> Iterator[str]:
        """Start again what died; yields a sentence for each. Raises ProcessFailed for what won't live."""
        for child in self.children:
            code = child.process.poll()
            if code is None or code == 0:
                continue
            if code == PERMANENT or child.restarts >= RESTART_LIMIT:
                raise ProcessFailed(
                    f"{child.role.name} ended with exit code {code}; the end of {self.log_of(child.role)}:\n"
                    f"{self._tail(child.role)}"
                )
            child.restarts += 1
            child.process = self._spawn(child.role)
            yield f"{child.role.name} ended ({_word(code)}) and was started again"

    def finished(self) -> bool:
        """Whether all have ended by themselves."""
        return all(child.process.poll() == 0 for child in self.children)

    def stop(self) -> list[str]:
        """Ask all to end, in the order of the pipeline. The names of those that had to be killed."""
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

    def log_of(self, role: Role) -> Path:
        """Where a consumer writes."""
        return self.logs / f"{role.name}.log"

    def _spawn(self, role: Role) -> subprocess.Popen[bytes]:
        with self.log_of(role).open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", f"consumers.{role.consumer}", "--until-finished"],
                env={**os.environ, **self.environment, "TAMIS_SLOT": role.slot},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _tail(self, role: Role, lines: int = 12) -> str:
        return "\n".join(self.log_of(role).read_text(errors="replace").splitlines()[-lines:])


def _word(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"signal {-code}"
