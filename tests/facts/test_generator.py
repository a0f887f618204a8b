"""The generator on a real broker and a real Redis."""

from __future__ import annotations

import asyncio
import signal
import threading
from array import array
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis

from pipeline.domain import events as e
from pipeline.domain.topology import StageName, Topic
from pipeline.domain.vocabulary import DeadLetterReason, Failure, Purpose
from pipeline.local import Services
from pipeline.log.client import admin_client, using
from pipeline.log.errors import Stop
from pipeline.log.metadata import MAX_DONE, OffsetMetadata
from pipeline.log.topics import group_name
from pipeline.sdk import Sample, SampleRequest
from pipeline.store.format import decode
from tests.facts.rig import DEADLINE_S, FINISHED, Engine, Rig, evaluation, eventually, issued, requested, sample

MIB = 1 << 20
pytestmark = pytest.mark.contract


def test_every_slot_is_answered_once_with_its_place_as_cause(services: Services, run_name: str, tmp_path: Path):
    rig = Rig(services, run_name, tmp_path)
    rig.write(Topic.PROMPTS, [rig.policy(0), issued(0), issued(1, redundancy=1), FINISHED])
    engine = Engine()
    with rig.generator(engine, until_finished=True) as served:
        served.wait()
    *responses, last = rig.read(Topic.RESPONSES)
    assert last == FINISHED
    assert sorted((r.group_id, r.slot, r.round) for r in responses) == [
        (f"{n}@0", slot, 1) for n in (0, 1) for slot in range(4 + n)
    ]
    assert sorted(rig.causes(Topic.RESPONSES)) == sorted(
        [f"generator/prompts/0/1/{i}" for i in range(4)]
        + [f"generator/prompts/0/2/{i}" for i in range(5)]
        + ["generator/prompts/0/3/0"]
    )
    assert all(r.failure is None and r.oldest_version == 0 and r.response_tokens == 2 for r in responses)
    assert len({request.seed for _, request in engine.asked}) == 9
    assert rig.store.count_keys() == 9
    offset, metadata = rig.committed(StageName.GENERATOR)
    assert (offset, metadata.policy, metadata.end, metadata.done) == (4, 0, 1, b"")


def test_a_kill_between_payload_and_event_leaves_an_orphan_on_a_lease_and_the_slots_are_done_again(
    services: Services, run_name: str, tmp_path: Path
):
    rig = Rig(services, run_name, tmp_path)
    rig.write(Topic.PROMPTS, [rig.policy(0), issued(0), FINISHED])
    killed = rig.process("generator", TAMIS_CRASH_AT="generator:decided:1")
    assert killed.wait(DEADLINE_S) == -signal.SIGKILL
    orphans = {key for keys in rig.store.scan() for key in keys}
    assert len(orphans) == 4 and rig.read(Topic.RESPONSES) == []
    assert rig.process("generator", "--until-finished").wait(DEADLINE_S) == 0
    *responses, last = rig.read(Topic.RESPONSES)
    assert last == FINISHED and sorted(r.slot for r in responses) == [0, 1, 2, 3]
    assert orphans.isdisjoint(r.payload_key for r in responses)
    client = redis.Redis.from_url(services.redis_url)
    assert all(client.pttl(key) > 0 for key in orphans)
    client.close()


@pytest.mark.parametrize("step", ["produced", "offsets_sent"])
def test_a_kill_inside_a_transaction_shows_nothing_of_it(services: Services, run_name: str, tmp_path: Path, step: str):
    rig = Rig(services, run_name, tmp_path)
    rig.write(Topic.PROMPTS, [rig.policy(0), issued(0), FINISHED])
    assert rig.process("generator", TAMIS_CRASH_AT=f"generator:{step}:1").wait(DEADLINE_S) == -signal.SIGKILL
    assert rig.process("generator", "--until-finished").wait(DEADLINE_S) == 0
    *responses, last = rig.read(Topic.RESPONSES)
    assert last == FINISHED and sorted(r.slot for r in responses) == [0, 1, 2, 3]


