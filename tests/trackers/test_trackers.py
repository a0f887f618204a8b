"""Trackers get a row for each step and each evaluation, the same at every start."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tensorboardX.proto import event_pb2

from pipeline.config import ConfigError, load_settings
from pipeline.domain.topology import Topic
from pipeline.history.view import RunView
from pipeline.trackers import Rows, open_trackers
from tests.history.drive import Drive


@pytest.fixture(scope="module")
def drive() -> Drive:
    made = Drive()
    made.run()
    return made


def rows_of(drive: Drive) -> list[tuple[int, Mapping[str, float]]]:
    view, rows = RunView(), Rows()
    for record in drive.records:
        event = record.event()
        view.note(record.timestamp_ms, record.topic, event)
        if record.topic is Topic.LEDGER:
            rows.note(view, event)
    return [tuple(row) for row in rows.take()]


def test_every_step_and_every_evaluation_is_a_row(drive: Drive) -> None:
    rows = rows_of(drive)
    assert [step for step, values in rows if "step/seconds" in values] == [1, 2, 3, 4]
    assert [step for step, values in rows if "eval/accuracy" in values] == [0, 2, 4]
    last = next(values for step, values in reversed(rows) if "step/seconds" in values)
    assert last["groups/rejected"] == last["scheduler/group_filter_count"] > 0
    assert "rollout/dynamic_filter/drop_zero_std_0.0" in last and "train/loss" in last


def test_jsonl_and_tensorboard_hold_each_row_once_also_after_a_restart(drive: Drive, tmp_path: Path) -> None:
    rows = rows_of(drive)
    for _ in range(2):
        for tracker in open_trackers(("jsonl", "tensorboard"), tmp_path, "t", {"seed": 7}):
            for step, values in rows:
                tracker.log(step, values)
            tracker.close()
    lines = [json.loads(line) for line in (tmp_path / "jsonl" / "metrics.jsonl").read_text().splitlines()]
    assert lines == [{"step": step, **values} for step, values in rows]
    (events,) = (tmp_path / "tensorboard").iterdir()
    found = scalars(events.read_bytes())
    wanted = [(step, name) for step, values in rows for name in values]
    assert sorted((step, name) for step, name, _ in found) == sorted(wanted)


def test_wandb_gets_every_row(drive: Drive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    (tracker,) = open_trackers(("wandb",), tmp_path, "t", {"seed": 7})
    rows = rows_of(drive)
    for step, values in rows:
        tracker.log(step, values)
    seen = dict(tracker._run.summary)  # type: ignore[attr-defined]
    tracker.close()
    assert seen["step"] == rows[-1][0] and seen["eval/accuracy"] == rows[-1][1]["eval/accuracy"]
    assert list((tmp_path / "wandb").rglob("run-t.wandb"))


def test_a_missing_package_is_named_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tensorboardX", None)
    with pytest.raises(ConfigError, match=r"TAMIS_TRACKERS: tensorboard needs .* pip install 'tamis\[tensorboard\]'"):
        open_trackers(("tensorboard",), tmp_path, "t", {})


def test_trackers_are_named_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAMIS_TRACKERS", "jsonl, wandb")
    assert load_settings().trackers == ("jsonl", "wandb")
    monkeypatch.setenv("TAMIS_TRACKERS", "jsonl,mlflow")
    with pytest.raises(ConfigError, match=r"TAMIS_TRACKERS.*expected 'jsonl', 'tensorboard' or 'wandb'"):
        load_settings()


def scalars(data: bytes) -> list[tuple[int, str, float]]:
    """The points in an event file: records of length, its checksum, an Event, its checksum."""
    found, at = list[tuple[int, str, float]](), 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 8], "little")
        event: Any = event_pb2.Event.FromString(data[at + 12 : at + 12 + size])
        found += [
            (event.step, value.tag, value.simple_value)
            for value in event.summary.value
            if value.tag != "config/text_summary"
        ]
        at += 12 + size + 4
    return found
