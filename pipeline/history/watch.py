"""Following a live run: threads read its topics from the start and fold them into a view."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pipeline.domain import events as e
from pipeline.domain.rules import Rules
from pipeline.domain.topology import Topic
from pipeline.health import Standing
from pipeline.history.lags import lag_by_stage
from pipeline.history.view import RunView
from pipeline.log.client import Connection
from pipeline.log.codec import Poison
from pipeline.log.errors import LogError
from pipeline.log.reader import Record, read_topic
from pipeline.store.errors import StoreError
from pipeline.store.payloads import PayloadStore

TOPICS = (Topic.LEDGER, Topic.GROUPS, Topic.DISCARDS, Topic.DROPS, Topic.DEAD_LETTERS)
Positions = dict[Topic, dict[int, int]]
MONITORED = (*TOPICS, Topic.SNAPSHOTS)
SAMPLE_S = 1.0
LAG_S = 10.0
JOIN_S = 2.0
Listener = Callable[[RunView, e.Event], None]
"""Called for each event of the ledger, once the view has seen it."""


@dataclass(slots=True)
class Watch:
    """A run's view, kept up to date until `stop`. Hold `lock` while reading it."""

    connection: Connection
    store: PayloadStore
    samples: Path | None = None
    """Where to keep what Redis said, which no log has: `load_samples` gives it to a later view of the run."""
    view: RunView = field(default_factory=RunView)
    start_at: Positions = field(default_factory=dict)
    """What `view` has seen already."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    errors: list[Exception] = field(default_factory=list)
    """Why threads have ended before their time."""
    topics: tuple[Topic, ...] = TOPICS
    rules: Rules | None = None
    """Of the run, if the lag of its stages is to be watched as well."""
    listener: Listener | None = None
    heartbeat: Callable[[Standing], None] = lambda standing: None
    """Called by each thread that reads a topic, at each turn."""
    behind: set[Topic] = field(default_factory=set)
    """Topics that haven't been read yet as far as they went at the start."""
    redis_problem: str | None = None
    """Why Redis couldn't be asked a moment ago; the run waits meanwhile."""
    _stopped: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        """Begin to follow."""
        self.behind = set(self.topics)
        work = [self._sample, *(partial(self._follow, topic) for topic in self.topics)]
        if self.rules is not None:
            work.append(partial(self._lags, self.rules))
        self._threads = [threading.Thread(target=self._do, args=(each,), daemon=True) for each in work]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """No more changes after this, but of a thread that doesn't end within JOIN_S; it ends with the process."""
        self._stopped.set()
        deadline = time.monotonic() + JOIN_S
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0.0))

    def _do(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # shown by whoever watches: a view that stands still must say so
            self.errors.append(error)

    def _follow(self, topic: Topic) -> None:
        def turn(caught_up: bool) -> None:
            if caught_up:
                self.behind.discard(topic)
            self.heartbeat(Standing(f"reader of {topic.value}"))

        start = self.start_at.get(topic, {})
        for record in read_topic(self.connection, topic, None, start, False, self._stopped.is_set, turn=turn):
            with self.lock:
                _note(self.view, record, self.listener)

    def _lags(self, rules: Rules) -> None:
        while True:
            try:
                found = lag_by_stage(self.connection, rules)
            except LogError:
                found = {}  # what isn't known is not shown; an outage ends
            with self.lock:
                self.view.lags = found
            if self._stopped.wait(LAG_S):
                return

    def _sample(self) -> None:
        while not self._stopped.wait(SAMPLE_S):
            try:
                used, keys = self.store.used_bytes(), self.store.count_keys()
            except StoreError as error:
                self.redis_problem = str(error)
                continue
            self.redis_problem = None
            now_ms = time.time_ns() // 1_000_000
            with self.lock:
                self.view.sample_redis(now_ms, used, keys)
            if self.samples is not None:
                with self.samples.open("a") as file:
                    file.write(f"{now_ms} {used} {keys}\n")


def read_view(connection: Connection, listener: Listener | None = None) -> tuple[RunView, Positions]:
    """The view of everything that is in the log now, and where to go on. Records of different topics come about as they
    were written, so that durations from one to another are known at their time."""
    view, positions = RunView(), {topic: dict[int, int]() for topic in TOPICS}
    topics = [read_topic(connection, topic) for topic in TOPICS]
    for record in heapq.merge(*topics, key=lambda record: record.timestamp_ms):
        _note(view, record, listener)
        positions[record.topic][record.partition] = record.offset + 1
    return view, positions


def _note(view: RunView, record: Record, listener: Listener | None = None) -> None:
    try:
        event = record.event()
    except Poison:
        return  # its dead letter is counted
    view.note(record.timestamp_ms, record.topic, event)
    if listener is not None and record.topic is Topic.LEDGER:
        listener(view, event)


def load_samples(view: RunView, path: Path) -> None:
    """Give a view what Redis said while the run was watched before. A last line that was cut short is left out."""
    if not path.exists():
        return
    for line in path.read_text().splitlines(keepends=True):
        numbers = line.split()
        if line.endswith("\n") and len(numbers) == 3:
            at_ms, used, keys = map(int, numbers)
            view.sample_redis(at_ms, used, keys)
