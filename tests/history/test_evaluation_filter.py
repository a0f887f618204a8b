"""Evaluations are unfiltered; where it is asked for, what the filters would keep of them is reported beside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pipeline.config import canonical, parse
from pipeline.domain import events as e
from pipeline.domain.filters.variance import zero_std
from pipeline.domain.vocabulary import FinishReason, Grading
from pipeline.history.evaluation_filter import EvaluationFilter, Filtered
from pipeline.history.reports.report import render
from pipeline.history.view import RunView
from pipeline.log.codec import Members

from .drive import CONFIG, Drive


def viewed(evaluation: dict[str, Any], **rest: Any) -> tuple[RunView, list[e.GroupEvaluated]]:
    view, groups = RunView(), []
    for record in Drive({"evaluation": CONFIG["evaluation"] | evaluation} | rest).run():
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


PREDICATES = [
    {"type": "truncated"},
    {"type": "invalid_format", "pattern": "answer"},
    {"type": "min_tokens", "value": 5},
    {"type": "max_tokens", "value": 8},
    {"type": "custom", "factory": "nowhere:at_all", "options": {}},
]


def test_responses_that_the_response_filter_would_refuse_are_counted_and_what_cant_be_told_is_named() -> None:
    view, groups = viewed({"samples": 2, "filter": True}, response_filter=PREDICATES)
    asked, refused = 0, 0
    for row in view.progress.evaluations:
        found = row.filtered
        mine = [m for g in groups if g.eval.version == row.version for m in Members().decode(g.members)]
        tokens = [m.response_tokens for m in mine if m.reward is not None]
        short, long = len([t for t in tokens if t < 5]), len([t for t in tokens if t > 8])
        assert found is not None and found.responses == len(tokens)
        assert found.refused == {n: many for n, many in (("min_tokens", short), ("max_tokens", long)) if many}
        assert found.passed == len(tokens) - short - long
        asked, refused = asked + found.responses, refused + short + long
    assert 0 < refused < asked
    html = render(view)
    page = html[: html.index("<script>")]
    assert "refused by the response filter" in page and "(min_tokens " in page
    assert "Of the response filter, invalid_format, custom can't be told here" in page.replace("&#39;", "'")


def test_the_first_predicate_that_refuses_counts_and_what_nobody_judged_is_not_asked() -> None:
    plugin = {"factory": "somewhere:Something"}
    tree = {
        "run": "r", "steps": 10, "prompts": plugin, "eval_prompts": plugin | {"options": {"held": "out"}},
        "engine": plugin, "learner": plugin, "domains": {"math": {"quota": 4}}, "payload": {"budget": "1GB"},
        "evaluation": {"filter": True, "samples": 2}, "response_filter": PREDICATES,
    }  # fmt: skip
    counts, asked = Filtered(), EvaluationFilter()
    asked.begin(canonical(parse(tree)))
    assert [name for name, _ in asked.predicates] == ["truncated", "min_tokens", "max_tokens"]
    assert asked.unasked == ["invalid_format", "custom"]
    member = e.Member(
        0, 1, "key", 100, 0.0, 0.0, 0.0, {}, None, Grading.GRADED, None, FinishReason.LENGTH, False, False, False, 5, 9,
        0, 0, "g",
    )  # fmt: skip
    members = [member, replace(member, finish_reason=FinishReason.STOP), replace(member, reward=None)]
    counts.count_responses(members, asked.predicates)
    assert (counts.responses, counts.refused, counts.passed) == (2, {"truncated": 1, "max_tokens": 1}, 0)


def test_without_a_response_filter_nothing_is_told_of_responses() -> None:
    view, _ = viewed({"samples": 2, "filter": True})
    assert "refused by the response filter" not in render(view)


def test_without_it_nothing_is_told() -> None:
    view, _ = viewed({"samples": 2})
    assert [row.filtered for row in view.progress.evaluations] and not view.progress.evaluation_filter.chains
    assert all(row.filtered is None for row in view.progress.evaluations)
    assert "accuracy of those kept" not in render(view)
