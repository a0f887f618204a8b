"""Small things on disk that processes share: a lock, a JSON record, the ports that a server keeps."""

import fcntl
import json
import os
import secrets
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file at `path` against every other process; waits for whoever holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def read_json(path: Path) -> dict[str, Any]:
    """The record at `path`, empty if there is none."""
    try:
        record: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    return record


def write_json(path: Path, record: Mapping[str, Any]) -> None:
    """Replace the record at `path` in one step, so that a reader sees the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_text(json.dumps(record, indent=2) + "\n")
    fresh.replace(path)


def kept_port(path: Path, wanted: int | None = None, other_than: int | None = None) -> int:
    """The port recorded at `path`: chosen once, kept over restarts, since clients remember it. `wanted` replaces it;
    `other_than`: a port that is another's although nobody listens there yet."""
    recorded = read_json(path).get("port")
    port = wanted or recorded or free_port(other_than)
    if port != recorded:
        write_json(path, {"port": port})
    return int(port)


def free_port(other_than: int | None = None) -> int:
    """A free port of this machine, below the range from which outgoing connections get theirs: a server that is
    stopped for a moment would find its port taken by one of those."""
    while True:
        port = 15_000 + secrets.randbelow(15_000)
        if port == other_than:
            continue
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
