"""Signs of life: a process writes them to the file that TAMIS_HEARTBEAT names, and a health check reads them there.

`python -m pipeline.health` exits with 0 if the process can do its work, with 1 and a sentence if not; `--alive` asks
only whether its loops still turn. It imports the standard library alone, since a container runs it every few seconds.
"""

import json
import os
import sys
import threading
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

VARIABLE: Final = "TAMIS_HEARTBEAT"
WRITE_EVERY_S: Final = 1.0
BEAT_WITHIN_S: Final = 30.0
"""How old a sign of life may be: a loop turns many times a second, but a commit may wait for a broker that restarts."""
COMMIT_WITHIN_S: Final = 90.0
"""How old the oldest result may be that isn't committed yet; without an outage it is about a second."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a loop stands. `partitions`: how many it has been given; 0: it stands by, None: none were given or refused
    yet. `restored`: their states are rebuilt. `behind_since`: when the oldest result came about that isn't committed.
    `at`: when the loop said so. Times are of the machine's monotonic clock, seconds."""

    stage: str = ""
    partitions: int | None = 0
    restored: bool = True
    behind_since: float | None = None
    at: float = 0.0


class Heartbeat:
    """Called by each loop at each turn. Writes at most once a second; without the variable it does nothing."""

    def __init__(self, path: str | None = None) -> None:
        self._path = path or os.environ.get(VARIABLE)
        self._lock = threading.Lock()
        self._loops: dict[int, Standing] = {}
        self._next = 0.0

    def __call__(self, standing: Standing | None = None) -> None:
        """A sign of life of this thread's loop; without a standing, it stands as before."""
        if not self._path:
            return
        now, thread = time.monotonic(), threading.get_ident()
        with self._lock:
            self._loops[thread] = replace(standing or self._loops.get(thread) or Standing(), at=now)
            if now >= self._next:
                self._next = now + WRITE_EVERY_S
                self._write(Path(self._path))

    def _write(self, path: Path) -> None:
        fresh = path.with_name(f"{path.name}.new")
        fresh.write_text(json.dumps([asdict(standing) for standing in self._loops.values()]) + "\n")
        fresh.replace(path)


def problems(path: str | None, now: float, alive_only: bool = False) -> list[str]:
    """What is wrong with the process whose signs of life are in this file, as sentences; empty if nothing is."""
    if not path:
        return [f"{VARIABLE} is not set; name in it the file that the process writes its signs of life to"]
    try:
        loops = [Standing(**entry) for entry in json.loads(Path(path).read_text())]
    except FileNotFoundError:
        return [f"{path} is not there: the process is still starting, or writes elsewhere ({VARIABLE})"]
    except (ValueError, TypeError, OSError) as error:
        return [f"{path} can't be read: {error}"]
    found = [f"{_name(loop)}: no sign of life for {now - loop.at:.0f} s" for loop in loops if _is_old(loop, now)]
    if alive_only:
        return found
    return found + [f"{_name(loop)}: {problem}" for loop in loops if (problem := _problem(loop, now))]


def _is_old(loop: Standing, now: float) -> bool:
    return now - loop.at > BEAT_WITHIN_S


def _problem(loop: Standing, now: float) -> str | None:
    if loop.partitions is None:
        return "its consumer group has given it nothing yet"
    if not loop.restored:
        return f"the states of {loop.partitions} partitions are being rebuilt"
    if loop.behind_since is not None and now - loop.behind_since > COMMIT_WITHIN_S:
        return f"nothing has been committed for {now - loop.behind_since:.0f} s, though there is something to commit"
    return None


def _name(loop: Standing) -> str:
    return loop.stage or "process"


def main(arguments: list[str], environment: dict[str, Any]) -> int:
    """The health check: exit code 0 or 1."""
    found = problems(environment.get(VARIABLE), time.monotonic(), alive_only="--alive" in arguments)
    print("; ".join(found) or "well")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], dict(os.environ)))
