"""A run for the toy stage, and processes of it to start, kill and freeze."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer

from pipeline.domain.events import Event
from pipeline.domain.topology import Output, StageName, Topic
from pipeline.log.admin import create_run
from pipeline.log.cause import CAUSE
from pipeline.log.client import Connection, give_up
from pipeline.log.codec import encode
from pipeline.log.facts import FactWriter
from pipeline.log.reader import Record, read_topic
from pipeline.log.topics import topic_name

from .toy import Counter, toy_rules

ROOT = Path(__file__).parents[2]
DEADLINE_S = 40.0


def eventually(what: Callable[[], object], deadline_s: float = DEADLINE_S, why: str = "") -> object:
    """Ask until the answer is true, up to a deadline."""
    end = time.monotonic() + deadline_s
    while not (answer := what()):
        assert time.monotonic() < end, f"not within {deadline_s} s: {why}"
        time.sleep(0.05)
    return answer


class Process:
    """A toy stage in its own process; its lines of output can be waited for."""

    def __init__(self, arguments: list[str], environment: dict[str, str]) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tests.log.toy", *arguments],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._new: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._child.stdout or ():
            self._new.put(line.rstrip())

    def expect(self, text: str, deadline_s: float = DEADLINE_S) -> str:
        """The next line that has this text."""
        end = time.monotonic() + deadline_s
        while True:
            try:
                line = self._new.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"{text!r} was not said; but: {self.lines}") from None
            self.lines.append(line)
            if text in line:
                return line

    def wait(self, deadline_s: float = DEADLINE_S) -> int:
        return self._child.wait(deadline_s)

    def stop(self) -> int:
        """A clean stop."""
        self._child.send_signal(signal.SIGTERM)
        return self.wait()

    def is_stopped(self) -> bool:
        return psutil.Process(self._child.pid).status() == psutil.STATUS_STOPPED

    def signal(self, number: int) -> None:
        self._child.send_signal(number)

    def end(self) -> None:
        if self._child.poll() is None:
            self._child.kill()
        self._child.wait()
        self._reader.join(5)
        if self._child.stdout:
            self._child.stdout.close()


class Toy:
    """A run whose assembler is the toy."""

    def __init__(self, bootstrap: str, run: str, partitions: int) -> None:
        self.connection = Connection(bootstrap, run, "test")
        self.rules = toy_rules(run, partitions)
        self.partitions = partitions
        self.processes: list[Process] = []
        self._facts = FactWriter(self.connection, "test")
        self._raw = Producer({"bootstrap.servers": bootstrap})
        create_run(self.connection, self.rules)

    def write(self, *events: Event, partition: int = 0, topic: Topic = Topic.ROLLOUTS) -> None:
        self._facts.write([Output(topic, partition, event) for event in events])

    def write_raw(self, value, key=None, headers=(), partition=0, topic=Topic.ROLLOUTS) -> None:
        name = topic_name(self.connection.run, topic)
        self._raw.produce(name, value, key, partition, headers=list(headers))
        assert self._raw.flush(10) == 0

    def start(self, slot: str = "a", *flags: str, **environment: str) -> Process:
        arguments = [self.connection.bootstrap, self.connection.run, slot, str(self.partitions), *flags]
        self.processes.append(Process(arguments, environment))
        return self.processes[-1]

    def read(self, topic: Topic = Topic.DISCARDS) -> list[Record]:
        return list(read_topic(self.connection, topic))

    def answers(self) -> dict[int, list[tuple[str | None, bytes | None]]]:
        """What the stage has answered, by partition: cause and value, in order."""
        found: dict[int, list[tuple[str | None, bytes | None]]] = {p: [] for p in range(self.partitions)}
        for record in self.read():
            found[record.partition].append((record.cause, record.value))
        return found

    def expected(self) -> dict[int, list[tuple[str | None, bytes | None]]]:
        """What the pure fold of the input answers."""
        return {p: list(self._fold(p)) for p in range(self.partitions)}

    def _fold(self, partition: int) -> Iterator[tuple[str, bytes]]:
        stage = Counter()
        state = stage.initial(partition)
        for record in read_topic(self.connection, Topic.ROLLOUTS, [partition]):
            for index, output in enumerate(stage.step(state, record.event())):
                if output.topic is Topic.DISCARDS:
                    cause = f"{StageName.ASSEMBLER.value}/rollouts/{partition}/{record.offset}/{index}"
                    yield cause, encode(output.event)

    def settled(self, deadline_s: float = DEADLINE_S) -> None:
        """Wait until the answers are those of the fold: each once, in order, no other."""
        expected = self.expected()
        count = sum(map(len, expected.values()))
        eventually(lambda: sum(map(len, self.answers().values())) >= count, deadline_s, f"{count} answers")
        assert self.answers() == expected

    def committed(self) -> dict[int, tuple[int, str]]:
        """Committed offset and metadata by partition."""
        from confluent_kafka import Consumer, TopicPartition

        from pipeline.log.client import reader_settings, using
        from pipeline.log.topics import group_name

        group = group_name(self.connection.run, StageName.ASSEMBLER)
        topic = topic_name(self.connection.run, Topic.ROLLOUTS)
        asked = [TopicPartition(topic, p) for p in range(self.partitions)]
        with using(Consumer({**reader_settings(self.connection), "group.id": group})) as consumer:
            return {
                found.partition: (found.offset, found.metadata or "") for found in consumer.committed(asked, timeout=20)
            }

    def close(self) -> None:
        for process in self.processes:
            process.end()
        self._facts.close()
        give_up(self._raw)


@pytest.fixture
def make_toy(services, run_name) -> Iterator[Callable[..., Toy]]:
    made: list[Toy] = []

    def make(partitions: int = 1) -> Toy:
        made.append(Toy(services.bootstrap, run_name, partitions))
        return made[-1]

    yield make
    for toy in made:
        toy.close()


@pytest.fixture
def toy(make_toy) -> Toy:
    """A run with one partition."""
    return make_toy()


__all__ = ["CAUSE", "Process", "Toy", "eventually"]
