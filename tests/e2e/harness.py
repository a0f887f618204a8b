"""A run of a test's own: started, killed, frozen, watched through its log, and audited at the end."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import psutil
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from pipeline.config import load_settings, parse
from pipeline.domain import events as e
from pipeline.domain.topology import READS, Output, StageName, Topic, partitions
from pipeline.domain.vocabulary import Outcome
from pipeline.history.audits.audit import Audit, audit
from pipeline.history.records import MemoryLog
from pipeline.local import Services
from pipeline.log.client import Connection, admin_client, fact_producer, give_up, plain_consumer, using
from pipeline.log.codec import Members, Poison, UnknownSchema
from pipeline.log.facts import write_facts
from pipeline.log.reader import Record, ended, record_of, take
from pipeline.log.topics import group_name, topic_name
from pipeline.runs import StartedRun, connection_of, init_run, store_of

T = TypeVar("T")
E = TypeVar("E", bound=e.Event)

ROOT = Path(__file__).parents[2]
DEADLINE_S = 100.0
ROLES = ("scheduler", "generator", "scorer", "assembler", "filter", "batcher", "trainer", "reaper")
FRONT = ("scheduler", "generator", "scorer", "assembler", "filter", "batcher", "reaper")
"""All but the trainer."""

BASE: dict[str, Any] = {
    "seed": 7,
    "steps": 3,
    "prompts": {"factory": "tests.e2e.plugins:Numbers"},
    "engine": {"factory": "tests.e2e.plugins:Dice"},
    "verifiers": {"exact": {"factory": "pipeline.verifiers.exact:ExactMatch"}},
    "learner": {"factory": "tests.e2e.plugins:Counting"},
    "domains": {"a": {"quota": 2}},
    "group_size": 2,
    "checkpoint_every": 2,
    "payload": {"budget": "20MB", "max": "100KB"},
    "assembly": {"lease": "60s", "deadline": "300s"},
    "starvation": {"no_progress": "10m"},
    "tick": "200ms",
}

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.e2e.hosted"])


class Host:
    """A process with one consumer, or with several."""

    def __init__(self, roles: Sequence[str], flags: Sequence[str], environment: dict[str, str], log: Path) -> None:
        from tests.e2e.hosted import run

        self.roles, self.log = tuple(roles), log
        self.expected_to_end = False
        with _threads_for_one():
            self._process = _FORKS.Process(target=run, args=(self.roles, tuple(flags), environment, str(log)))
            self._process.start()

    def kill(self) -> None:
        """As a crash would."""
        self.signal(signal.SIGKILL)
        self.wait()

    def stop(self, deadline_s: float = 30.0) -> None:
        """In order; fails unless it ends well."""
        self.signal(signal.SIGTERM)
        assert self.wait(deadline_s) == 0, self.tail()

    def freeze(self) -> None:
        self.signal(signal.SIGSTOP)
        self.expected_to_end = False

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)
        self.expected_to_end = True

    def is_frozen(self) -> bool:
        return psutil.Process(self._process.pid).status() == psutil.STATUS_STOPPED

    def signal(self, number: int) -> None:
        self.expected_to_end = True
        os.kill(self._process.pid or 0, number)

    def wait(self, deadline_s: float = DEADLINE_S) -> int:
        """Its exit code once it has ended; negative: the signal that killed it."""
        self.expected_to_end = True
        self._process.join(deadline_s)
        assert self._process.exitcode is not None, f"{self} did not end\n{self.tail()}"
        return self._process.exitcode

    @property
    def exit_code(self) -> int | None:
        return self._process.exitcode

    def said(self, text: str) -> bool:
        """Whether its log has this text."""
        return text in self.log.read_text(errors="replace")

    def say_where(self) -> None:
        """Have it write the stacks of its threads into its log."""
        if self.exit_code is None and not self.is_frozen():
            os.kill(self._process.pid or 0, signal.SIGUSR1)
            time.sleep(0.2)

    def tail(self, lines: int = 30) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def close(self) -> None:
        if self._process.exitcode is None:
            os.kill(self._process.pid or 0, signal.SIGKILL)
            self._process.join(10)
        self._process.close()

    def __str__(self) -> str:
        return f"{'+'.join(self.roles)} ({self.log.name})"


class Run:
    """A run and its processes. `log` holds all records that were read so far, by topic."""

    def __init__(
        self, services: Services, name: str, folder: Path, redis_url: str | None = None, **config: Any
    ) -> None:
        self.folder, self.name = folder, name
        self.gates = folder / "gates"
        self.gates.mkdir(exist_ok=True)
        self.redis_url = redis_url or services.redis_url
        self.settings = load_settings(
            bootstrap=services.bootstrap, redis_url=self.redis_url, run=name, data_dir=folder, slot="test"
        )
        self.started = self.made(config)
        self.rules = self.started.rules
        self.connection: Connection = connection_of(self.settings)
        self.store = store_of(self.settings, name, self.rules.max_payload_bytes)
        self.hosts: list[Host] = []
        self.log: dict[Topic, list[Record]] = {topic: [] for topic in Topic}
        self._topics = {topic_name(name, topic): topic for topic in Topic}
        self._reader = plain_consumer(self.connection)
        self._reader.assign(
            [
                TopicPartition(kafka_name, p, 0)
                for kafka_name, topic in self._topics.items()
                for p in range(partitions(topic, self.rules))
            ]
        )

    def made(self, config: dict[str, Any]) -> StartedRun:
        """The run itself, made."""
        return init_run(parse({**BASE, **config, "run": self.name}), self.settings)

    # ------------------------------------------------------------------------------------------------------- processes

    def start(self, *roles: str, slot: str = "a", until_finished: bool = True, **environment: str) -> Host:
        """A process with these consumers."""
        names = {
            "TAMIS_BOOTSTRAP": self.connection.bootstrap,
            "TAMIS_REDIS_URL": self.redis_url,
            "TAMIS_RUN": self.name,
            "TAMIS_DATA_DIR": str(self.folder),
            "TAMIS_SLOT": slot,
            "E2E_GATES": str(self.gates),
        }
        log = self.folder / f"{len(self.hosts)}-{roles[0]}-{slot}.log"
        log.touch()
        flags = ["--until-finished"] if until_finished else []
        self.hosts.append(Host(roles, flags, names | environment, log))
        return self.hosts[-1]

    def hold(self, gate: str) -> None:
        """Have the plugins wait at this gate."""
        (self.gates / f"{gate}.hold").touch()

    def release(self, gate: str) -> None:
        (self.gates / f"{gate}.hold").unlink()

    def reached(self, gate: str) -> None:
        """Wait until somebody waits at this gate."""
        self.until((self.gates / f"{gate}.reached").exists, f"gate {gate}")

    def close(self) -> None:
        for host in self.hosts:
            host.close()
        give_up(self._reader)

    # ------------------------------------------------------------------------------------------------------------- log

    def poll(self, timeout_s: float = 0.1) -> None:
        """Take what was written since."""
        for message in take(self._reader, timeout_s):
            if not ended(message):
                topic = self._topics[message.topic() or ""]
                self.log[topic].append(record_of(topic, message))

    def read_to_end(self) -> None:
        """Take all that is there."""
        quiet = 0
        while quiet < 3:
            before = sum(map(len, self.log.values()))
            self.poll(0.2)
            quiet = quiet + 1 if before == sum(map(len, self.log.values())) else 0

    def until(self, check: Callable[[], T], what: str, deadline_s: float = DEADLINE_S) -> T:
        """What `check` gives once it is true. Fails after the deadline, and when a process has ended unasked."""
        give_up = time.monotonic() + deadline_s
        while True:
            self.poll()
            if found := check():
                return found
            for host in self.hosts:
                if not host.expected_to_end and host.exit_code not in (None, 0):
                    raise AssertionError(f"{host} ended with {host.exit_code}, waiting for {what}\n{host.tail()}")
            if time.monotonic() > give_up:
                raise AssertionError(f"not within {deadline_s:g} s: {what}\n{self.summary()}")

    def events(
        self, kind: type[E], topic: Topic = Topic.LEDGER, where: Callable[[E], bool] = lambda _: True
    ) -> list[E]:
        """The events of a kind that were read so far."""
        found = map(event_of, self.log[topic])
        return [event for event in found if isinstance(event, kind) and where(event)]

    def until_event(
        self, kind: type[E], count: int = 1, topic: Topic = Topic.LEDGER, where: Callable[[E], bool] = lambda _: True
    ) -> list[E]:
        """The events of a kind, once there are `count`."""

        def enough() -> list[E]:
            found = self.events(kind, topic, where)
            return found if len(found) >= count else []

        return self.until(enough, f"{count} {kind.__name__} on {topic}")

    def write(self, *outputs: Output) -> None:
        """Write facts."""
        write_facts(self.connection, "test", outputs)

    def write_raw(self, topic: Topic, value: bytes | None, key: bytes | None = None, partition: int = 0) -> None:
        """Write a record as anybody might."""
        with using(fact_producer(self.connection)) as producer:
            producer.produce(topic_name(self.name, topic), value, key, partition)
            assert producer.flush(30) == 0

    def ask_to_stop(self) -> None:
        self.write(Output(Topic.LEDGER, 0, e.StopRequested("test", time.time_ns() // 1_000_000)))

    def summary(self) -> str:
        """What a person needs to see of a run that doesn't go on."""
        counts: dict[str, int] = {}
        for records in self.log.values():
            for record in records:
                name = f"{record.topic}:{type(event_of(record)).__name__}"
                counts[name] = counts.get(name, 0) + 1
        for host in self.hosts:
            host.say_where()
        tails = [f"--- {host}, exit code {host.exit_code}\n{host.tail(50)}" for host in self.hosts]
        return "\n".join([str(counts), *tails])

    # --------------------------------------------------------------------------------------------------------- the end

    def finish(self, outcome: Outcome = Outcome.COMPLETED, deadline_s: float = DEADLINE_S) -> Audit:
        """Wait for the end; the run is over as design and audit want it."""
        copies = self.rules.partitions + 1
        self.until(
            lambda: len(self.events(e.RunFinished, Topic.DROPS)) >= copies, "RunFinished in all of drops", deadline_s
        )
        return self.check(outcome)

    def check(self, outcome: Outcome = Outcome.COMPLETED) -> Audit:
        """The audit is clean, its outcome this one, and nothing is left in Redis."""
        assert [event.outcome for event in self.events(e.RunFinished)] == [outcome]
        assert len(self.events(e.RunFinished, Topic.DROPS)) == self.rules.partitions + 1
        assert self.store.count_keys() == 0
        self.read_to_end()
        records = (record for records in self.log.values() for record in records)
        found = audit(MemoryLog(records), self.started.started, Members(), self.store)
        assert not found.violations, "\n".join(found.violations)
        assert found.drained and found.pending == []
        assert found.checked["inputs replayed"] > 0
        versions = [event.version for event in self.events(e.BatchTrained)]
        assert versions == list(range(1, len(versions) + 1))
        return found

    def ended_well(self, *hosts: Host) -> None:
        """These processes, started to run until the run is finished, end by themselves, with exit code 0."""
        for host in hosts:
            assert host.wait() == 0, host.tail()

    def weights(self) -> str:
        """The last checkpoint that the ledger names."""
        return (self.folder / self.name / self.events(e.CheckpointSaved)[-1].path).read_text()


def event_of(record: Record) -> e.Event | None:
    """The event in a record, None if it can't be read."""
    try:
        return record.event()
    except (Poison, UnknownSchema):
        return None


def committed(run: Run, stage: StageName) -> list[TopicPartition]:
    """The committed offsets of a stage, with their metadata."""
    group, topic = group_name(run.name, stage), topic_name(run.name, READS[stage])
    wanted = [TopicPartition(topic, p) for p in range(partitions(READS[stage], run.rules))]
    with using(admin_client(run.connection)) as admin:
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)])
        return list(asked[group].result(30).topic_partitions)


def _threads_for_one() -> Any:
    """The first process starts the server that all are forked from: numeric libraries must not start threads there."""
    return _Environment({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)})


class _Environment:
    """Variables that are set for a while."""

    def __init__(self, variables: dict[str, str]) -> None:
        self._new, self._old = variables, dict[str, str | None]()

    def __enter__(self) -> None:
        self._old = {name: os.environ.get(name) for name in self._new}
        os.environ.update(self._new)

    def __exit__(self, *_: object) -> None:
        for name, value in self._old.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
