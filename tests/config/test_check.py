import pytest

from pipeline.config import ConfigError, cautions, check_source, parse, resolve_budget

GIB = 2**30


def only(problems, name):
    assert [p.name for p in problems] == [name]
    return problems[0]


def test_the_least_configuration_has_no_problem(problems):
    assert problems() == []


def test_defaults_that_follow_from_other_settings(config):
    assert (config().max_staleness, config().prefetch, config().filter_partitions) == (1, 1, 2)
    half = config(async_ratio=0.5, partitions=6)
    assert (half.max_staleness, half.prefetch, half.filter_partitions) == (1, 0, 6)
    assert config(async_ratio=0).max_staleness == 0


def test_settings_of_a_run_that_syncs_every_step_pass(problems):
    assert problems(async_ratio=0) == []


def test_a_lead_smaller_than_the_batches_wanted_is_refused(problems):
    problem = only(problems(async_ratio=1, prefetch=2), "lead_too_small")
    assert "12 groups of domain math" in problem.message
    assert problems(async_ratio=2, prefetch=2) == []
    only(problems(async_ratio=0.75, prefetch=1), "lead_too_small")


def test_the_lead_is_checked_for_each_domain(problems):
    domains = {"one": {"quota": 1}, "four": {"quota": 4}}
    assert "of domain four" in only(problems(async_ratio=0.5, prefetch=1, domains=domains), "lead_too_small").message


def test_a_staleness_below_the_async_ratio_is_refused(problems):
    only(problems(async_ratio=1.5, max_staleness=1), "staleness_too_small")
    assert problems(async_ratio=1.5, max_staleness=2) == []


def test_groups_of_one_and_a_filter_of_spread_are_refused(problems):
    problem = only(problems(group_size=1), "group_of_one")
    assert problem.path == ("group_size",)
    assert "zero_std" in problem.message
    assert "at least 2" in problem.message
    assert problems(group_size=1, filters={"default": [{"type": "no_filter"}]}) == []
    chain = [{"type": "no_filter"}, {"type": "zero_std"}]
    only(problems(group_size=1, filters={"default": chain}), "group_of_one")
    assert problems(group_size=2) == []


def test_a_group_of_one_without_a_filter_is_warned_about(config):
    lone = config(group_size=1, filters={"default": [{"type": "no_filter"}]})
    only(cautions(lone), "no_baseline")
    assert cautions(config()) == []


def test_evaluation_with_one_response_a_prompt_is_fine(config):
    evaluated = config(eval_prompts={"factory": "elsewhere:Something"})
    assert evaluated.evaluation.samples == 1
    assert cautions(evaluated) == []


def test_payloads_must_outlive_the_deadline(problems):
    only(problems(payload={"ttl": "30m"}), "ttl_too_short")
    assert problems(payload={"ttl": "1801s"}) == []


def test_a_lease_may_not_outlast_the_deadline(problems):
    only(problems(assembly={"lease": 61, "deadline": 60}), "lease_too_long")
    assert problems(assembly={"lease": 60, "deadline": 60}) == []


def test_filters_have_one_partition_or_as_many_as_assemblers(problems):
    only(problems(partitions=4, filter_partitions=2), "filter_partitions")
    assert problems(partitions=4, filter_partitions=1) == problems(partitions=4, filter_partitions=4) == []


def test_quotas_come_from_proportions_and_the_last_has_the_remainder(config):
    domains = {"a": {"proportion": 0.35}, "b": {"proportion": 0.35}, "c": {"proportion": 0.3}}
    assert config(batch_size=10, domains=domains).quotas() == {"a": 3, "b": 3, "c": 4}


def test_a_proportion_that_comes_to_no_group_is_refused(problems):
    domains = {"a": {"proportion": 0.05}, "b": {"proportion": 0.95}}
    assert only(problems(batch_size=10, domains=domains), "quota_below_one").path == ("domains", "a")
    assert problems(batch_size=20, domains=domains) == []


def test_proportions_must_add_up_to_one(problems):
    domains = {"a": {"proportion": 0.5}, "b": {"proportion": 0.4}}
    only(problems(batch_size=10, domains=domains), "proportions")


@pytest.mark.parametrize(
    "changes",
    [
        {"domains": {"a": {}}},
        {"domains": {"a": {"proportion": 1.0}}},
        {"batch_size": 8, "domains": {"a": {"quota": 4}}},
        {"batch_size": 8, "domains": {"a": {"quota": 4, "proportion": 1.0}}},
        {"domains": {"a": {"quota": 4, "proportion": 1.0}}},
    ],
)
def test_a_domain_has_a_quota_or_a_proportion_of_the_batch(problems, changes):
    only(problems(**changes), "share")


