"""A run of a test's own, with facts written by hand, and the real generator and scorer on it."""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition

from pipeline.config import load_settings, parse
from pipeline.domain import events as e
from pipeline.domain.topology import StageName, Topic
from pipeline.domain.vocabulary import Outcome, Purpose
from pipeline.engines.serving import Generator
from pipeline.local import Services
from pipeline.log.admin import commit_offsets
from pipeline.log.client import Connection, admin_client, fact_producer, using
from pipeline.log.codec import encode
from pipeline.log.metadata import OffsetMetadata, parse_metadata
from pipeline.log.reader import read_topic
from pipeline.log.serving import ServingLoop
from pipeline.log.topics import group_name, topic_name
from pipeline.prompts import task
from pipeline.runs import connection_of, init_run, store_of
from pipeline.sdk import Sample, SampleRequest, Task, VerifierBinding
from pipeline.verifiers.serving import Scorer

REPOSITORY = Path(__file__).parents[2]
DEADLINE_S = 40.0

BASE: dict[str, Any] = {
    "steps": 1,
    "prompts": {"factory": "pipeline.prompts.sorting:SortingPrompts", "options": {"size": 8}},
    "engine": {"factory": "tests.facts.plugins:Echo"},
    "learner": {"factory": "tests.facts.plugins:Echo"},
    "verifiers": {"exact": {"factory": "pipeline.verifiers.exact:ExactMatch"}},
    "group_size": 4,
    "domains": {"sorting": {"quota": 1}},
    "partitions": 1,
    "payload": {"budget": "20MB", "max": "1MB"},
}


def eventually(check: Callable[[], Any], what: str, deadline_s: float = DEADLINE_S) -> Any:
    """What `check` gives once it is true; fails after the deadline."""
    give_up = time.monotonic() + deadline_s
    while not (found := check()):
        if time.monotonic() > give_up:
            raise AssertionError(f"not within {deadline_s} s: {what}")
        time.sleep(0.02)
    return found


def sample(*logprobs: float, text: str = "x", **rest: Any) -> Sample:
    """A sample with these log-probabilities."""
    return Sample(array("i", range(len(logprobs))), array("f", logprobs), text, **rest)


class Engine:
    """Answers as `answer(request)` says; keeps what it was asked, by policy. Calls wait while `gate` is clear."""

    def __init__(
        self, answer: Callable[[SampleRequest], Any] | None = None, batch: int = 1, concurrency: int = 64
    ) -> None:
        self.batch, self.concurrency = batch, concurrency
        self._answer = answer or (lambda request: sample(-0.5, -0.25, text=request.text))
        self.asked: list[tuple[int | None, SampleRequest]] = []
        self.loads: list[int] = []
        self.cancelled: list[str] = []
        self.version: int | None = None
        self.gate = threading.Event()
        self.gate.set()

    async def load_policy(self, path: Path, version: int) -> None:
        assert path.exists()
        self.version = version
        self.loads.append(version)

    async def generate(self, requests: Sequence[SampleRequest]) -> Sequence[Any]:
        self.asked += [(self.version, request) for request in requests]
        try:
            while not self.gate.is_set():
                await asyncio.sleep(0.005)
        except asyncio.CancelledError:
            self.cancelled += [request.response_id for request in requests]
            raise
        return [self._answer(request) for request in requests]

    @property
    def ids(self) -> list[str]:
        return [request.response_id for _, request in self.asked]


