"""What is refused of filters, guards and shadows, and what is only warned about."""

import json

import pytest

from pipeline.config import canonical, cautions, filter_hashes, parse_canonical, resolve_budget, source_hashes
from pipeline.domain.filters.chain import Chain
from pipeline.domain.rules import FilterRule, GuardRule, rules_of

ZERO_STD = {"type": "zero_std"}


def chain(*filters):
    return {"filters": {"default": list(filters)}}


def names(problems):
    return [p.name for p in problems]


@pytest.mark.parametrize(
    "link",
    [
        {"type": "mean_filter", "threshold_down": 1.0, "threshold_up": 0.0},
        {"type": "mean_filter", "threshold_down": 0.5, "threshold_up": 0.5},
        {"type": "mean_filter", "compat": "roll", "threshold_up": -1.0},
        {"type": "band", "low": 0.8, "high": 0.2},
    ],
)
def test_bounds_the_wrong_way_round_keep_no_group_and_are_refused(problems, link):
    (problem,) = problems(**chain(ZERO_STD, link))
    assert (problem.name, problem.path) == ("never_accepts", ("filters", "default", 1))
    assert "swap or widen" in problem.message


def test_a_band_of_one_point_keeps_that_point(problems):
    assert problems(**chain({"type": "band", "low": 0.5, "high": 0.5})) == []


def test_filters_that_together_keep_no_group_are_refused(problems):
    low = {"type": "mean_filter", "threshold_up": 0.5}
    assert names(problems(**chain(low, {"type": "band", "low": 0.5, "high": 1.0}))) == ["never_accepts"]
    assert problems(**chain(low, {"type": "band", "low": 0.4, "high": 1.0})) == []
    assert problems(**chain(low, {"type": "band", "low": 0.5, "high": 1.0, "metric": "raw"})) == []


@pytest.mark.parametrize("link", [{"type": "std_filter"}, {"type": "mean_filter"}])
def test_a_filter_that_never_rejects_is_a_caution(config, problems, link):
    assert problems(**chain(link)) == []
    (caution,) = cautions(config(**chain(link)))
    assert (caution.name, caution.path) == ("never_rejects", ("filters", "default", 0))
    assert cautions(config(**chain({"type": "mean_filter", "threshold_up": 0.9}, {"type": "no_filter"}))) == []


def shadowed(*filters):
    return {"shadow_filters": {"default": list(filters)}}


def test_a_shadow_that_never_rejects_or_never_accepts_is_a_caution(config, problems):
    links = [
        ZERO_STD, {"type": "std_filter"}, {"type": "mean_filter", "threshold_down": 1.0, "threshold_up": 0.0},
        {"type": "band", "low": 0.2, "high": 0.8}, {"type": "no_filter"},
    ]  # fmt: skip
    assert problems(**shadowed(*links)) == []
    found = {(c.name, c.path) for c in cautions(config(**shadowed(*links)))}
    where = ("shadow_filters", "default")
    assert found == {("never_rejects", (*where, 1)), ("never_accepts", (*where, 2))}
    own = {"math": {"quota": 1, "shadow_filters": [{"type": "std_filter"}]}, "code": {"quota": 1}}
    (caution,) = cautions(config(domains=own))
    assert caution.path == ("domains", "math", "shadow_filters", 0)


def test_a_shadow_of_spread_says_the_same_of_every_group_of_one(config):
    plain = names(cautions(config(group_size=1, **chain({"type": "no_filter"}))))
    made = config(
        group_size=1, **chain({"type": "no_filter"}), **shadowed(ZERO_STD, {"type": "band", "low": 0, "high": 1})
    )
    assert sorted(names(cautions(made))) == sorted([*plain, "group_of_one"])


def test_rolls_mean_filter_without_bounds_is_a_caution(config):
    roll = {"type": "mean_filter", "compat": "roll"}
    (caution,) = cautions(config(**chain(roll)))
    assert str(caution) == (
        "filters.default[0]: mean_filter rejects nothing unless a mean is -1 or less, which is ROLL's default; write "
        "threshold_down or threshold_up, or take no_filter [hardly_rejects]"
    )
    assert names(cautions(config(**shadowed(roll)))) == ["hardly_rejects"]
    for bound in ({"threshold_up": 0.9}, {"threshold_down": 0.1}):
        assert cautions(config(**chain(roll | bound))) == []


