"""The life of a group reads as it happened."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipeline.domain import events as e
from pipeline.history.records import MemoryLog
from pipeline.history.trace import trace, trace_run
from pipeline.log.reader import Record

from .drive import Drive

Find = Callable[..., Record]


def texts(drive: Drive, group: str) -> list[str]:
    return [line.text for line in trace_run(MemoryLog(drive.records), group)]


def test_a_trained_group_is_told_from_its_prompt_to_its_dropped_payloads(drive: Drive, find: Find) -> None:
    formed = find(e.BatchFormed).event()
    assert isinstance(formed, e.BatchFormed)
    lines = texts(drive, formed.groups[0].group_id)
    told = [
        "opened for prompt train-0-0 (sort",
        "slot 0 by generator-",
        "slot 0 judged in",
        "assembled after 1.1 s: rewards",
        "accepted by zero_std, measured 0.5774",
        "in batch 1 of 4 groups, to follow policy 0: staleness 0",
        "batch 1 trained: policy 1",
        "checkpoint of policy 2 covers batch 1",
        "3 payloads dropped: trained",
    ]
    places = [next(i for i, line in enumerate(lines) if line.startswith(start)) for start in told]
    assert places == sorted(places)


def test_a_rejected_group_says_why_and_who_answers_it(drive: Drive, find: Find) -> None:
    rejected = find(e.GroupRejected).event()
    assert isinstance(rejected, e.GroupRejected)
    lines = texts(drive, rejected.group_id)
    successor = find(e.GroupOpened, lambda opened: opened.replaces == rejected.group_id).event()
    assert isinstance(successor, e.GroupOpened)
    assert lines[0] == f"lineage: {rejected.group_id} → {successor.group_id}"
    assert any(
        line.startswith("rejected: zero_std (low_information)") and "all 3 members had" in line for line in lines
    )
    assert any(line.startswith(f"answered by group {successor.group_id}") for line in lines)
    assert any(f"replaces {rejected.group_id}, attempt 2" in line for line in texts(drive, successor.group_id))


def test_times_count_from_the_opening_and_never_fall(drive: Drive) -> None:
    lines = trace("3@0", drive.records)
    assert lines[0].after_s == 0.0
    assert [line.after_s for line in lines] == sorted(line.after_s for line in lines)


def test_a_group_that_the_log_does_not_know_has_no_life(drive: Drive) -> None:
    assert trace("999@0", drive.records) == []


def test_what_is_no_group_is_refused(drive: Drive) -> None:
    with pytest.raises(ValueError, match="such as 12@0"):
        trace_run(MemoryLog(drive.records), "twelve")