class Rig:
    """A run, made by `init_run`, and hands for all around generator and scorer."""

    def __init__(self, services: Services, run: str, folder: Path, redis_url: str | None = None, **config: Any) -> None:
        self.env = {
            "TAMIS_BOOTSTRAP": services.bootstrap,
            "TAMIS_REDIS_URL": redis_url or services.redis_url,
            "TAMIS_RUN": run,
            "TAMIS_DATA_DIR": str(folder),
        }
        self.settings = load_settings(
            bootstrap=services.bootstrap, redis_url=self.env["TAMIS_REDIS_URL"], run=run, data_dir=folder, slot="test"
        )
        self.started = init_run(parse({**BASE, **config, "run": run}), self.settings)
        self.rules, self.run = self.started.rules, run
        self.connection: Connection = connection_of(self.settings)
        self.store = store_of(self.settings, run, self.rules.max_payload_bytes)
        self.folder = folder / run
        self.folder.mkdir(parents=True, exist_ok=True)
        self._producer = fact_producer(self.connection)

    def write(self, topic: Topic, events: Sequence[e.Event | bytes | None], partition: int = 0) -> None:
        """Put records on a topic, in order."""
        name = topic_name(self.run, topic)
        for event in events:
            value = encode(event) if isinstance(event, e.Event) else event
            key = e.key_of(event) if isinstance(event, e.Event) else None
            while True:
                try:
                    self._producer.produce(name, value, key, partition)
                    break
                except BufferError:
                    self._producer.poll(0.05)
        assert self._producer.flush(30) == 0

    def read(self, topic: Topic, partition: int | None = None) -> list[e.Event]:
        """All committed events of a topic."""
        partitions = None if partition is None else [partition]
        return [record.event() for record in read_topic(self.connection, topic, partitions)]

    def causes(self, topic: Topic) -> list[str | None]:
        """The causes of a topic's records."""
        return [record.cause for record in read_topic(self.connection, topic)]

    def until(
        self, topic: Topic, count: int, partition: int | None = None, deadline_s: float = DEADLINE_S
    ) -> list[Any]:
        """The events of a topic once there are `count` of them."""

        def enough() -> list[e.Event] | None:
            found = self.read(topic, partition)
            return found if len(found) >= count else None

        return eventually(enough, f"{count} records on {topic}", deadline_s)

    def committed(self, stage: StageName, partition: int = 0) -> tuple[int, OffsetMetadata]:
        """The committed offset of a stage, and its metadata."""
        from confluent_kafka import ConsumerGroupTopicPartitions as Asked

        name = group_name(self.run, stage)
        topic = topic_name(self.run, Topic.PROMPTS if stage is StageName.GENERATOR else Topic.RESPONSES)
        with using(admin_client(self.connection)) as admin:
            asked = admin.list_consumer_group_offsets([Asked(name, [TopicPartition(topic, partition)])])
            found = asked[name].result(10).topic_partitions[0]
        return found.offset, parse_metadata(found.metadata)

    def commit(self, stage: StageName, offset: int, metadata: OffsetMetadata, partition: int = 0) -> None:
        """Set a committed offset by hand."""
        commit_offsets(self.connection, stage, [TopicPartition("", partition, offset, metadata.format())])

    def policy(self, version: int, content: bytes | None = None) -> e.PolicyPublished:
        """Write a policy file; the event that publishes it."""
        body = content or f"policy {version}".encode()
        path = f"policy-{version}"
        (self.folder / path).write_bytes(body)
        return e.PolicyPublished(version, path, hashlib.sha256(body).hexdigest(), 0)

    @contextmanager
    def serving(self, work: Any, slot: str = "test", until_finished: bool = False) -> Iterator[Served]:
        """Serve in a thread of this process, as `consumers` do."""
        connection = Connection(self.connection.bootstrap, self.run, slot)
        served = Served(ServingLoop(connection, work, self.rules), until_finished)
        try:
            yield served
        finally:
            served.stop()

    def generator(
        self, engine: Any, slot: str = "test", until_finished: bool = False, store: Any = None, refresh: bool = False
    ) -> Any:
        """Serve prompts with this engine."""
        work = Generator(self.rules, engine, store or self.checked_store(), self.folder, slot, None, refresh)
        return self.serving(work, slot, until_finished)

    def scorer(self, slot: str = "test", until_finished: bool = False) -> Any:
        """Serve responses with the verifiers of the configuration."""
        return self.serving(Scorer(self.started.config, self.checked_store()), slot, until_finished)

    def checked_store(self) -> Any:
        """A store of its own, which knows its server."""
        store = store_of(self.settings, self.run, self.rules.max_payload_bytes)
        store.check_server()
        return store

    def process(self, consumer: str, *arguments: str, **env: str) -> subprocess.Popen[bytes]:
        """The real consumer."""
        command = [sys.executable, "-m", f"consumers.{consumer}", *arguments]
        return subprocess.Popen(
            command,
            cwd=REPOSITORY,
            env={**os.environ, **self.env, "PYTHONPATH": str(REPOSITORY), "TAMIS_SLOT": "test", **env},
        )


class Served:
    """A loop that runs in a thread."""

    def __init__(self, loop: ServingLoop, until_finished: bool) -> None:
        self.work = loop._work
        self.error: BaseException | None = None
        self.exit_code: int | None = None
        self._stopping = threading.Event()

        def serve() -> None:
            try:
                self.exit_code = loop.run(self._stopping.is_set, until_finished)
            except BaseException as error:
                self.error = error

        self._thread = threading.Thread(target=serve)
        self._thread.start()

    def stop(self, deadline_s: float = 15.0) -> None:
        """Stop as a signal would; fails if that takes long, or if it had ended with an error."""
        self._stopping.set()
        self._thread.join(deadline_s)
        assert not self._thread.is_alive()
        if self.error is not None:
            error, self.error = self.error, None
            raise error

    def wait(self, deadline_s: float = DEADLINE_S) -> None:
        """Until it ends by itself."""
        self._thread.join(deadline_s)
        assert not self._thread.is_alive()


def a_task(
    target: str = "x", verifiers: Sequence[str] = ("exact",), metadata: Mapping[str, Any] | None = None
) -> bytes:
    """A task as bytes."""
    bindings = tuple(VerifierBinding(name, target) for name in verifiers)
    return task.encode(Task("t", "x", (3, 4, 5), bindings, metadata or {}))


def issued(n: int, size: int = 4, partition: int = 0, redundancy: int = 0, **rest: Any) -> e.PromptIssued:
    """A prompt given out."""
    fields: dict[str, Any] = {
        "group_id": f"{n}@{partition}",
        "prompt": e.PromptRef("t", "sorting", 0, 0),
        "purpose": Purpose.TRAIN,
        "eval": None,
        "root": f"{n}@{partition}",
        "replaces": None,
        "attempt": 1,
        "seed": 1000 + n,
        "group_size": size,
        "redundancy": redundancy,
        "min_version": 0,
        "task": a_task(),
        "at": 0,
    }
    return e.PromptIssued(**(fields | rest))


def requested(n: int, slots: Sequence[tuple[int, int]], partition: int = 0, **rest: Any) -> e.ResponsesRequested:
    """More responses wanted."""
    prompt = issued(n, partition=partition, **rest)
    fields = {name: getattr(prompt, name) for name in e.PromptIssued.__dataclass_fields__}
    return e.ResponsesRequested(**fields, slots=tuple(e.SlotRound(*slot) for slot in slots))


def evaluation(n: int, published: e.PolicyPublished, size: int = 1, **rest: Any) -> e.PromptIssued:
    """An evaluation prompt that only this policy may answer."""
    ref = e.EvalRef(1, published.version, published.path, published.sha256)
    return issued(n, size, purpose=Purpose.EVAL, eval=ref, **rest)


FINISHED = e.RunFinished(Outcome.COMPLETED, 1, 0)