def test_a_domain_without_filters_uses_the_default_ones(config):
    chains = {"default": [{"type": "no_filter"}], "code": [{"type": "zero_std", "tol": 0.5}]}
    made = config(
        filters=chains,
        domains={"math": {"quota": 1}, "code": {"quota": 1}, "own": {"quota": 1, "filters": [{"type": "zero_std"}]}},
    )
    assert [made.chain(name)[0].type for name in made.domains] == ["no_filter", "zero_std", "zero_std"]
    assert (made.chain("code")[0].tol, made.chain("own")[0].tol) == (0.5, 1e-8)


def test_a_domain_without_filters_and_without_default_is_refused(problems):
    domains = {"math": {"quota": 1}, "code": {"quota": 1}}
    problem = only(problems(filters={"math": [{"type": "no_filter"}]}, domains=domains), "no_filters")
    assert problem.path == ("domains", "code")


def test_filters_of_a_domain_that_does_not_exist_are_refused(problems):
    chain = [{"type": "no_filter"}]
    problem = only(problems(filters={"default": chain, "maths": chain}), "unknown_domain")
    assert "did you mean 'math'" in problem.message


def test_filters_given_in_two_places_are_refused(problems):
    chain = [{"type": "no_filter"}]
    only(problems(filters={"math": chain}, domains={"math": {"quota": 1, "filters": chain}}), "filters_twice")


def test_a_filter_measures_the_runs_metric_unless_it_has_its_own(config):
    chains = {"default": [{"type": "zero_std"}, {"type": "zero_std", "metric": "raw"}]}
    assert [link.metric for link in config(metric="exact", filters=chains).chain("math")] == ["exact", "raw"]


def test_evaluation_is_off_without_prompts_and_on_with_them(config):
    assert config().evaluation.every == 0
    assert config(evaluation={"samples": 2}).evaluation.every == 0
    assert config(eval_prompts={"factory": "elsewhere:Something"}).evaluation.every == 20


def test_evaluation_that_is_asked_for_without_prompts_is_refused(problems):
    assert "eval_prompts" in only(problems(evaluation={"every": 20}), "no_eval_prompts").message
    assert problems(evaluation={"every": 0}) == []


def test_evaluation_on_the_training_prompts_is_refused(problems):
    only(problems(eval_prompts={"factory": "somewhere:Something"}), "eval_is_train")
    assert problems(eval_prompts={"factory": "somewhere:Something", "options": {"split": "eval"}}) == []


def test_a_response_filter_that_rejects_everything_is_refused(problems):
    def bounds(low, high):
        return [{"type": "min_tokens", "value": low}, {"type": "max_tokens", "value": high}]

    only(problems(response_filter=bounds(10, 9)), "rejects_all")
    assert problems(response_filter=bounds(10, 10)) == problems(response_filter=bounds(10, 9)[:1]) == []


def test_a_budget_too_small_for_a_batch_is_refused(problems, config):
    batch = 4 * (8 + 2) * 1000
    payload = {"max": 1000, "budget": batch - 1}
    assert str(batch) in only(problems(redundancy=2, payload=payload), "budget_too_small").message
    assert problems(redundancy=2, payload=payload | {"budget": batch}) == []
    assert config(redundancy=2, payload={"max": 1000}).batch_bytes() == batch


def refused(config, maxmemory):
    with pytest.raises(ConfigError) as error:
        resolve_budget(config, maxmemory)
    return list(error.value.problems)


def test_the_budget_is_seven_tenths_of_what_redis_allows(config):
    assert resolve_budget(config(), GIB).payload.budget == GIB * 7 // 10


def test_a_given_budget_is_kept(config):
    assert resolve_budget(config(payload={"budget": "64MiB"}), GIB).payload.budget == 2**26


def test_a_default_budget_too_small_for_a_batch_is_refused(config):
    assert "budget_too_small" in [p.name for p in refused(config(), 32 * 2**20)]


def test_budget_batch_and_evaluation_must_fit_into_redis(config):
    made = config(
        eval_prompts={"factory": "elsewhere:Something"},
        evaluation={"max_open": 5, "samples": 2},
        payload={"max": 1000, "budget": 100_000},
    )
    needed = 100_000 + 4 * 8 * 1000 + 5 * 2 * 1000
    assert resolve_budget(made, needed) == made
    problem = only(refused(made, needed - 1), "memory_exceeded")
    assert f"lower payload.budget to {needed - 1 - 42_000}" in problem.message
    assert f"raise maxmemory to {needed}" in problem.message


