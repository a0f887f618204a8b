import hashlib
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.config import (
    ConfigError,
    canonical,
    config_hash,
    filter_hashes,
    parse,
    parse_canonical,
    resolve_budget,
    source_hashes,
)
from pipeline.domain.rules import FilterRule, rules_of
from pipeline.domain.vocabulary import StarvationPolicy

GIB = 2**30


@pytest.fixture
def whole(config):
    return lambda **changes: resolve_budget(config(**changes), 64 * GIB)


def test_a_guard_of_its_domain_alone_is_recorded_as_before_there_was_a_scope(whole):
    for scope in ({}, {"scope": "run"}):
        made = canonical(whole(guard={"default": {"type": "roll_ratio", **scope}}))
        assert json.loads(made)["domains"][0]["guard"] == {"type": "roll_ratio", "max_ratio": 0.5, **scope}
        assert canonical(parse_canonical(made)) == made


def test_the_domain_reads_its_rules_from_it(whole):
    made = whole(
        domains={"z": {"quota": 3}, "a": {"quota": 2, "filters": [{"type": "no_filter"}]}},
        assembly={"lease": "90s", "count": "any"},
        starvation={"policy": "wait"},
        payload={"max": 1000},
        steps=7,
    )
    rules = rules_of(canonical(made))
    assert [(d.name, d.quota) for d in rules.domains] == [("z", 3), ("a", 2)]
    assert rules.domain("z").filters == (FilterRule("zero_std", {"tol": 1e-8, "metric": "reward", "max_reward": 1.0}),)
    assert rules.domain("a").filters == (FilterRule("no_filter", {}),)
    assert {d.name: d.filter_hash for d in rules.domains} == filter_hashes(made)
    assert (rules.assembly.lease_ms, rules.assembly.deadline_ms, rules.assembly.count) == (90_000, 1_800_000, "any")
    assert rules.starvation.policy is StarvationPolicy.WAIT
    assert rules.starvation.no_progress_ms == 1_800_000
    assert (rules.payload_budget, rules.max_payload_bytes, rules.payload_ttl_ms) == (
        64 * GIB * 7 // 10,
        1000,
        7_200_000,
    )
    assert (rules.steps, rules.evaluation.every, rules.tick_ms, rules.max_staleness) == (7, 0, 1000, 1)
    assert rules.lead(rules.domain("z")) == 6


def test_it_is_sorted_compact_and_free_of_surprises(whole):
    text = canonical(whole(async_ratio=1, filters={"default": [{"type": "zero_std", "tol": 1e-8}]}))
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"), allow_nan=False)
    assert '"async_ratio":1.0' in text
    assert '"tol":1e-08' in text


def test_it_is_the_same_however_the_same_decisions_are_written(whole):
    plain = canonical(whole(domains={"a": {"quota": 3}, "b": {"quota": 1}}, async_ratio=1))
    proportions = {"a": {"proportion": 0.75}, "b": {"proportion": 0.25}}
    assert canonical(whole(batch_size=4, domains=proportions, async_ratio=1.0)) == plain
    chain = [{"type": "zero_std"}]
    assert canonical(whole(domains={"a": {"quota": 3, "filters": chain}, "b": {"quota": 1}})) == plain
    assert canonical(whole(domains={"b": {"quota": 1}, "a": {"quota": 3}})) != plain


def test_its_hash_is_sha256_of_the_text(whole):
    text = canonical(whole())
    assert config_hash(text) == hashlib.sha256(text.encode()).hexdigest()


def test_a_budget_that_is_not_known_cannot_be_recorded(config):
    with pytest.raises(ConfigError, match="resolve_budget"):
        canonical(config())


def test_any_process_gets_its_options_back_from_it_alone(whole):
    engine = {"factory": "somewhere:Engine", "options": {"lr_ms": 1e-4, "names": ["a", None], "deep": {"ttl": 1}}}
    verifiers = {"exact": {"factory": "somewhere:V", "options": {"x": True}, "on_failure": "zero", "timeout_s": 3}}
    predicates = [{"type": "truncated"}, {"type": "custom", "factory": "m:f", "options": {"n": 1}}]
    made = whole(engine=engine, verifiers=verifiers, response_filter=predicates)
    again = parse_canonical(canonical(made))
    assert (again.engine, again.verifiers, again.learner) == (made.engine, made.verifiers, made.learner)
    assert again.response_filter == made.response_filter
    assert again.engine.options == engine["options"]


