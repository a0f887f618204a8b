"""Starts the process that forks the workers of a `Pool` (`child.py`), and asks it for them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from threading import Lock
from typing import Final, NamedTuple

from pipeline.verifiers.child import END, FORK, REPLY, REQUEST

START_S: Final = 120.0
"""How long it may take to load what its work needs."""
REPLY_S: Final = 30.0
CLOSE_S: Final = 1.0


class Died(Exception):
    """A process ended by itself."""


class _Running(NamedTuple):
    process: subprocess.Popen[bytes]
    control: socket.socket


class Template:
    """One process that runs `module`; begun when first asked, and again if it has ended. Threads may share it."""

    def __init__(self, module: str) -> None:
        self._module, self._lock = module, Lock()
        self._running: _Running | None = None
        self._closed = False

    def fork(self) -> tuple[int, socket.socket]:
        """A new worker's process id, and the socket that it answers on. Raises Died if there can be none."""
        ours, theirs = socket.socketpair()
        with self._lock, theirs:
            try:
                return self._ask(FORK, 0, [theirs.fileno()]), ours
            except Died:
                ours.close()
                raise

    def end(self, pid: int) -> None:
        """Kill a worker, if the template that made it still lives; else it is dead already."""
        with self._lock:
            if self._running is not None and self._running.process.poll() is None:
                try:
                    self._ask(END, pid, [])
                except Died:
                    """Its workers died with it."""

    def close(self) -> None:
        """End it and all its workers; one that is only just loading is killed."""
        self._closed = True
        if not self._lock.acquire(timeout=CLOSE_S):
            if self._running is not None:
                self._running.process.kill()
            self._lock.acquire()
        try:
            self._stop()
        finally:
            self._lock.release()

    def _ask(self, what: bytes, pid: int, given: list[int]) -> int:
        running = self._get_running()
        try:
            socket.send_fds(running.control, [REQUEST.pack(what, pid)], given)
        except OSError as error:
            raise Died(f"{self._module} doesn't listen: {error}") from error
        return self._hear(running, REPLY_S)

    def _get_running(self) -> _Running:
        if self._closed:
            raise Died(f"the pool of {self._module} is closed")
        if self._running is not None and self._running.process.poll() is None:
            return self._running
        self._stop()
        ours, theirs = socket.socketpair()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TAMIS_")}
        command = [sys.executable, "-m", self._module, str(theirs.fileno())]
        with theirs:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=2, pass_fds=[theirs.fileno()], env=environment
            )
        self._running = _Running(process, ours)
        self._hear(self._running, START_S)
        return self._running

    def _hear(self, running: _Running, timeout_s: float) -> int:
        running.control.settimeout(timeout_s)
        try:
            said = running.control.recv(REPLY.size)
        except OSError as error:
            running.process.kill()
            raise Died(f"{self._module} gave no sign within {timeout_s:g} s") from error
        if not said:
            code = running.process.wait()
            raise Died(f"{self._module} ended with code {code}; its last words are on standard error")
        return int(REPLY.unpack(said)[0])

    def _stop(self) -> None:
        if self._running is None:
            return
        process, control = self._running
        self._running = None
        control.close()
        try:
            process.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