def test_a_share_that_nothing_exceeds_is_a_caution(config):
    (caution,) = cautions(config(response_filter=[{"type": "truncated"}, {"type": "max_repetition", "share": 1.0}]))
    assert (caution.name, caution.path) == ("never_rejects", ("response_filter", 1))
    assert cautions(config(response_filter=[{"type": "max_repetition", "share": 0.99}])) == []


@pytest.mark.parametrize("kind", ["zero_std", "finished_zero_std", "std_filter"])
def test_groups_of_one_have_no_filter_of_spread(problems, kind):
    (problem,) = problems(group_size=1, **chain({"type": kind}))
    assert (problem.name, problem.path) == ("group_of_one", ("group_size",))
    assert kind in problem.message and "at least 2" in problem.message


@pytest.mark.parametrize(
    ("section", "value", "near"),
    [
        ("filters", {"default": [{"type": "std_fliter"}]}, "'std_filter'"),
        ("shadow_filters", {"default": [{"type": "bend"}]}, "'band'"),
        ("guard", {"default": {"type": "roll_ration"}}, "'roll_ratio'"),
    ],
)
def test_an_unknown_type_is_named_with_the_nearest(problems, section, value, near):
    (problem,) = problems(**{section: value})
    assert problem.name == "union_tag_invalid"
    assert f"did you mean {near}?" in problem.message


def test_a_guard_sees_all_groups_in_one_partition(config, problems):
    guard = {"default": {"type": "roll_ratio"}}
    assert config(guard=guard).filter_partitions == 1
    (problem,) = problems(guard=guard, filter_partitions=2)
    assert (problem.name, problem.path) == ("guard_partitions", ("filter_partitions",))
    assert config(guard={"default": {"type": "no_guard"}}).filter_partitions == 2


@pytest.mark.parametrize(
    "guard", [{"type": "roll_ratio", "max_ratio": 1.0}, {"type": "window", "window": 0}, {"type": "consecutive"},
              {"type": "consecutive", "keep_after": 0}],
)  # fmt: skip
def test_a_guard_that_never_or_always_acts_is_refused(problems, guard):
    assert problems(guard={"default": guard}) != []


def test_a_window_holds_its_samples(problems):
    (problem,) = problems(guard={"math": {"type": "window", "window": 10}})
    assert (problem.name, problem.path) == ("guard_never_acts", ("guard", "math", "min_samples"))


@pytest.mark.parametrize("section", ["guard", "shadow_filters", "filters"])
def test_a_setting_is_given_once_and_for_a_domain_that_is_there(problems, section):
    value = {"type": "no_guard"} if section == "guard" else [ZERO_STD]
    twice = problems(domains={"math": {"quota": 1, section: value}}, **{section: {"math": value, "default": value}})
    assert names(twice) == [f"{section}_twice"]
    assert names(problems(**{section: {"maths": value, "default": value}})) == ["unknown_domain"]


def recorded(config, **changes):
    return json.loads(canonical(resolve_budget(config(**changes), 2**36)))


def test_what_is_not_set_is_not_recorded(config):
    (domain,) = recorded(config)["domains"]
    assert sorted(domain) == ["filter_hash", "filters", "name", "quota"]
    (domain,) = recorded(config, guard={"math": {"type": "no_guard"}}, shadow_filters={"default": []})["domains"]
    assert sorted(domain) == ["filter_hash", "filters", "name", "quota"]


def test_guards_and_shadows_are_recorded_by_domain_and_read_back(config):
    changes = {
        "domains": {"math": {"quota": 1, "guard": {"type": "no_guard"}}, "code": {"quota": 1, "shadow_filters": []}},
        "guard": {"default": {"type": "consecutive", "keep_after": 3}},
        "shadow_filters": {"default": [{"type": "band", "low": 0, "high": 1}]},
        "metric": "raw",
    }
    made = resolve_budget(config(**changes), 2**36)
    text = canonical(made)
    maths, code = rules_of(text).domains
    assert (maths.guard, maths.shadows) == (None, (FilterRule("band", {"low": 0.0, "high": 1.0, "metric": "raw"}),))
    assert (code.guard, code.shadows) == (GuardRule("consecutive", {"keep_after": 3}), ())
    assert canonical(parse_canonical(text)) == text
    assert filter_hashes(parse_canonical(text)) == {"math": maths.filter_hash, "code": code.filter_hash}


