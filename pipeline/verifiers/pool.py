"""A bounded pool of processes for work that may never end. One that takes too long is killed and replaced: a time limit
inside a process doesn't hold against a single huge computation, and would need signals that other threads lack."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from pipeline.verifiers.template import Died, Template


class TimedOut(Exception):
    """A request took too long; its process was killed."""


class Worker:
    """One process at a time, which answers one request at a time. Only `interrupt` may be called beside `ask`."""

    def __init__(self, template: Template) -> None:
        self._template = template
        self.pid: int | None = None
        """Of its process; none while there isn't one."""
        self._socket: socket.socket | None = None

    def begin(self) -> None:
        """Have a process. Raises Died."""
        self._channel()

    def ask(self, request: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        """The answer. Raises TimedOut or Died; another process has begun by then, if there can be one."""
        channel = self._channel()
        try:
            return _exchange(channel, request, timeout_s)
        except (TimedOut, Died):
            self._replace()
            raise

    def interrupt(self) -> None:
        """Have `ask` raise Died."""
        if self._socket is not None:
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of a process that has ended."""
        if self._socket is not None:
            self._socket.close()
        self.pid = self._socket = None

    def _channel(self) -> socket.socket:
        if self._socket is None:
            self.pid, self._socket = self._template.fork()
        return self._socket

    def _replace(self) -> None:
        pid = self.pid
        self.close()
        if pid is not None:
            self._template.end(pid)
        try:
            self.begin()
        except Died:
            """The next request tries again, and says why there is none."""


def _exchange(channel: socket.socket, request: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
    deadline, read = time.monotonic() + timeout_s, b""
    try:
        channel.settimeout(timeout_s)
        channel.sendall(json.dumps(request).encode() + b"\n")
        while not read.endswith(b"\n"):
            channel.settimeout(max(deadline - time.monotonic(), 1e-3))
            more = channel.recv(1 << 16)
            if not more:
                raise Died("the process that worked on it ended")
            read += more
    except TimeoutError as error:
        raise TimedOut from error
    except OSError as error:
        raise Died(f"the process that worked on it doesn't listen: {error}") from error
    answer: Mapping[str, Any] = json.loads(read)
    return answer


class Pool:
    """`size` workers that run `module`, begun when first asked. It lives in one event loop."""

    def __init__(self, module: str, size: int) -> None:
        self._template = Template(module)
        self.workers = [Worker(self._template) for _ in range(size)]
        self._threads = ThreadPoolExecutor(size, thread_name_prefix=module.rpartition(".")[2])
        self._idle: asyncio.Queue[Worker] = asyncio.Queue()
        for worker in self.workers:
            self._idle.put_nowait(worker)

    async def ask(self, request: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        """The answer of a worker that is free; the time counts from then. Raises TimedOut or Died. Cancelled, it ends
        the process that works on it."""
        worker = await self._idle.get()
        asked = self._threads.submit(worker.ask, request, timeout_s)
        asked.add_done_callback(self._frees(worker, asyncio.get_running_loop()))
        try:
            return await asyncio.shield(asyncio.wrap_future(asked))
        except asyncio.CancelledError:
            worker.interrupt()
            raise

    def close(self) -> None:
        """End every process."""
        self._template.close()
        self._threads.shutdown(cancel_futures=True)
        for worker in self.workers:
            worker.close()

    def _frees(self, worker: Worker, loop: asyncio.AbstractEventLoop) -> Callable[[Future[Mapping[str, Any]]], None]:
        def done(_: Future[Mapping[str, Any]]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._idle.put_nowait, worker)

        return done