def test_ctrl_c_records_nothing_of_running_samples_and_a_restart_does_them(
    services: Services, run_name: str, tmp_path: Path
):
    slow = {"factory": "tests.facts.plugins:Echo", "options": {"batch": 1, "seconds": 3600}}
    rig = Rig(services, run_name, tmp_path, engine=slow)
    rig.write(Topic.PROMPTS, [rig.policy(0), issued(0, 6)])
    process = rig.process("generator")
    eventually(lambda: rig.committed(StageName.GENERATOR)[0] == 1, "the policy is taken")
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0
    assert rig.read(Topic.RESPONSES) == []
    with rig.generator(Engine()):
        responses = rig.until(Topic.RESPONSES, 6)
    assert sorted((r.slot, r.round, r.failure) for r in responses) == [(slot, 1, None) for slot in range(6)]


def test_a_cancellation_of_the_engines_own_is_a_failure(services: Services, run_name: str, tmp_path: Path):
    rig = Rig(services, run_name, tmp_path)

    def answer(request: SampleRequest) -> Any:
        if request.response_id == "0@0/2.1":
            raise asyncio.CancelledError
        if request.response_id == "0@0/3.1":
            raise RuntimeError("HTTP 500")
        return sample(-0.5)

    rig.write(Topic.PROMPTS, [rig.policy(0), issued(0)])
    with rig.generator(Engine(answer)):
        responses = sorted(rig.until(Topic.RESPONSES, 4), key=lambda r: r.slot)
    assert [r.failure for r in responses] == [None, None, Failure.ABORTED, Failure.ENV_FAILED]
    assert responses[3].detail == "the engine raised RuntimeError: HTTP 500" and responses[3].env_failed
    assert responses[2].payload_key is None


def test_a_wrong_number_of_samples_fails_the_slots_and_ends_the_run(services: Services, run_name: str, tmp_path: Path):
    class Short(Engine):
        async def generate(self, requests: Any) -> Any:
            return [sample(-0.5)] * (len(requests) - 1)

    rig = Rig(services, run_name, tmp_path)
    rig.write(Topic.PROMPTS, [rig.policy(0), issued(0), FINISHED])
    with rig.generator(Short(batch=4), until_finished=True) as served:
        served.wait()
    *responses, _ = rig.read(Topic.RESPONSES)
    assert [r.failure for r in responses] == [Failure.ENV_FAILED] * 4
    failed = rig.read(Topic.LEDGER)[-1]
    assert isinstance(failed, e.StageFailed) and "3 samples for 4 requests" in failed.detail
    assert rig.causes(Topic.LEDGER)[-1] == "generator/prompts/0/1/4"


def test_a_nan_logprob_fails_its_response_alone(services: Services, run_name: str, tmp_path: Path):
    rig = Rig(services, run_name, tmp_path)

    def answer(request: SampleRequest) -> Any:
        return sample(-0.1, float("nan") if "/1." in request.response_id else -0.2)

    rig.write(Topic.PROMPTS, [rig.policy(0), issued(0, 2)])
    with rig.generator(Engine(answer, batch=2)):
        responses = sorted(rig.until(Topic.RESPONSES, 2), key=lambda r: r.slot)
    assert [r.failure for r in responses] == [None, Failure.ENV_FAILED]
    assert responses[1].detail == "logprobs[1] is nan; expected at most 0"
    assert rig.store.count_keys() == 1


def test_a_closed_group_is_cancelled_and_leaves_nothing(services: Services, run_name: str, tmp_path: Path):
    rig = Rig(services, run_name, tmp_path)
    engine = Engine(concurrency=3)
    engine.gate.clear()
    rig.write(Topic.PROMPTS, [rig.policy(0), issued(0, 4), issued(1, 1)])
    with rig.generator(engine):
        eventually(lambda: len(engine.ids) == 3, "three samples run")
        rig.write(Topic.PROMPTS, [e.GroupClosed("0@0", 0)])
        eventually(lambda: len(engine.cancelled) == 3, "they are cancelled")
        engine.gate.set()
        responses = rig.until(Topic.RESPONSES, 1)
        eventually(lambda: rig.committed(StageName.GENERATOR)[0] == 4, "all is done")
    assert [r.group_id for r in responses] == ["1@0"]
    assert "0@0/3.1" not in engine.ids and rig.store.count_keys() == 1


