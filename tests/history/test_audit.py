"""A whole run passes the audit; a log that was tampered with doesn't, and the invariant is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pipeline.domain import events as e
from pipeline.domain.topology import Topic
from pipeline.domain.vocabulary import DropReason, Purpose
from pipeline.history.audits.audit import Audit, audit
from pipeline.history.records import MemoryLog
from pipeline.log.cause import CAUSE
from pipeline.log.codec import Members, encode
from pipeline.log.reader import Record

from .drive import Drive

Check = Callable[..., Audit]
Find = Callable[..., Record]


class Store:
    def __init__(self, keys: int) -> None:
        self.keys = keys

    def count_keys(self, partition: int | None = None) -> int:
        return self.keys


def without(drive: Drive, record: Record) -> list[Record]:
    return [r for r in drive.records if r is not record]


def with_instead(drive: Drive, record: Record, event: e.Event) -> list[Record]:
    return [replace(r, value=encode(event)) if r is record else r for r in drive.records]


def with_copy(drive: Drive, record: Record, cause: str) -> list[Record]:
    """One more record at the end of the same partition."""
    return [*drive.records, replace(record, offset=10**6, headers=[(CAUSE, cause.encode())])]


def names(found: Audit) -> set[str]:
    return {sentence.split(" ")[0].rstrip(":") for sentence in found.violations}


def test_a_whole_run_keeps_every_invariant(drive: Drive, check: Check) -> None:
    found = check(drive.records, store=Store(0))
    assert found.violations == []
    assert found.pending == []
    assert found.drained
    assert found.checked["keys generated"] == found.checked["keys dropped"] > 50
    assert found.checked["batches"] == 4
    assert found.checked["outputs compared"] > 200


@pytest.mark.parametrize("turns", [0, 1, 3, 8, 13, 15])
def test_what_a_live_run_owes_is_pending(turns: int) -> None:
    drive = Drive()
    drive.run(turns)
    found = audit(MemoryLog(drive.records), drive.started, Members(), Store(7))
    assert found.violations == []
    assert any(sentence.startswith("I1 the run has 0 RunFinished") for sentence in found.pending)
    assert any("7 keys" in sentence for sentence in found.pending)


def test_a_group_that_ends_twice_breaks_i1(drive: Drive, check: Check, find: Find) -> None:
    found = check(with_copy(drive, find(e.GroupRejected), "who/knows/1"))
    assert "I1" in names(found)


def test_a_group_without_an_end_breaks_i1(drive: Drive, check: Check, find: Find) -> None:
    found = check(without(drive, find(e.GroupEvaluated)))
    assert {"I1", "I4", "I6"} <= names(found)


def test_an_accepted_group_with_a_slot_twice_breaks_i2(drive: Drive, check: Check, find: Find) -> None:
    record = find(e.GroupAccepted)
    accepted = record.event()
    assert isinstance(accepted, e.GroupAccepted)
    members = Members().decode(accepted.members)
    doubled = Members().encode((members[0], members[0], *members[2:]))
    found = check(with_instead(drive, record, replace(accepted, members=doubled)))
    assert {"I2", "I6"} <= names(found)


def test_a_group_accepted_for_another_prompt_breaks_i2(drive: Drive, check: Check, find: Find) -> None:
    record = find(e.GroupAccepted)
    accepted = record.event()
    assert isinstance(accepted, e.GroupAccepted)
    found = check(with_instead(drive, record, replace(accepted, prompt=e.PromptRef("other", "sort", 9, 9))))
    assert any(s.startswith("I2") and "accepted for other" in s for s in found.violations)


def test_a_rejection_without_an_answer_breaks_i3(drive: Drive, check: Check, find: Find) -> None:
    record = find(e.GroupOpened, lambda opened: opened.task is None and opened.replaces is not None)
    opened = record.event()
    assert isinstance(opened, e.GroupOpened)
    found = check(with_instead(drive, record, replace(opened, replaces=None)))
    assert "I3" in names(found)


def test_a_rejection_with_two_answers_breaks_i3(drive: Drive, check: Check, find: Find) -> None:
    found = check(with_copy(drive, find(e.ReplacementWaived), "who/knows/1"))
    assert "I3" in names(found)


def test_a_key_that_is_never_dropped_breaks_i4(drive: Drive, check: Check, find: Find) -> None:
    record = find(e.PayloadsDropped)
    found = check(without(drive, record))
    assert any(s.startswith("I4") and "never dropped" in s for s in found.violations)


def test_a_drop_for_the_wrong_cause_breaks_i4(drive: Drive, check: Check, find: Find) -> None:
    record = find(e.PayloadsDropped, lambda dropped: dropped.reason == "trained")
    wrong = replace(record, headers=[(CAUSE, b"reaper/ledger/0/0/40")])
    found = check([wrong if r is record else r for r in drive.records])
    assert any(s.startswith("I4") and "is not the group's end" in s for s in found.violations)


def test_a_response_dropped_for_another_ones_discard_breaks_i4(drive: Drive, check: Check, find: Find) -> None:
    record = find(e.PayloadsDropped, lambda dropped: dropped.reason == "discarded")
    dropped = record.event()
    assert isinstance(dropped, e.PayloadsDropped)
    found = check(with_instead(drive, record, replace(dropped, keys=("tamis:t:{0@0}:0.1:ff",))))
    assert any(s.startswith("I4") and "discards tamis:t:" in s for s in found.violations)


def test_a_sweep_may_drop_what_nobody_named(drive: Drive, check: Check, find: Find) -> None:
    record = find(e.PayloadsDropped, lambda dropped: dropped.reason == "discarded")
    dropped = record.event()
    assert isinstance(dropped, e.PayloadsDropped)
    swept = e.PayloadsDropped(dropped.group_id, (dropped.keys[0], "tamis:t:{1@0}:0.1:ff"), DropReason.SWEPT, 0)
    extra = replace(record, offset=10**6, value=encode(swept), headers=[(CAUSE, b"reaper/here/1")])
    assert check([*drive.records, extra]).violations == []


def test_keys_left_in_redis_break_i4(drive: Drive, check: Check) -> None:
    found = check(drive.records, store=Store(3))
    assert found.violations == ["I4 3 keys are left under the run's prefix in Redis"]


def test_a_batch_trained_twice_breaks_i5(drive: Drive, check: Check, find: Find) -> None:
    found = check(with_copy(drive, find(e.BatchTrained), "who/knows/1"))
    assert "I5" in names(found)


def test_a_batch_without_a_checkpoint_breaks_i5(drive: Drive, check: Check, find: Find) -> None:
    found = check(without(drive, find(e.CheckpointSaved, lambda saved: saved.batches)))
    assert "I5" in names(found)


@pytest.mark.parametrize(
    "kind",
    [e.PromptIssued, e.GroupOpened, e.GroupAssembled, e.GroupAccepted, e.BatchFormed, e.ResponseDiscarded,
     e.EvaluationStarted, e.PolicyPublished, e.PayloadsDropped],
)  # fmt: skip
def test_one_altered_decision_breaks_i6(drive: Drive, check: Check, find: Find, kind: type[e.Event]) -> None:
    record = find(kind)
    found = check(with_instead(drive, record, replace(record.event(), at=1)))  # type: ignore[type-var]
    assert any(s.startswith("I6") and "at: expected" in s and s.endswith("got 1") for s in found.violations)


@pytest.mark.parametrize("kind", [e.PromptIssued, e.GroupClosed, e.GroupAssembled, e.Tick, e.ResponseDiscarded])
def test_one_missing_output_breaks_i6(drive: Drive, check: Check, find: Find, kind: type[e.Event]) -> None:
    record = find(kind, lambda event: not (isinstance(event, e.Tick) and event.run_ms is None))
    found = check(without(drive, record))
    assert any(s.startswith("I6") for s in found.violations)


def test_an_output_in_the_wrong_partition_breaks_i6(drive: Drive, check: Check, find: Find) -> None:
    record = find(e.PolicyPublished)
    moved = replace(record, partition=1 - record.partition, offset=10**6)
    found = check([moved if r is record else r for r in drive.records])
    assert any(s.startswith("I6 scheduler at ledger/0/") and "PolicyPublished" in s for s in found.violations)


def test_another_key_breaks_i6(drive: Drive, check: Check, find: Find) -> None:
    record = find(e.GroupAssembled)
    found = check([replace(r, key=b"") if r is record else r for r in drive.records])
    assert any(s.startswith("I6") and "key: expected" in s for s in found.violations)


def test_a_doubled_record_breaks_i6_and_has_no_cause_of_its_own(drive: Drive, check: Check, find: Find) -> None:
    record = find(e.GroupClosed)
    found = check(with_copy(drive, record, record.cause or ""))
    assert {"I6", "cause"} <= names(found)


def test_a_slot_that_a_generator_does_again_may_have_the_same_cause(drive: Drive, check: Check, find: Find) -> None:
    record = find(e.ResponseGenerated)
    assert "cause" not in names(check(with_copy(drive, record, record.cause or "")))


def test_a_fact_written_twice_has_no_cause_of_its_own(drive: Drive, check: Check, find: Find) -> None:
    record = find(e.Tick, lambda tick: tick.run_ms is None)
    found = check([*drive.records, replace(record, offset=10**6)])
    assert "cause" in names(found)


def test_more_groups_ahead_than_the_lead_allows_break_i7(drive: Drive, check: Check, find: Find) -> None:
    record = find(e.GroupOpened, lambda opened: opened.purpose is Purpose.TRAIN and opened.task is None)
    opened = record.event()
    assert isinstance(opened, e.GroupOpened)
    first = find(e.GroupOpened, lambda o: o.purpose is Purpose.TRAIN and o.task is None)
    more = [
        replace(
            first,
            offset=first.offset + 1,
            value=encode(replace(opened, group_id=f"{1000 + i}@0")),
            headers=[(CAUSE, b"who/knows/%d" % i)],
        )
        for i in range(17)
    ]
    found = check([*drive.records, *more])
    assert "I7" in names(found)


def test_an_unreadable_record_of_nobody_is_counted(drive: Drive, check: Check) -> None:
    junk = Record(Topic.RESPONSES, 0, 10**6, drive.now, None, (), b"junk")
    found = check([*drive.records, junk])
    assert found.checked["unreadable"] == 1
    assert found.violations == []
