"""Ends a process that a call of its Kafka client doesn't return to.

After its broker had gone and come back, librdkafka 2.16 has been seen to wait for ever in send_offsets_to_transaction,
whatever time limit it was given. The process was alive, its heartbeat went on, and it did nothing.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import structlog

from pipeline.log.errors import Fatal

LOOK_EVERY_S: Final = 1.0
log = structlog.get_logger(__name__)


class Watchdog:
    """Watches one thread's calls, from a thread of its own until `close()`."""

    def __init__(self, name: str) -> None:
        self._call: tuple[str, float] | None = None
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name=f"{name}-watchdog", daemon=True).start()

    @contextmanager
    def over(self, what: str, limit_s: float) -> Iterator[None]:
        """End the process, as a crash would, if what is within takes longer. A crash is safe at any moment."""
        self._call = what, time.monotonic() + limit_s
        try:
            yield
        finally:
            self._call = None

    def close(self) -> None:
        """Watch no more."""
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.wait(LOOK_EVERY_S):
            call = self._call
            if call is not None and time.monotonic() > call[1]:
                log.error("process ends", why=f"{call[0]} did not return; start it again")
                os._exit(Fatal.exit_code)