def test_a_batch_goes_on_while_anybody_waits_for_part_of_it(services: Services, run_name: str, tmp_path: Path):
    rig = Rig(services, run_name, tmp_path)
    engine = Engine(batch=8)
    engine.gate.clear()
    rig.write(Topic.PROMPTS, [rig.policy(0), issued(0, 4), issued(1, 4)])
    with rig.generator(engine):
        eventually(lambda: len(engine.ids) == 8, "one call has all")
        rig.write(Topic.PROMPTS, [e.GroupClosed("0@0", 0)])
        eventually(lambda: rig.committed(StageName.GENERATOR) == (2, OffsetMetadata(policy=0, done=b"\2")), "closed")
        engine.gate.set()
        responses = rig.until(Topic.RESPONSES, 4)
    assert {r.group_id for r in responses} == {"1@0"} and engine.cancelled == [] and rig.store.count_keys() == 4


def test_a_request_for_what_is_under_way_is_done_at_once(services: Services, run_name: str, tmp_path: Path):
    rig = Rig(services, run_name, tmp_path)
    engine = Engine()
    engine.gate.clear()
    rig.write(Topic.PROMPTS, [rig.policy(0), issued(0, 2), requested(0, [(1, 1)]), requested(0, [(0, 1), (1, 2)])])
    with rig.generator(engine):
        eventually(lambda: len(engine.ids) == 3, "three different slots are asked for")
        engine.gate.set()
        responses = rig.until(Topic.RESPONSES, 3)
    assert sorted((r.slot, r.round) for r in responses) == [(0, 1), (1, 1), (1, 2)]
    assert sorted(rig.causes(Topic.RESPONSES)) == [f"generator/prompts/0/{c}" for c in ("1/0", "1/1", "3/1")]


def test_begun_slots_are_finished_on_their_policy_then_the_newest_is_loaded(
    services: Services, run_name: str, tmp_path: Path
):
    rig = Rig(services, run_name, tmp_path)
    engine = Engine(concurrency=2)
    engine.gate.clear()
    rig.write(Topic.PROMPTS, [rig.policy(0), issued(0, 4)])
    with rig.generator(engine):
        eventually(lambda: len(engine.ids) == 2, "two samples run")
        rig.write(
            Topic.PROMPTS, [rig.policy(1), rig.policy(2), issued(1, 1, min_version=2), issued(2, 1, min_version=3)]
        )
        eventually(lambda: rig.committed(StageName.GENERATOR)[1].policy == 3, "the newest policy is known")
        engine.gate.set()
        rig.until(Topic.RESPONSES, 5)
        rig.write(Topic.PROMPTS, [rig.policy(3)])
        responses = rig.until(Topic.RESPONSES, 6)
    assert engine.loads == [0, 2, 3]
    assert sorted((r.group_id, r.newest_version) for r in responses) == [
        ("0@0", 0), ("0@0", 0), ("0@0", 2), ("0@0", 2), ("1@0", 2), ("2@0", 3)
    ]  # fmt: skip


class Refreshing(Engine):
    """Loads while it samples, and says by spans what its tokens are of: the first of the policy it began with."""

    refreshes = True

    async def generate(self, requests: Any) -> Any:
        begun = self.version
        found = await super().generate(requests)
        return [replace(one, version_spans=((0, 1, begun), (1, 2, self.version))) for one in found]


