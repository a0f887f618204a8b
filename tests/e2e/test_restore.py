"""Real stages go on after a restart as if nothing had happened: with a snapshot, without one, with one that nobody can
read, and after their consumer groups were deleted. The audit replays every decision from the log."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition

from pipeline.domain import events as e
from pipeline.domain.topology import PURE_STAGES, StageName, Topic, snapshot_partition
from pipeline.domain.vocabulary import DropReason
from pipeline.log.admin import commit_offsets
from pipeline.log.client import admin_client, using
from pipeline.log.codec import encode
from pipeline.log.errors import Stop
from pipeline.log.metadata import parse_metadata
from pipeline.log.recover import recover_run
from pipeline.log.topics import group_name
from tests.e2e.harness import ROLES, Run, committed

pytestmark = [pytest.mark.e2e, pytest.mark.faults]

MIXED = {
    "steps": 4,
    "prompts": {"factory": "tests.e2e.plugins:Numbers", "options": {"every": {"4": "constant"}}},
    "partitions": 2,
}
WITH_STATE = tuple(stage for stage in PURE_STAGES if stage is not StageName.DISCARD_REAPER)


def halfway(run: Run) -> None:
    """Run it up to the middle, with groups open, accepted and in a batch, and stop everything in order."""
    run.hold("train-3")
    first = run.start(*ROLES, until_finished=False)
    run.reached("train-3")
    run.until_event(e.PayloadsDropped, 4, Topic.DROPS, lambda event: event.reason is DropReason.TRAINED)
    first.signal(signal.SIGTERM)
    run.release("train-3")
    assert first.wait() == 0, first.tail()


def test_every_stage_goes_on_from_its_snapshot(make_run: Callable[..., Run]):
    run = make_run(**MIXED)
    halfway(run)
    for stage in WITH_STATE:
        for place in committed(run, stage):
            assert parse_metadata(place.metadata).snap is not None, f"{stage} left no snapshot"
    run.ended_well(run.start(*ROLES))
    run.finish()


def test_a_null_on_snapshots_means_none_and_is_no_dead_letter(make_run: Callable[..., Run]):
    run = make_run(**MIXED)
    halfway(run)
    for stage in WITH_STATE:
        for place in committed(run, stage):
            at = snapshot_partition(stage, place.partition, run.rules)
            run.write_raw(Topic.SNAPSHOTS, None, f"{stage}/{place.partition}/0".encode(), at)
    run.ended_well(run.start(*ROLES))
    run.finish()
    assert run.log[Topic.DEAD_LETTERS] == []


def test_every_stage_goes_on_without_a_snapshot(make_run: Callable[..., Run]):
    run = make_run(**MIXED)
    run.hold("train-3")
    first = run.start(*ROLES)
    run.reached("train-3")
    first.kill()
    run.release("train-3")
    for stage in WITH_STATE:
        for place in committed(run, stage):
            assert parse_metadata(place.metadata).snap is None
    run.ended_well(run.start(*ROLES))
    run.finish()


def test_every_stage_goes_on_with_a_snapshot_that_it_cannot_read(make_run: Callable[..., Run]):
    run = make_run(**MIXED)
    halfway(run)
    run.read_to_end()
    newest = {record.partition: record for record in run.log[Topic.SNAPSHOTS]}
    for partition, record in newest.items():
        chunk = record.event()
        assert isinstance(chunk, e.SnapshotChunk)
        other = replace(chunk, fingerprint=bytes(8), body=b"of another release")
        run.write_raw(Topic.SNAPSHOTS, encode(other), record.key, partition)
    run.read_to_end()
    unknown = {record.partition: record.offset for record in run.log[Topic.SNAPSHOTS]}
    assert all(unknown[partition] > record.offset for partition, record in newest.items())
    for stage in WITH_STATE:
        places = [_with_snap(place, unknown, stage, run) for place in committed(run, stage)]
        run.until(lambda stage=stage, places=places: _tried(run, stage, places), f"{stage}'s session to end")
    host = run.start(*ROLES)
    run.finish()
    run.ended_well(host)
    assert host.log.read_text().count("its state has another shape") == len(unknown)


def _with_snap(place: TopicPartition, unknown: dict[int, int], stage: StageName, run: Run) -> TopicPartition:
    snap = unknown[snapshot_partition(stage, place.partition, run.rules)]
    return TopicPartition(
        "", place.partition, place.offset, replace(parse_metadata(place.metadata), snap=snap).format()
    )


def _tried(run: Run, stage: StageName, places: list[TopicPartition]) -> bool:
    try:
        commit_offsets(run.connection, stage, places)
    except Stop:
        return False
    return True


def test_deleted_groups_stop_every_consumer_and_recover_brings_them_back(make_run: Callable[..., Run]):
    run = make_run(**MIXED)
    halfway(run)
    before = {stage: [p.offset for p in committed(run, stage)] for stage in StageName}
    for stage in StageName:
        run.until(lambda stage=stage: _deleted(run, stage), f"{stage}'s session to end")
    for role in ROLES:
        host = run.start(role)
        assert host.wait() == Stop.exit_code
        assert host.said(f"offsets of group tamis.{run.name}.{role} are gone; run tamis recover {run.name}"), (
            host.tail()
        )
    run.until(lambda: _recovered(run), "the sessions to end")
    recovered = {stage: [p.offset for p in committed(run, stage)] for stage in StageName}
    assert min(offset for offsets in recovered.values() for offset in offsets) >= 0
    for stage in PURE_STAGES:
        assert all(found <= was for found, was in zip(recovered[stage], before[stage], strict=True)), stage
    assert recover_run(run.connection, run.rules) == {}
    host = run.start(*ROLES)
    run.finish()
    run.ended_well(host)


def _deleted(run: Run, stage: StageName) -> bool:
    with using(admin_client(run.connection)) as admin:
        asked = admin.delete_consumer_groups([group_name(run.name, stage)])
        try:
            for future in asked.values():
                future.result(20)
        except Exception as error:
            assert "empty" in str(error).lower(), error
            return False
    return True


def _recovered(run: Run) -> bool:
    try:
        recover_run(run.connection, run.rules)
    except Stop:
        return False  # a process that has just ended still counts as a member
    return True
