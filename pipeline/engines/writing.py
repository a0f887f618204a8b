"""From samples to facts: first the payload, under a fresh key and on a lease, then the event that names it.

While Redis is full or away the samples are kept and written later; nothing fails for it but what could never fit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import structlog

from pipeline.domain.topology import Output, Topic
from pipeline.engines.asks import Backlog
from pipeline.engines.making import Made, Maker, Sampled
from pipeline.log.backoff import Backoff
from pipeline.log.work import Answer, Publish
from pipeline.store.errors import StoreFull, StoreUnreachable
from pipeline.store.payloads import PayloadStore

log = structlog.get_logger(__name__)


class Scribe:
    """Writes payloads, one batch at a time, then publishes their events. `waiting_for_redis` while it can't."""

    def __init__(self, store: PayloadStore, backlog: Backlog, ttl_ms: int, generator: str) -> None:
        self._store, self._backlog, self._ttl_ms = store, backlog, ttl_ms
        self._maker = Maker(store, generator)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="payloads")
        self._pending: list[Sampled] = []
        self._news = asyncio.Event()
        self.waiting_for_redis = False

    @property
    def pending(self) -> int:
        """Samples that wait for being written."""
        return len(self._pending)

    def add(self, sampled: Sequence[Sampled]) -> None:
        """Have these written."""
        self._pending += sampled
        self._news.set()

    def clear(self) -> None:
        """Forget what waits."""
        self._pending.clear()

    async def run(self, publish: Publish) -> None:
        """Write until cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                batch, self._pending = [s for s in self._pending if not s.slot.ask.closed], []
                if batch:
                    made, left = await loop.run_in_executor(self._thread, self._make_and_put, batch)
                    publish(self._answers(made))
                    await self._put_late(left, publish)
        finally:
            self._thread.shutdown(wait=False, cancel_futures=True)
            self._store.close()  # so that a write to a Redis that hangs doesn't keep the process

    async def _put_late(self, left: Sequence[Made], publish: Publish) -> None:
        """Wait for Redis, longer each time; what nobody wants any more is not written."""
        loop, backoff = asyncio.get_running_loop(), Backoff()
        while left := [made for made in left if not made.slot.ask.closed]:
            self.waiting_for_redis = True
            await backoff.wait()
            made, left = await loop.run_in_executor(self._thread, self._put, left)
            self.waiting_for_redis = bool(left)
            publish(self._answers(made))
        if self.waiting_for_redis:
            self.waiting_for_redis = False
            publish(())

    def _answers(self, written: Sequence[Made]) -> list[Answer]:
        answers = []
        for made in written:
            slot = made.slot
            if slot.ask.closed:
                continue
            job = slot.ask.job
            outputs = [(slot.place, Output(Topic.RESPONSES, job.home.partition, made.event))]
            if made.stage_failed:
                outputs.append((slot.ask.slots + slot.place, Output(Topic.LEDGER, 0, made.stage_failed)))
            answers.append(Answer(job, tuple(outputs), self._backlog.done(slot)))
        return answers

    # ------------------------------------------------------------------------------------- in the thread for payloads

    def _make_and_put(self, batch: Sequence[Sampled]) -> tuple[list[Made], list[Made]]:
        """What can be published, and what Redis didn't take."""
        now = time.time_ns() // 1_000_000
        made = [self._maker.make(sampled, now) for sampled in batch]
        written, left = self._put([m for m in made if m.value])
        return [m for m in made if not m.value] + written, left

    def _put(self, made: Sequence[Made]) -> tuple[list[Made], list[Made]]:
        try:
            self._store.put_many([(m.event.payload_key or "", m.value) for m in made], self._ttl_ms)
            return list(made), []
        except StoreFull as full:
            log.warning("redis is full", written=len(full.written), left=len(full.left))
            left = set(full.left)
            written = [m for m in made if m.event.payload_key not in left]
            return self._without_hopeless(written, [m for m in made if m.event.payload_key in left])
        except StoreUnreachable as error:
            log.warning("redis can't be reached", why=str(error), left=len(made))
            return [], list(made)

    def _without_hopeless(self, written: list[Made], left: list[Made]) -> tuple[list[Made], list[Made]]:
        """`Full now` and `never fits` are one error: ask Redis for its limit, and fail what is over it."""
        try:
            self._store.check_server()
        except StoreUnreachable:
            return written, left
        limit = self._store.limit_bytes
        hopeless = [self._maker.too_long(m.slot, m.event, len(m.value)) for m in left if len(m.value) > limit]
        return written + hopeless, [m for m in left if len(m.value) <= limit]