def test_evaluation_takes_no_memory_where_there_is_none(config):
    made = config(payload={"max": 1000, "budget": 100_000})
    assert resolve_budget(made, 132_000) == made


def test_a_redis_without_a_limit_is_refused_and_asks_for_what_is_missing(config):
    assert "payload.budget" in only(refused(config(), 0), "no_memory_limit").message
    assert "and payload.budget" not in only(refused(config(payload={"budget": "1GB"}), 0), "no_memory_limit").message


def test_a_payload_that_could_never_fit_is_warned_about(config):
    made = config(payload={"max": "26MiB"})
    only(cautions(made, 64 * 2**20), "payload_never_fits")
    assert cautions(made, 65 * 2**20) == cautions(made) == []


def test_a_starvation_time_below_the_deadline_is_warned_about(config):
    only(cautions(config(starvation={"no_progress": "29m"})), "no_progress_short")
    assert cautions(config(starvation={"no_progress": 0})) == []


class Source:
    content_hash = ""
    verifiers = {"exact": "f:1", "judge": "f:2"}  # noqa: RUF012

    def domains(self):
        return ["math", "empty"]

    def size(self, domain):
        return {"math": 3, "empty": 0}[domain]

    def at(self, domain, ordinal, epoch):
        raise NotImplementedError


JUDGES = {"exact": {"factory": "a:b"}, "judge": {"factory": "a:b"}}


def test_the_source_must_have_prompts_for_each_domain(tree):
    good = parse(tree(verifiers=JUDGES))
    check_source(good, Source())
    with pytest.raises(ConfigError) as error:
        check_source(parse(tree(verifiers=JUDGES, domains={"maths": {"quota": 1}, "empty": {"quota": 1}})), Source())
    assert [p.path for p in error.value.problems] == [("domains", "empty"), ("domains", "maths")]
    assert "did you mean 'math'" in str(error.value)


def test_evaluation_prompts_may_have_domains_of_their_own(tree):
    source = Source()
    source.domains = lambda: ["math"]
    check_source(parse(tree(verifiers=JUDGES, domains={"other": {"quota": 1}})), source, "eval_prompts")


def test_a_verifier_that_prompts_name_must_be_configured(tree):
    with pytest.raises(ConfigError, match="f:2 names the verifier 'judge'"):
        check_source(parse(tree(verifiers={"exact": {"factory": "a:b"}})), Source())


def test_an_episode_ends_before_its_lease(problems):
    played = {"factory": "mine:Game", "episode_timeout": "10m"}
    (problem,) = problems(environment=played, assembly={"lease": "5m"})
    assert str(problem) == (
        "environment.episode_timeout: is 600 s; expected at most assembly.lease, 300 s, after which it is asked again "
        "[episode_too_long]"
    )
    assert problems(environment=played, assembly={"lease": "10m"}) == []


def test_a_broken_episode_may_stand_only_where_failures_count(problems):
    played = {"factory": "mine:Game", "on_failure": "zero"}
    (problem,) = problems(environment=played)
    assert (problem.name, problem.path) == ("zero_not_any", ("environment", "on_failure"))
    assert problems(environment=played, assembly={"count": "any"}) == []


def test_an_evaluation_is_filtered_by_what_can_measure_it_and_who_reads_the_log_can_ask(problems):
    asked = {"filter": True, "every": 0}
    (problem,) = problems(evaluation=asked)
    assert (problem.name, problem.path) == ("evaluation_of_one", ("evaluation", "samples"))
    assert problems(evaluation=asked | {"samples": 4}) == []
    custom = {"default": [{"type": "custom", "factory": "mine:Filter"}]}
    (problem,) = problems(evaluation=asked, filters=custom)
    assert (problem.name, problem.path) == ("evaluation_custom", ("evaluation", "filter"))


def test_one_policy_for_a_group_and_refresh_are_a_caution(config):
    chain = {"default": [{"type": "provenance", "one_version": True}, {"type": "zero_std"}]}
    only(cautions(config(publication="refresh", filters=chain)), "one_version_refresh")
    assert cautions(config(filters=chain)) == cautions(config(publication="refresh")) == []


def test_a_long_option_is_looked_through_in_passing(config):
    """A word of 4 MB took longer than anybody waits: each of its letters was tried as the beginning of an address."""
    engine = {"factory": "somewhere:Something", "options": {"table": "x" * 2**22, "at": "redis://:pw@here"}}
    found = [problem for problem in cautions(config(engine=engine)) if problem.name == "secret_recorded"]
    assert [problem.path for problem in found] == [("engine", "options", "at")]