def test_guards_and_shadows_are_part_of_the_filter_hash(config):
    different = [
        {},
        {"guard": {"default": {"type": "roll_ratio"}}},
        {"guard": {"default": {"type": "roll_ratio", "max_ratio": 0.4}}},
        {"guard": {"default": {"type": "window"}}},
        {"shadow_filters": {"default": [ZERO_STD]}},
        {"shadow_filters": {"default": [ZERO_STD]}, "guard": {"default": {"type": "window"}}},
    ]
    assert len({filter_hashes(config(**changes))["math"] for changes in different}) == len(different)
    off = config(guard={"default": {"type": "no_guard"}})
    assert filter_hashes(off) == filter_hashes(config())


EVERY = [
    {"type": "provenance", "one_version": True},
    {"type": "no_filter"},
    {"type": "drop_flag"},
    {"type": "finished_zero_std"},
    {"type": "zero_std"},
    {"type": "std_filter", "std_threshold": 0.1, "ddof": 0},
    {"type": "mean_filter", "compat": "roll", "threshold_up": 2.0},
    {"type": "band", "low": 0.1, "high": 0.9},
    {"type": "custom", "factory": "json:loads"},
]


@pytest.mark.parametrize("guard", ["roll_ratio", "window", "consecutive"])
def test_the_domain_can_make_every_filter_and_guard_of_what_is_recorded(config, guard):
    changes = {"guard": {"default": {"type": guard, **({"keep_after": 2} if guard == "consecutive" else {})}}}
    made = resolve_budget(config(**chain(*EVERY), shadow_filters={"default": EVERY}, **changes), 2**36)
    assert source_hashes(config(**chain(*EVERY), prompts=plugin(), engine=plugin(), learner=plugin())).keys() == {
        "json:loads"
    }
    text = canonical(made)
    assert canonical(parse_canonical(text)) == text
    (domain,) = rules_of(text).domains
    assert [f.type for f in domain.filters] == [f["type"] for f in EVERY]
    Chain(domain, lambda rule: lambda members: True)


def plugin():
    return {"factory": "json:loads"}


CUSTOM = {"type": "custom", "factory": "json:loads"}


def kinds(made, domain="math"):
    return [link.type for link in made.chain(domain)]


def test_the_built_in_switch_adds_the_filter_of_constant_groups_to_every_chain(config):
    domains = {"math": {"quota": 1}, "code": {"quota": 1, "filters": [{"type": "band", "low": 0, "high": 1}]}}
    made = config(filter_zero_std_groups=True, domains=domains)
    assert (kinds(made), kinds(made, "code")) == (["zero_std", "no_filter"], ["zero_std", "band"])
    finished = config(filter_zero_std_groups=True, advantages={"exclude_truncated": True})
    assert kinds(finished) == ["finished_zero_std", "no_filter"]
    assert (kinds(config(filter_zero_std_groups=False)), kinds(config())) == (["no_filter"], ["zero_std"])
    text = canonical(resolve_budget(made, 2**36))
    assert "filter_zero_std_groups" not in text and canonical(parse_canonical(text)) == text


def test_a_custom_filter_together_with_the_built_in_switch_is_refused(config, problems):
    (problem,) = problems(filter_zero_std_groups=True, **chain(CUSTOM))
    assert (problem.name, problem.path) == ("custom_and_built_in", ("filter_zero_std_groups",))
    assert problem.message == (
        "is true, but domain math has the custom filter json:loads, and it isn't said whether that takes the place of "
        "the built-in one: set it to false for yours alone, or leave it out and write zero_std and custom in the chain "
        "for both"
    )
    assert kinds(config(filter_zero_std_groups=False, **chain(CUSTOM))) == ["custom"]
    assert kinds(config(**chain(ZERO_STD, CUSTOM))) == ["zero_std", "custom"]


@pytest.mark.parametrize(("on", "said"), [(True, "adds the same filter again"), (False, "says that there is none")])
def test_the_built_in_switch_and_its_filter_are_not_both_given(problems, on, said):
    (problem,) = problems(filter_zero_std_groups=on, **chain(ZERO_STD))
    assert problem.name == "built_in_twice" and said in problem.message and "leave one of them out" in problem.message


def test_the_built_in_switch_needs_groups_of_two(problems):
    assert names(problems(filter_zero_std_groups=True, group_size=1)) == ["group_of_one"]
