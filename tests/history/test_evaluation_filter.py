"""Evaluations are unfiltered; where it is asked for, what the filters would keep of them is reported beside."""

from __future__ import annotations

from typing import Any

from pipeline.domain import events as e
from pipeline.domain.filters.variance import zero_std
from pipeline.history.reports.report import render
from pipeline.history.view import RunView
from pipeline.log.codec import Members

from .drive import CONFIG, Drive


def viewed(evaluation: dict[str, Any]) -> tuple[RunView, list[e.GroupEvaluated]]:
    view, groups = RunView(), []
    for record in Drive({"evaluation": CONFIG["evaluation"] | evaluation}).run():
        event = record.event()
        view.note(record.timestamp_ms, record.topic, event)
        groups += [event] if isinstance(event, e.GroupEvaluated) else []
    return view, groups


def test_all_groups_count_and_those_kept_are_told_beside() -> None:
    view, groups = viewed({"samples": 2, "filter": True})
    rule = zero_std(CONFIG["domains"][0]["filters"][0])
    for row in view.progress.evaluations:
        (mine, filtered) = [g for g in groups if g.eval.version == row.version], row.filtered
        assert filtered is not None and len(mine) == row.groups
        kept = [g for g in mine if rule(Members().decode(g.members)).reason is None and not g.failed]
        assert (filtered.accepted, filtered.rejected) == (len(kept), len(mine) - len(kept))
    assert sum(row.filtered.rejected for row in view.progress.evaluations if row.filtered) > 0
    assert "accuracy of those kept" in render(view)


def test_without_it_nothing_is_told() -> None:
    view, _ = viewed({"samples": 2})
    assert [row.filtered for row in view.progress.evaluations] and not view.progress.evaluation_filter.chains
    assert all(row.filtered is None for row in view.progress.evaluations)
    assert "accuracy of those kept" not in render(view)