durations = st.integers(1, 10**6)
chains = st.lists(
    st.one_of(
        st.just({"type": "no_filter"}),
        st.builds(
            lambda tol, metric: {"type": "zero_std", "tol": tol, "metric": metric}, st.floats(0, 1), st.just("raw")
        ),
    ),
    min_size=1,
    max_size=3,
)
trees = st.fixed_dictionaries(
    {"payload": st.fixed_dictionaries({"ttl": st.just("30d"), "max": st.integers(1, 1000)})},
    optional={
        "seed": st.integers(0, 2**63 - 1),
        "group_size": st.integers(2, 64),
        "async_ratio": st.floats(0, 5) | st.integers(0, 5),
        "domains": st.dictionaries(
            st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9_-]{0,20}\Z"),
            st.fixed_dictionaries({"quota": st.integers(1, 50)}, optional={"filters": chains}),
            min_size=1,
            max_size=4,
        ),
        "assembly": st.fixed_dictionaries({"lease": durations, "deadline": st.just("20d")}),
        "starvation": st.fixed_dictionaries({"no_progress": durations, "min_acceptance": st.floats(0, 1)}),
        "tick": st.floats(0.001, 100),
    },
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=trees)
def test_reading_it_back_and_recording_it_again_changes_nothing(tree, changes):
    made = resolve_budget(parse(tree(prefetch=0, **changes)), 2**50)
    text = canonical(made)
    again = parse_canonical(text)
    assert canonical(again) == text
    assert parse_canonical(canonical(again)) == again
    rules = rules_of(text)
    assert [(d.name, d.quota, d.filter_hash) for d in rules.domains] == [
        (name, quota, filter_hashes(again)[name]) for name, quota in made.quotas().items()
    ]


def test_the_filter_hash_depends_on_every_setting_and_on_nothing_else(config):
    def hashed(*chain, **changes):
        return filter_hashes(config(filters={"default": list(chain)}, **changes))["math"]

    plain = {"type": "zero_std", "tol": 1e-8, "metric": "reward"}
    assert hashed(plain) == hashed({"type": "zero_std"}) == hashed(plain, seed=5)
    assert len(hashed(plain)) == 16
    different = [
        hashed(plain),
        hashed(plain | {"tol": 1e-6}),
        hashed(plain | {"metric": "raw"}),
        hashed(plain | {"max_reward": 2.0}),
        hashed({"type": "no_filter"}),
        hashed({"type": "no_filter"}, plain),
        hashed({"type": "zero_std"}, metric="exact"),
    ]
    assert len(set(different)) == len(different)


def test_the_filter_hash_never_changes(config):
    assert filter_hashes(config()) == {"math": "9030920f676c323b"}


def test_the_source_of_each_custom_callable_is_hashed(config, tmp_path, monkeypatch):
    source = b"raise SystemExit('a hash needs no import')\n"
    (tmp_path / "hashed_plugin.py").write_bytes(source)
    monkeypatch.syspath_prepend(tmp_path)

    def plugin(name):
        return {"factory": f"hashed_plugin:{name}"}

    made = config(
        prompts={"factory": "pipeline.prompts.jsonl:JsonlPrompts", "options": {"tokenizer": plugin("Tokens")}},
        eval_prompts=plugin("Eval"),
        engine=plugin("Engine"),
        learner=plugin("Learner"),
        verifiers={"v": plugin("Judge")},
        response_filter=[{"type": "custom", **plugin("keep")}],
    )
    digest = hashlib.sha256(source).hexdigest()
    names = ("Tokens", "Eval", "Engine", "Learner", "Judge", "keep")
    assert source_hashes(made) == {f"hashed_plugin:{name}": digest for name in names}


@pytest.mark.parametrize("module", ["no_such_module_here", "no_such_package.inner", "sys"])
def test_a_callable_without_a_source_file_is_named(config, module):
    plugin = {"factory": f"{module}:x"}
    with pytest.raises(ConfigError) as error:
        source_hashes(config(prompts=plugin, engine=plugin, learner=plugin))
    (problem,) = error.value.problems
    assert (problem.name, problem.path[-1]) == ("module_not_found", "factory")


def test_an_environment_and_refresh_are_written_only_when_set(whole):
    text = canonical(whole())
    assert "environment" not in json.loads(text) and "publication" not in json.loads(text)
    played = {"factory": "mine:Game", "options": {"level": 2}, "step_timeout": "5s", "on_failure": "zero"}
    made = whole(environment=played, publication="refresh", assembly={"count": "any"})
    found = json.loads(canonical(made))
    assert found["publication"] == "refresh"
    assert found["environment"] == {
        "factory": "mine:Game", "options": {"level": 2}, "max_turns": 16, "max_tokens": 32_768, "step_timeout_ms": 5000,
        "episode_timeout_ms": 300_000, "on_failure": "zero",
    }  # fmt: skip
    again = parse_canonical(canonical(made))
    assert (again.environment, again.publication) == (made.environment, "refresh")


def test_the_pass_rate_that_excludes_is_written_only_when_set(whole):
    assert "exclude_above_pass_rate" not in json.loads(canonical(whole()))
    assert rules_of(canonical(whole())).exclude_above_pass_rate is None
    text = canonical(whole(exclude_above_pass_rate=0.9))
    assert rules_of(text).exclude_above_pass_rate == parse_canonical(text).exclude_above_pass_rate == 0.9


def test_a_filter_on_evaluations_is_written_only_when_set(whole):
    assert "filter" not in json.loads(canonical(whole()))["evaluation"]
    made = whole(evaluation={"filter": True, "samples": 2})
    assert json.loads(canonical(made))["evaluation"]["filter"] is True
    assert parse_canonical(canonical(made)).evaluation.filter
