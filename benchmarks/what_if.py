"""How long other filters over a recorded run take, decoding included. `python -m benchmarks.what_if`

A run of 100,000 groups of 8 is made: openings, verdicts, discards, batches. It is judged from memory, in CPU seconds of
one core; the best of many shorter times tells what a core can do that shares nothing. With --broker also from Kafka, as
`tamis what-if` does: the seconds that pass, and CPU seconds of the whole process.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline import local
from pipeline.domain import events as e
from pipeline.domain.filters.stage import Filter
from pipeline.domain.grouping import largest_payload, payload_bytes, scores_of
from pipeline.domain.rules import Rules, rules_of
from pipeline.domain.topology import Topic
from pipeline.domain.vocabulary import DiscardReason, FinishReason, Grading, Purpose
from pipeline.history.what_if import TOPICS, Comparison, what_if
from pipeline.log.admin import create_run
from pipeline.log.client import Connection, fact_producer, using
from pipeline.log.codec import Members, encode
from pipeline.log.reader import Record, read_topic
from pipeline.log.topics import topic_name
from pipeline.process import calm_collector

SIZE, QUOTA, TRIES = 8, 64, 20
ZERO_STD = {"type": "zero_std", "tol": 1e-8, "metric": "reward", "max_reward": 1.0}
BAND = {"type": "band", "low": 0.2, "high": 0.8, "metric": "reward"}
GUARD = {"type": "window", "window": 100, "min_samples": 20, "max_ratio": 0.5, "keep_after": None}


def rules(**domain: Any) -> Rules:
    """Those of the run; of a domain, what is given here."""
    from tests.history.drive import CONFIG

    maths = {"name": "maths", "quota": QUOTA, "filters": [ZERO_STD], "filter_hash": "f", **domain}
    return rules_of(
        CONFIG | {"group_size": SIZE, "steps": 10**6, "partitions": 4, "filter_partitions": 1, "domains": [maths]}
    )


def recorded(groups: int, seed: int = 1) -> Iterator[Record]:
    """The ledger of a run, then its discards, as bytes."""
    rng, members, stage = random.Random(seed), Members(), Filter(rules(), Members())
    state, pool, offset = stage.initial(0), list[e.BatchGroup](), 0
    for n in range(groups):
        gid, at = f"{n}@{n % 4}", 1_700_000_000_000 + n
        prompt = e.PromptRef(f"p{n}", "maths", n, 0)
        chance = rng.random()
        group = tuple(_member(gid, slot, float(rng.random() < chance), rng.randint(50, 900)) for slot in range(SIZE))
        coded, sizes = members.encode(group), (payload_bytes(group), largest_payload(group))
        opened = e.GroupOpened(gid, prompt, Purpose.TRAIN, None, gid, None, 1, n, SIZE, 1, 0, None, at)
        whole = e.GroupAssembled(
            gid, prompt, Purpose.TRAIN, None, SIZE, coded, *sizes, n // 500, n // 500, scores_of(group), 1000, at
        )
        (verdict,) = stage.step(state, whole)
        story: list[e.Event] = [opened, verdict.event]
        if isinstance(verdict.event, e.GroupAccepted):
            pool.append(e.BatchGroup(gid, "maths", coded, 1.0, sizes[0], n // 500, n // 500))
        if len(pool) == QUOTA:
            story.append(e.BatchFormed(n, tuple(pool), QUOTA, 1.0, n // 500, None, at))
            pool.clear()
        for event in story:
            offset += 1
            yield Record(Topic.LEDGER, 0, offset, at, (e.key_of(event) or "").encode(), (), encode(event))
    for n in range(groups):
        late = e.ResponseDiscarded(
            f"{n}@{n % 4}", SIZE, 1, "key", 4000, rng.randint(300, 1200), DiscardReason.LATE, None, 1
        )
        yield Record(Topic.DISCARDS, n % 4, n, 1, None, (), encode(late))


def _member(gid: str, slot: int, reward: float, tokens: int) -> e.Member:
    key = f"tamis:demo-1:{{{gid}}}:{slot}.1:0011223344556677"
    return e.Member(
        slot, 1, key, 4321, reward, reward, 0.0, {"exact": reward}, None, Grading.GRADED, None, FinishReason.STOP,
        False, False, False, 40, tokens, 3, 3, "generator-1",
    )  # fmt: skip


def timed(records: list[Record], other: Rules) -> tuple[Comparison, float]:
    """What other filters say, and the CPU seconds that they took."""
    started = time.process_time()
    found = what_if(records, rules(), other)
    return found, time.process_time() - started


def from_kafka(records: list[Record], other: Rules) -> None:
    """Write the records to a run on a broker of this machine, and judge them from there. Prints what it took."""
    with tempfile.TemporaryDirectory(prefix="tamis-bench-") as folder:
        services = local.ensure(Path(folder), say=lambda text: None)
        try:
            _judge_from_kafka(Connection(services.bootstrap, "bench", "bench"), records, other)
        finally:
            local.down(Path(folder), wipe=True)


def _judge_from_kafka(connection: Connection, records: list[Record], other: Rules) -> None:
    create_run(connection, rules())
    with using(fact_producer(connection)) as producer:
        for record in records:
            producer.produce(topic_name("bench", record.topic), record.value, record.key, record.partition)
            producer.poll(0)
        producer.flush()
    for judge in (lambda read: sum(1 for _ in read), lambda read: what_if(read, rules(), other).judged):
        wall, cpu = time.perf_counter(), time.process_time()
        found = judge(r for topic in TOPICS for r in read_topic(connection, topic))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        print(f"from Kafka: {found:,} in {wall:.2f} s, {cpu:.2f} CPU s of all threads")


def main() -> None:
    """Print seconds for a guarded chain, and where they go with --profile."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.what_if", description=__doc__)
    parser.add_argument("--groups", type=int, default=100_000)
    parser.add_argument("--broker", action="store_true", help="read them from Kafka, too")
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    records = list(recorded(given.groups))
    size = sum(len(record.value or b"") for record in records)
    other = rules(filters=[BAND, ZERO_STD], guard=GUARD)
    calm_collector()
    profile = cProfile.Profile()
    if given.profile:
        profile.enable()
    found, seconds = timed(records, other)
    profile.disable()
    print(
        f"{found.judged:,} groups, {len(records):,} records, {size / 1e6:.0f} MB: {seconds:.2f} s, "
        f"{seconds / found.judged * 1e6:.0f} µs a group; {found.agree:,} agree"
    )
    if not given.profile:
        few = list(recorded(given.groups // 10))
        best = min(timed(few, other)[1] for _ in range(TRIES)) * given.groups / (given.groups // 10)
        print(
            f"best of {TRIES} times a tenth of them: {best:.2f} s for all, {best / given.groups * 1e6:.0f} µs a group"
        )
    if given.broker:
        from_kafka(records, other)
    if given.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(20)


if __name__ == "__main__":
    main()
