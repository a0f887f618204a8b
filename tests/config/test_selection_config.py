"""The section `selection`: its defaults, what is recorded of it, and what is refused or warned about."""

import json

import pytest

from pipeline.config import canonical, cautions, parse_canonical, resolve_budget, source_hashes
from pipeline.config.selection import CustomSelection, Ranked
from pipeline.domain.rules import rules_of
from pipeline.domain.selection import SelectionRules

GIB = 2**30
CUSTOM = {"type": "custom", "factory": "json:loads"}


@pytest.fixture
def rules(config):
    return lambda **changes: rules_of(canonical(resolve_budget(config(**changes), 64 * GIB)))


def names(found):
    return [problem.name for problem in found]


def test_without_the_section_nothing_is_selected_or_recorded(config, rules):
    assert config().selection is None and rules().selection is None
    assert "selection" not in json.loads(canonical(resolve_budget(config(), 64 * GIB)))


def test_the_least_section_keeps_all_and_looks_at_a_batch_at_once(rules):
    settings = rules(selection={}).selection
    assert settings.ranked == SelectionRules()
    assert (settings.window, settings.refill, settings.loss_rescale, settings.soft_weights) == (4, True, "none", False)
    assert settings.variance_stop and settings.custom is None


def test_the_type_may_be_given_and_custom_code_named(config, rules):
    assert config(selection={"type": "ranked"}) == config(selection={})
    assert isinstance(config(selection={}).selection, Ranked)
    made = config(selection=CUSTOM)
    assert isinstance(made.selection, CustomSelection)
    ours = made.model_copy(update=dict.fromkeys(("prompts", "engine", "learner"), made.selection))
    assert source_hashes(ours).keys() == {"json:loads"}
    custom = rules(selection=CUSTOM | {"on_error": "raise", "window": 9}).selection.custom
    assert (custom.args["factory"], custom.args["on_error"]) == ("json:loads", "raise")


@pytest.mark.parametrize("section", [{"value": 0.9, "include_zero": False}, CUSTOM | {"options": {"a": [1, 2.5]}}])
def test_it_is_read_again_from_the_record_alone(config, section):
    text = canonical(resolve_budget(config(selection=section), 64 * GIB))
    assert canonical(parse_canonical(text)) == text


def test_a_window_and_a_batch_that_lacks_one_make_up_the_lead(rules):
    lead = lambda **selection: rules(selection=selection).lead(rules().domains[0])  # noqa: E731
    assert rules().lead(rules().domains[0]) == 8
    assert lead(window=10, refill=False) == 20
    assert lead(window=10) == 2 * 13


def test_the_budget_must_hold_a_window(problems, config):
    size = {"max": 1000, "budget": 4 * 8 * 1000}
    assert problems(payload=size) == []
    assert names(problems(payload=size, selection={"window": 5, "refill": False})) == ["budget_too_small"]
    assert names(problems(payload=size, selection={})) == ["budget_too_small"]
    assert config(payload=size | {"budget": 7 * 8 * 1000}, selection={}).batch_bytes() == 56_000


def test_an_unknown_word_is_named_with_what_was_meant(problems):
    assert [str(p.path) for p in problems(selection={"strtegy": "top_p"})] == ["('selection', 'strtegy')"]
    assert names(problems(selection={"type": "rankd"})) == ["union_tag_invalid"]
    assert names(problems(selection={"window": 0, "strategy": "topp"})) == ["greater_than_equal", "literal_error"]


def test_more_than_one_domain_is_refused(problems):
    domains = {"a": {"quota": 2}, "b": {"quota": 2}}
    assert names(problems(domains=domains, selection={})) == ["selection_domains"]


def test_refill_needs_a_version_of_slack(problems):
    assert names(problems(async_ratio=0, selection={})) == ["staleness_too_small"]
    assert problems(async_ratio=0, selection={"refill": False}) == []
    assert problems(async_ratio=0, max_staleness=1, selection={}) == []


def test_a_spread_needs_two_responses(problems):
    lone = {"group_size": 1, "filters": {"default": [{"type": "no_filter"}]}}
    assert names(problems(**lone, selection={})) == ["group_of_one"]
    assert names(problems(**lone, selection={"metric": "length", "weights": "soft"})) == ["group_of_one"]
    assert problems(**lone, selection={"metric": "length"}) == []


@pytest.mark.parametrize(
    ("selection", "warned"),
    [
        ({"value": 0.01, "eps": 100}, True),
        ({"value": 0.5, "eps": 2.0}, True),  # a window of 4: at 4 / 0.5 the target is 0
        ({"value": 0.5, "eps": 1.99}, False),
        ({"value": 0.5, "eps": 2.0, "metric": "reward_sum"}, False),
        ({"value": 0.5, "eps": 16.0, "metric": "reward_sum"}, True),
        ({"value": 0.01, "eps": 100, "metric": "length"}, False),
        ({"value": 0.01, "eps": 100, "mode": "softmax"}, False),
        ({"value": 0.01, "eps": 100, "strategy": "top_k"}, False),
        ({"value": 1.0, "eps": 100}, False),
    ],
)
def test_a_target_beyond_what_a_window_reaches_is_warned_about(config, selection, warned):
    told = [p for p in cautions(config(group_size=8, selection=selection)) if p.path == ("selection", "eps")]
    assert names(told) == ["may_select_nothing"] * warned


def test_what_keeps_nothing_for_certain_is_refused_and_what_may_is_warned_about(problems, config):
    assert names(problems(selection={"value": 0.0})) == ["selects_nothing"]
    risky = config(selection={"value": 0.9, "keep": "smallest"})
    assert names(cautions(risky)) == ["may_select_nothing"]
    assert names(cautions(config(selection={"metric": "entropy"}))) == ["needs_entropy"]
    assert cautions(config(selection={"value": 0.9, "include_zero": False})) == []
    assert names(cautions(config(selection={"window": 9}))) == ["window_may_expire"]
    assert cautions(config(selection={"window": 8})) == cautions(config(selection={"window": 9, "refill": False})) == []
