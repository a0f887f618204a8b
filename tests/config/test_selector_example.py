"""examples/selector.py: a selection of a user's own, by its dotted path."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from pathlib import Path

import pytest

from pipeline.config import ConfigError, canonical, load, parse_canonical, resolve_budget, source_hashes
from pipeline.domain import events as e
from pipeline.domain.rules import Rules, rules_of
from pipeline.domain.window_batching import batcher
from pipeline.plugins import selectors
from tests.domain.given import MEMBERS, Feed, accepted, only

PLUGINS = ("prompts", "engine", "learner")
EXAMPLE = Path(__file__).parents[2] / "examples" / "selector.yaml"


@pytest.fixture
def rules() -> Rules:
    config = resolve_budget(load(EXAMPLE, ["selection.window=4", "selection.options.keep=2"]), 2**36)
    text = canonical(config)
    assert canonical(parse_canonical(text)) == text
    assert "examples.selector:HalfSolved" in source_hashes(config.model_copy(update=dict.fromkeys(PLUGINS)))
    return rules_of(text)


def test_it_keeps_what_is_nearest_to_half_solved_and_weighs_it(rules: Rules) -> None:
    feed, outputs = Feed(batcher(rules, MEMBERS, selectors(rules))), list[e.Event]()
    for n, mean in enumerate((0.125, 0.5, 1.0, 0.75)):
        group = accepted(f"{n}@0", "maths")
        outputs += feed(replace(group, scores=replace(group.scores, reward_mean=mean)))
    (batch,) = only(outputs, e.BatchFormed)
    assert [(g.group_id, g.weight) for g in batch.groups] == [("1@0", 1.0), ("3@0", 0.75)]
    assert (batch.candidates, batch.loss_scale) == (4, sqrt(0.5))
    assert [d.group_id for d in only(outputs, e.GroupDeselected)] == ["0@0", "2@0"]


@pytest.mark.parametrize(
    ("factory", "why"),
    [
        ("examples.selector:HalfSolvd", "did you mean 'HalfSolved'"),
        ("examples.selector:HalfSolved", "raised KeyError"),
        ("operator:eq", "expected something to call"),
    ],
)
def test_what_is_no_selector_is_refused_with_its_place(rules: Rules, factory: str, why: str) -> None:
    assert rules.selection is not None and rules.selection.custom is not None
    args = {**rules.selection.custom.args, "factory": factory, "options": {}}
    rule = replace(rules.selection.custom, args=args)
    with pytest.raises(ConfigError, match=why) as caught:
        selectors(rules)(rule)
    assert caught.value.problems[0].path == ("selection", "factory")