def test_with_refresh_a_policy_is_loaded_under_what_runs_and_the_spans_are_kept(
    services: Services, run_name: str, tmp_path: Path
):
    rig = Rig(services, run_name, tmp_path)
    engine = Refreshing(concurrency=2)
    engine.gate.clear()
    rig.write(Topic.PROMPTS, [rig.policy(0), issued(0, 2)])
    with rig.generator(engine, refresh=True):
        eventually(lambda: len(engine.ids) == 2, "two samples run")
        rig.write(Topic.PROMPTS, [rig.policy(1)])
        eventually(lambda: engine.loads == [0, 1], "the newest policy is loaded meanwhile")
        engine.gate.set()
        responses = rig.until(Topic.RESPONSES, 2)
    assert [(r.oldest_version, r.newest_version) for r in responses] == [(0, 1)] * 2
    values = rig.store.get_many([r.payload_key for r in responses], [r.payload_bytes for r in responses])
    assert [decode(value or b"").version_spans for value in values] == [((0, 1, 0), (1, 2, 1))] * 2


def test_with_refresh_an_evaluation_keeps_its_policy_to_its_end(services: Services, run_name: str, tmp_path: Path):
    rig = Rig(services, run_name, tmp_path)
    old = rig.policy(0)
    engine = Refreshing(concurrency=4)
    engine.gate.clear()
    rig.write(Topic.PROMPTS, [old, issued(0, 2)])
    with rig.generator(engine, refresh=True):
        eventually(lambda: len(engine.ids) == 2, "training samples run")
        rig.write(Topic.PROMPTS, [evaluation(1, old, 1)])
        eventually(lambda: len(engine.ids) == 3, "and one of an evaluation")
        rig.write(Topic.PROMPTS, [rig.policy(1), issued(2, 1)])
        eventually(lambda: rig.committed(StageName.GENERATOR)[1].policy == 3, "the newest policy is known")
        assert engine.loads == [0]
        engine.gate.set()
        responses = {r.group_id: r for r in rig.until(Topic.RESPONSES, 4)}
    assert engine.loads == [0, 1]
    assert (responses["1@0"].oldest_version, responses["1@0"].newest_version) == (0, 0)
    assert responses["2@0"].oldest_version == 1


class Together(Refreshing):
    """An evaluation and slots 0 end in one turn of the event loop, when `release` is called; the rest with the gate."""

    def __init__(self) -> None:
        super().__init__(concurrency=4)
        self._released = asyncio.Event()

    async def generate(self, requests: Any) -> Any:
        self._loop = asyncio.get_running_loop()
        if not (requests[0].greedy or requests[0].response_id.endswith("/0.1")):
            return await super().generate(requests)
        begun = self.version
        self.asked.append((begun, requests[0]))
        await self._released.wait()
        return [replace(sample(-0.5, -0.25), version_spans=((0, 1, begun), (1, 2, self.version)))]

    def release(self) -> None:
        """From another thread."""
        self._loop.call_soon_threadsafe(self._released.set)


def test_with_refresh_calls_that_end_together_load_a_policy_once(services: Services, run_name: str, tmp_path: Path):
    rig = Rig(services, run_name, tmp_path)
    engine = Together()
    engine.gate.clear()
    old = rig.policy(0)
    rig.write(Topic.PROMPTS, [old, evaluation(0, old, 1), issued(1, 2)])
    with rig.generator(engine, refresh=True):
        eventually(lambda: len(engine.ids) == 3, "an evaluation and two training samples run")
        rig.write(Topic.PROMPTS, [rig.policy(1)])
        eventually(lambda: rig.committed(StageName.GENERATOR)[1].policy == 3, "the newest policy is known")
        engine.release()
        eventually(lambda: 1 in engine.loads, "the newest policy is loaded")
        rig.until(Topic.RESPONSES, 2)
        engine.gate.set()
        rig.until(Topic.RESPONSES, 3)
    assert engine.loads == [0, 1]


