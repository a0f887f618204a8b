"""The whole pipeline at full speed, everything on: groups a second, and CPU seconds per 1,000 groups by process.

The clock runs from the first payload's event back by its call, to the moment the last batch was in tensors and every
rejected payload was dropped; all from the log's own timestamps. Start-up isn't counted; a first run is discarded.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.plugins import BYTES_A_TOKEN
from pipeline.config import ProcessSettings, parse
from pipeline.demo.processes import Processes, Role
from pipeline.domain import events as e
from pipeline.domain.topology import Topic
from pipeline.history.audits.audit import audit_run
from pipeline.log.client import Connection
from pipeline.log.reader import end_offsets, read_topic
from pipeline.runs import connection_of, init_run, store_of

STAGES = ("trainer", "generator", "scheduler", "scorer", "assembler", "filter", "batcher", "reaper", "monitor")
BATCH = 64


@dataclass(frozen=True, slots=True)
class Result:
    """One run. CPU in seconds per 1,000 groups, by process."""

    payload_bytes: int
    groups: int
    seconds: float
    cpu: dict[str, float]
    clean: bool

    @property
    def groups_per_s(self) -> float:
        """Groups sampled a second, rejected ones included."""
        return self.groups / self.seconds


def measure(
    settings: ProcessSettings, payload_bytes: int, groups: int, servers: Mapping[str, int], logs: Path
) -> Result:
    """Run the workload once. `servers`: process ids of the broker and of Redis."""
    name = f"bench-{time.time_ns() // 1_000_000}"
    settings = settings.model_copy(update={"run": name})
    steps = groups * 3 // 4 // BATCH
    run = init_run(parse(_config(name, payload_bytes, steps)), settings)
    store = store_of(settings, name, run.rules.max_payload_bytes)
    processes = Processes(_environment(settings), logs / name)
    connection = connection_of(settings)
    processes.start([Role(stage, "1") for stage in STAGES])
    pids = {child.role.consumer: child.process.pid for child in processes.children} | dict(servers)
    before: dict[str, float] = {}
    after: dict[str, float] = {}
    try:
        while not processes.finished():
            list(processes.tend())
            if not before:
                found = _cpu(pids)
                before = found if end_offsets(connection, Topic.RESPONSES, 1)[0] else {}
            after |= _cpu(pids)
            time.sleep(0.1)
    finally:
        processes.stop()
    cpu = {name: used - before.get(name, 0.0) for name, used in after.items()}
    first, last, sampled = _clock(connection)
    clean = audit_run(connection, store).clean and store.count_keys() == 0
    each = {process: used * 1000 / sampled for process, used in cpu.items()}
    return Result(payload_bytes, sampled, (last - first) / 1000, each, clean)


def _clock(connection: Connection) -> tuple[int, int, int]:
    """Milliseconds of the first response's call, of the last tensor or drop that counts, and the groups between."""
    first = 1 << 62
    for record in read_topic(connection, Topic.RESPONSES):
        event = record.event()
        if isinstance(event, e.ResponseGenerated):
            first = min(first, event.at - event.sampling_ms)
    ledger = [(record.timestamp_ms, record.event()) for record in read_topic(connection, Topic.LEDGER)]
    trained = last = max(at for at, event in ledger if isinstance(event, e.BatchTrained))
    groups = len([at for at, event in ledger if isinstance(event, e.GroupAccepted | e.GroupRejected) and at <= trained])
    for record in read_topic(connection, Topic.DROPS):
        event = record.event()
        if isinstance(event, e.PayloadsDropped) and event.reason == "rejected" and event.at <= trained:
            last = max(last, record.timestamp_ms)
    return first, last, groups


def _config(name: str, payload_bytes: int, steps: int) -> dict[str, Any]:
    return {
        "run": name,
        "steps": steps,
        "prompts": {"factory": "benchmarks.plugins:Prompts", "options": {"size": 1_000_000}},
        "engine": {"factory": "benchmarks.plugins:Engine", "options": {"tokens": payload_bytes // BYTES_A_TOKEN}},
        "verifiers": {"exact": {"factory": "pipeline.verifiers.exact:ExactMatch"}},
        "learner": {"factory": "benchmarks.plugins:Learner"},
        "domains": {"bench": {"quota": BATCH}},
        "group_size": 8,
        "partitions": 1,
        "async_ratio": 4,
        "max_open_groups": 4096,
        "checkpoint_every": 1,
        "payload": {"max": payload_bytes * 2},
        "starvation": {"no_progress": "2m"},
    }


def _environment(settings: ProcessSettings) -> dict[str, str]:
    return {
        "TAMIS_BOOTSTRAP": settings.bootstrap or "",
        "TAMIS_REDIS_URL": settings.redis_url.get_secret_value() if settings.redis_url else "",
        "TAMIS_RUN": settings.run or "",
        "TAMIS_DATA_DIR": str(settings.data_dir),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.getcwd(),
    }


def _cpu(pids: Mapping[str, int]) -> dict[str, float]:
    """CPU seconds that each process has used so far."""
    used = {}
    for name, pid in pids.items():
        try:
            times = psutil.Process(pid).cpu_times()
        except psutil.Error:
            continue
        used[name] = times.user + times.system
    return used


def middle(results: Sequence[Result]) -> Result:
    """The run with the median speed."""
    return sorted(results, key=lambda r: r.groups_per_s)[len(results) // 2]
