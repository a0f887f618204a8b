"""The run's clock: a thread that writes the fact Tick(at) to the ledger every `tick_ms` while it is told to.

It runs beside the scheduler that owns the ledger; the scheduler's step makes run time of it. A doubled or a stale tick
does no harm, a missing one only makes run time stand still.
"""

from __future__ import annotations

import threading
import time

import structlog

from pipeline.domain.events import Tick
from pipeline.domain.topology import Output, Topic
from pipeline.log.client import Connection
from pipeline.log.facts import FactWriter

log = structlog.get_logger(__name__)


class Ticker:
    """Ticks between `start()` and `stop()`; both may be called again and again."""

    def __init__(self, connection: Connection, tick_ms: int) -> None:
        self._connection, self._tick_s = connection, tick_ms / 1000
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Tick from now on."""
        if self._thread is None:
            self._stopped.clear()
            self._thread = threading.Thread(target=self._tick, name="ticker", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """No more ticks after this, but for one that is on its way."""
        if self._thread is not None:
            self._stopped.set()
            self._thread.join(5.0)
            self._thread = None

    def _tick(self) -> None:
        writer = FactWriter(self._connection, "ticker")
        while not self._stopped.is_set():
            writer.send([Output(Topic.LEDGER, 0, Tick(time.time_ns() // 1_000_000, None))])
            if writer.errors:
                log.warning("ticks not written", errors=len(writer.errors), last=writer.errors[-1])
                writer.errors.clear()
            self._stopped.wait(self._tick_s)
        writer.close()