def test_with_refresh_a_response_without_spans_is_refused(services: Services, run_name: str, tmp_path: Path):
    rig = Rig(services, run_name, tmp_path)
    engine = Engine()
    engine.gate.clear()
    rig.write(Topic.PROMPTS, [rig.policy(0), issued(0, 1)])
    with rig.generator(engine, refresh=True):
        eventually(lambda: len(engine.ids) == 1, "a sample runs")
        rig.write(Topic.PROMPTS, [rig.policy(1)])
        eventually(lambda: engine.loads == [0, 1], "a policy is loaded under it")
        engine.gate.set()
        (response,) = rig.until(Topic.RESPONSES, 1)
    assert response.failure is Failure.ENV_FAILED
    assert response.detail == (
        "a policy was loaded while it was sampled, and it has no version_spans; expected them under refresh"
    )


def test_a_restarted_generator_finds_its_policy(services: Services, run_name: str, tmp_path: Path):
    rig = Rig(services, run_name, tmp_path)
    rig.write(Topic.PROMPTS, [rig.policy(4), issued(0, 1)])
    with rig.generator(Engine()):
        rig.until(Topic.RESPONSES, 1)
        eventually(lambda: rig.committed(StageName.GENERATOR)[0] == 2, "all is done")
    rig.write(Topic.PROMPTS, [issued(1, 1, min_version=4)])
    engine = Engine()
    with rig.generator(engine):
        responses = rig.until(Topic.RESPONSES, 2)
    assert engine.loads == [4] and responses[1].newest_version == 4


def test_evaluation_prompts_go_first_and_are_answered_by_their_policy_alone(
    services: Services, run_name: str, tmp_path: Path
):
    rig = Rig(services, run_name, tmp_path)
    old, new = rig.policy(1), rig.policy(2)
    engine = Engine(concurrency=2)
    engine.gate.clear()
    rig.write(Topic.PROMPTS, [old, issued(0, 2)])
    with rig.generator(engine):
        eventually(lambda: len(engine.ids) == 2, "training samples run")
        rig.write(Topic.PROMPTS, [new, issued(1, 2), evaluation(2, old, 3)])
        eventually(lambda: rig.committed(StageName.GENERATOR)[1].policy == 2, "the newest policy is known")
        engine.gate.set()
        responses = rig.until(Topic.RESPONSES, 7)
    assert engine.loads == [1, 2]
    assert [(version, request.greedy) for version, request in engine.asked] == [
        *[(1, False)] * 2, *[(1, True)] * 3, *[(2, False)] * 2
    ]  # fmt: skip
    assert {r.newest_version for r in responses if r.purpose is Purpose.EVAL} == {1}


def test_a_policy_file_that_is_gone_is_read_past_but_ends_an_evaluation(
    services: Services, run_name: str, tmp_path: Path
):
    rig = Rig(services, run_name, tmp_path)
    gone, there = rig.policy(0), rig.policy(1)
    (rig.folder / gone.path).unlink()
    engine = Engine()
    rig.write(Topic.PROMPTS, [gone, issued(0, 1)])
    with rig.generator(engine):
        eventually(lambda: rig.committed(StageName.GENERATOR)[1].policy == 0, "the policy is known")
        rig.write(Topic.PROMPTS, [there])
        rig.until(Topic.RESPONSES, 1)
        rig.write(Topic.PROMPTS, [evaluation(1, gone)])
        responses = rig.until(Topic.RESPONSES, 2)
    assert engine.loads == [1]
    assert responses[1].failure is Failure.ENV_FAILED and "is gone" in responses[1].detail
    failures = [event for event in rig.read(Topic.LEDGER) if isinstance(event, e.StageFailed)]
    assert [failure.group_id for failure in failures] == ["1@0"]


def test_a_policy_file_with_other_content_ends_the_run(services: Services, run_name: str, tmp_path: Path):
    rig = Rig(services, run_name, tmp_path)
    policy = rig.policy(0)
    (rig.folder / policy.path).write_bytes(b"something else")
    engine = Engine()
    rig.write(Topic.PROMPTS, [policy, issued(0, 1)])
    with rig.generator(engine):
        failure = rig.until(Topic.LEDGER, 2)[1]
    assert isinstance(failure, e.StageFailed) and policy.sha256 in failure.detail and engine.asked == []


