"""Following a live run: threads read its topics from the start and fold them into a view."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from pipeline.domain.topology import Topic
from pipeline.history.view import RunView
from pipeline.log.client import Connection
from pipeline.log.codec import Poison
from pipeline.log.reader import read_topic
from pipeline.store.errors import StoreError
from pipeline.store.payloads import PayloadStore

TOPICS = (Topic.LEDGER, Topic.GROUPS, Topic.DISCARDS, Topic.DROPS, Topic.DEAD_LETTERS)
SAMPLE_S = 1.0
JOIN_S = 2.0


@dataclass(slots=True)
class Watch:
    """A run's view, kept up to date until `stop`. Hold `lock` while reading it."""

    connection: Connection
    store: PayloadStore
    view: RunView = field(default_factory=RunView)
    lock: threading.Lock = field(default_factory=threading.Lock)
    errors: list[Exception] = field(default_factory=list)
    redis_problem: str | None = None
    """Why Redis couldn't be asked a moment ago; the run waits meanwhile."""
    _stopped: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        """Begin to follow."""
        for topic in TOPICS:
            self._threads.append(threading.Thread(target=self._follow, args=(topic,), daemon=True))
        self._threads.append(threading.Thread(target=self._sample, daemon=True))
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """No more changes after this, but of a thread that doesn't end within JOIN_S; it ends with the process."""
        self._stopped.set()
        deadline = time.monotonic() + JOIN_S
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0.0))

    def _follow(self, topic: Topic) -> None:
        try:
            for record in read_topic(self.connection, topic, stop_at_end=False, until=self._stopped.is_set):
                try:
                    event = record.event()
                except Poison:
                    continue  # its dead letter is counted
                with self.lock:
                    self.view.note(record.timestamp_ms, topic, event)
        except Exception as error:  # shown by whoever watches: a view that stands still must say so
            self.errors.append(error)

    def _sample(self) -> None:
        while not self._stopped.wait(SAMPLE_S):
            try:
                used, keys = self.store.used_bytes(), self.store.count_keys()
            except StoreError as error:
                self.redis_problem = str(error)
                continue
            self.redis_problem = None
            with self.lock:
                self.view.sample_redis(time.time_ns() // 1_000_000, used, keys)