def test_partitions_change_hands_and_nothing_is_lost(services: Services, run_name: str, tmp_path: Path):
    rig = Rig(services, run_name, tmp_path, partitions=2, filter_partitions=2)
    policy = rig.policy(0)
    for partition in (0, 1):
        prompts = [issued(n, 2, partition=partition) for n in range(30)]
        rig.write(Topic.PROMPTS, [policy, *prompts], partition)

    def answer(request: SampleRequest) -> Sample:
        if len(first.asked) >= 10 and not second.asked:
            first.gate.clear()
        return sample(-0.5)

    first, second = Engine(answer, concurrency=2), Engine(concurrency=2)
    with rig.generator(first, "one"):
        rig.until(Topic.RESPONSES, 5)
        with rig.generator(second, "two"):
            eventually(lambda: second.asked, "the second has a partition")
            first.gate.set()
            rig.until(Topic.RESPONSES, 120)
            for partition in (0, 1):
                eventually(lambda p=partition: rig.committed(StageName.GENERATOR, p)[0] == 31, "all is done")
    responses = rig.read(Topic.RESPONSES)
    wanted = {(f"{n}@{p}", slot) for n in range(30) for p in (0, 1) for slot in (0, 1)}
    assert {(r.group_id, r.slot) for r in responses} == wanted
    causes = rig.causes(Topic.RESPONSES)
    doubled = len(causes) - len(set(causes))
    assert doubled <= 4, "only slots of prompts that were under way are done again"


@pytest.mark.slow
def test_with_a_full_bitmap_work_waits_for_the_lowest_record(services: Services, run_name: str, tmp_path: Path):
    rig = Rig(services, run_name, tmp_path)
    count = MAX_DONE + 500
    held = threading.Event()

    class Holding(Engine):
        async def generate(self, requests: Any) -> Any:
            while not held.is_set() and any(r.response_id == "0@0/0.1" for r in requests):
                await asyncio.sleep(0.01)
            return await super().generate(requests)

    engine = Holding(batch=256, concurrency=8)
    rig.write(
        Topic.PROMPTS, [rig.policy(0), issued(0, 1), *[e.PolicyPublished(0, "policy-0", rig.policy(0).sha256, 0)] * 300]
    )
    rig.write(Topic.PROMPTS, [issued(n, 1) for n in range(1, count)])
    with rig.generator(engine):
        able = MAX_DONE - 301 - 255
        eventually(lambda: len(engine.asked) >= able, "all that may start has started", 90)
        assert rig.committed(StageName.GENERATOR)[0] <= 1
        held.set()
        eventually(lambda: rig.committed(StageName.GENERATOR)[0] >= count + 301, "all is done", 90)
    assert len({request.response_id for _, request in engine.asked}) == count
    rig.store.drop([key for keys in rig.store.scan() for key in keys])


def test_a_full_redis_holds_generation_up_and_fails_nothing(
    services: Services, small_redis: Any, run_name: str, tmp_path: Path
):
    server = small_redis(maxmemory=64 * MIB)
    rig = Rig(services, run_name, tmp_path, redis_url=server.address)
    filler = redis.Redis.from_url(server.address)
    for number in range(60):
        try:
            filler.set(f"filler:{number}", b"x" * MIB)
        except redis.exceptions.OutOfMemoryError:
            break
    rest = [key for n in range(4096) if not _refused(filler, key := f"rest:{n}")]
    rig.write(Topic.PROMPTS, [rig.policy(0), issued(0, 8), FINISHED])
    engine = Engine(lambda request: sample(*[-0.5] * 300), concurrency=2)
    with rig.generator(engine, until_finished=True) as served:
        eventually(lambda: served.work.waiting_for_redis, "it waits")
        assert served.exit_code is None and rig.read(Topic.RESPONSES) == []
        filler.delete(*[f"filler:{number}" for number in range(8)], *rest)
        served.wait()
    *responses, _ = rig.read(Topic.RESPONSES)
    assert [r.failure for r in responses] == [None] * 8 and not served.work.waiting_for_redis
    assert len(engine.asked) == 8
    filler.close()


def test_one_payload_that_never_fits_fails_and_the_others_go_on(
    services: Services, small_redis: Any, run_name: str, tmp_path: Path
):
    server = small_redis(maxmemory=64 * MIB)
    rig = Rig(services, run_name, tmp_path, redis_url=server.address, payload={"budget": "20MB", "max": "4MB"})
    huge = Sample(array("i", bytes(4 * 4_000_000)), array("f", [-0.5]) * 4_000_000, "x")
    rig.write(Topic.PROMPTS, [rig.policy(0), issued(0, 21), requested(0, [(7, 2)]), FINISHED])
    engine = Engine(lambda request: huge if request.response_id == "0@0/7.1" else sample(*[-0.5] * 300), batch=4)
    with rig.generator(engine, until_finished=True) as served:
        served.wait()
    *responses, _ = rig.read(Topic.RESPONSES)
    failed = [r for r in responses if r.failure]
    assert len(responses) == 22 and [(r.slot, r.round, r.failure) for r in failed] == [(7, 1, Failure.TOO_LONG)]
    assert failed[0].detail.startswith("a payload of 36000")
    assert rig.store.count_keys() == 21


def test_an_unreadable_prompt_goes_to_the_dead_letters(services: Services, run_name: str, tmp_path: Path):
    rig = Rig(services, run_name, tmp_path)
    rig.write(
        Topic.PROMPTS, [rig.policy(0), b"junk", None, e.StopRequested("me", 0), issued(0, 1, task=b"{}"), FINISHED]
    )
    with rig.generator(Engine(), until_finished=True) as served:
        served.wait()
    letters = rig.read(Topic.DEAD_LETTERS)
    assert [(letter.offset, letter.reason) for letter in letters] == [
        (1, DeadLetterReason.NO_MARKER), (2, DeadLetterReason.NULL_VALUE), (3, DeadLetterReason.WRONG_TOPIC)
    ]  # fmt: skip
    assert rig.causes(Topic.DEAD_LETTERS) == [f"generator/prompts/0/{offset}/0" for offset in (1, 2, 3)]
    response, _ = rig.read(Topic.RESPONSES)
    assert response.failure is Failure.ENV_FAILED and "these bytes hold no task" in response.detail


def test_offsets_that_are_gone_stop_the_generator(services: Services, run_name: str, tmp_path: Path):
    rig = Rig(services, run_name, tmp_path)
    delete_group(rig, StageName.GENERATOR)
    gone = f"offsets of group tamis.{run_name}.generator are gone; run tamis recover"
    with pytest.raises(Stop, match=gone), rig.generator(Engine()) as served:
        served.wait()


def _refused(client: Any, key: str) -> bool:
    try:
        client.set(key, b"x" * 4096)
    except redis.exceptions.OutOfMemoryError:
        return True
    return False


def delete_group(rig: Rig, stage: StageName) -> None:
    name = group_name(rig.run, stage)
    with using(admin_client(rig.connection)) as admin:
        admin.delete_consumer_groups([name])[name].result(10)


@pytest.mark.faults
def test_a_redis_that_hangs_holds_up_neither_polling_nor_the_stop(
    services: Services, small_redis: Any, run_name: str, tmp_path: Path
):
    server = small_redis(maxmemory=64 * MIB)
    rig = Rig(services, run_name, tmp_path, redis_url=server.address)
    rig.write(Topic.PROMPTS, [rig.policy(0)])
    process = rig.process("generator")
    eventually(lambda: rig.committed(StageName.GENERATOR)[0] == 1, "the policy is taken")
    server.pause()
    try:
        rig.write(Topic.PROMPTS, [issued(0), e.GroupClosed("7@0", 0)])
        eventually(lambda: rig.committed(StageName.GENERATOR)[1].done, "what needs no Redis goes on")
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
    finally:
        server.resume()
    assert rig.read(Topic.RESPONSES) == []
