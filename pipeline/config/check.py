"""What must hold between the settings of a run. Each check yields named problems that say what to change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil

from pipeline.config.errors import ConfigError, Problem, nearest
from pipeline.config.filter_checks import FILTER_CHECKS, places
from pipeline.config.models import DecisionConfig
from pipeline.config.predicates import MaxTokens, MinTokens
from pipeline.config.selection_checks import SELECTION_CHECKS
from pipeline.config.training_checks import TRAINING_CHECKS
from pipeline.sdk import PromptSource

Check = Callable[[DecisionConfig], Iterator[Problem]]


def check(config: DecisionConfig) -> list[Problem]:
    """All problems that the configuration shows by itself; none: it can run."""
    broken = [*_shares(config), *places(config)]
    return broken or [problem for rule in _CHECKS for problem in rule(config)]


def check_source(config: DecisionConfig, source: PromptSource, key: str = "prompts") -> None:
    """Raise ConfigError unless the source has prompts for every domain, and every verifier that they name exists.

    The last can be told only for a source with an attribute `verifiers`: where each name was first seen."""
    wanted = config.domains if key == "prompts" else source.domains()
    problems = [
        Problem("no_prompts", ("domains", name), f"{key} has none for it; {nearest(name, source.domains())}")
        for name in wanted
        if name not in source.domains() or source.size(name) < 1
    ]
    seen: Mapping[str, str] = getattr(source, "verifiers", {})
    for name in seen.keys() - config.verifiers.keys():
        message = (
            f"{seen[name]} names the verifier {name!r}, which is not configured; {nearest(name, config.verifiers)}"
        )
        problems.append(Problem("unknown_verifier", ("verifiers",), message))
    if problems:
        raise ConfigError(sorted(problems, key=str))


def _shares(config: DecisionConfig) -> Iterator[Problem]:
    by_proportion = config.batch_size is not None
    wanted, other = ("proportion", "quota") if by_proportion else ("quota", "proportion")
    for name, domain in config.domains.items():
        if getattr(domain, wanted) is None or getattr(domain, other) is not None:
            why = "with batch_size" if by_proportion else "without batch_size"
            yield Problem("share", ("domains", name), f"expected a {wanted}, and no {other}, {why}")
            return
    total = sum(domain.proportion or 0.0 for domain in config.domains.values())
    if by_proportion and abs(total - 1) > 0.01:
        yield Problem("proportions", ("domains",), f"the proportions add up to {total:g}; expected 1")
    for name, quota in config.quotas().items():
        if quota < 1:
            message = f"its quota of batch_size {config.batch_size} is {quota}; expected at least 1: raise batch_size"
            yield Problem("quota_below_one", ("domains", name), message)


def _lead(config: DecisionConfig) -> Iterator[Problem]:
    for name, quota in config.ready().items():
        lead, needed = ceil(quota * config.async_ratio) + quota, (1 + config.prefetch) * quota
        if lead < needed:
            window = f" (windows of {config.window()})" if config.selection is not None else ""
            message = (
                f"is {config.prefetch}, which needs a lead of {needed} groups of domain {name}{window}; async_ratio "
                f"{config.async_ratio:g} allows {lead}: lower prefetch or raise async_ratio to {config.prefetch}"
            )
            yield Problem("lead_too_small", ("prefetch",), message)


def _staleness(config: DecisionConfig) -> Iterator[Problem]:
    least = ceil(config.async_ratio)
    if config.max_staleness < least:
        message = f"is {config.max_staleness}; with async_ratio {config.async_ratio:g} expected at least {least}"
        yield Problem("staleness_too_small", ("max_staleness",), message)


def _times(config: DecisionConfig) -> Iterator[Problem]:
    deadline, lease, ttl = config.assembly.deadline_ms, config.assembly.lease_ms, config.payload.ttl_ms
    if ttl <= deadline:
        message = f"is {ttl / 1000:g} s; expected more than assembly.deadline, {deadline / 1000:g} s"
        yield Problem("ttl_too_short", ("payload", "ttl"), message)
    if lease > deadline:
        message = f"is {lease / 1000:g} s; expected at most assembly.deadline, {deadline / 1000:g} s"
        yield Problem("lease_too_long", ("assembly", "lease"), message)


def _evaluation(config: DecisionConfig) -> Iterator[Problem]:
    if config.evaluation.every and config.eval_prompts is None:
        message = f"is {config.evaluation.every}, but there are no eval_prompts: give some, or set it to 0"
        yield Problem("no_eval_prompts", ("evaluation", "every"), message)
    if config.eval_prompts == config.prompts:
        message = "the same as prompts: an evaluation on trained prompts measures memory; name other prompts"
        yield Problem("eval_is_train", ("eval_prompts",), message)
    if config.evaluation.filter:
        yield from _evaluation_filter(config)


def _evaluation_filter(config: DecisionConfig) -> Iterator[Problem]:
    """It is asked by whoever reads the log, so it needs no code of the run's own, and groups that it can measure."""
    links = [link for name in config.domains for link in config.chain(name)]
    if any(link.type == "custom" for link in links):
        message = "is true, but a chain has a custom filter, which only the run itself can ask; set it to false"
        yield Problem("evaluation_custom", ("evaluation", "filter"), message)
    if config.evaluation.samples == 1 and any(link.needs_spread for link in links):
        message = "is 1, but evaluation.filter asks a filter that needs a spread of rewards; expected at least 2"
        yield Problem("evaluation_of_one", ("evaluation", "samples"), message)


def _environment(config: DecisionConfig) -> Iterator[Problem]:
    environment, lease = config.environment, config.assembly.lease_ms
    if environment is None:
        return
    if environment.episode_timeout_ms > lease:
        took = environment.episode_timeout_ms / 1000
        message = f"is {took:g} s; expected at most assembly.lease, {lease / 1000:g} s, after which it is asked again"
        yield Problem("episode_too_long", ("environment", "episode_timeout"), message)
    if environment.on_failure == "zero" and config.assembly.count != "any":
        message = (
            "is zero, with which a broken episode counts as an answer; expected assembly.count any, "
            "or drop_response, with which it is replaced"
        )
        yield Problem("zero_not_any", ("environment", "on_failure"), message)


def _start(config: DecisionConfig) -> Iterator[Problem]:
    for name in config.start.prompts if config.start is not None else ():
        if name not in config.domains:
            message = f"is no domain of this run; {nearest(name, config.domains)}"
            yield Problem("unknown_domain", ("start", "prompts", name), message)


def _tokens(config: DecisionConfig) -> Iterator[Problem]:
    least = max((p.value for p in config.response_filter if isinstance(p, MinTokens)), default=0)
    most = min((p.value for p in config.response_filter if isinstance(p, MaxTokens)), default=least)
    if least > most:
        message = f"min_tokens {least} and max_tokens {most} reject every response; raise max_tokens to {least}"
        yield Problem("rejects_all", ("response_filter",), message)


def _budget(config: DecisionConfig) -> Iterator[Problem]:
    budget, batch = config.payload.budget, config.batch_bytes()
    if budget is not None and budget < batch:
        message = (
            f"is {budget}, less than one batch may take: {batch} bytes = {sum(config.ready().values())} groups × "
            f"{config.group_size + config.redundancy} responses × payload.max {config.payload.max_bytes}; "
            f"raise it to {batch}, or lower payload.max"
        )
        yield Problem("budget_too_small", ("payload", "budget"), message)


_CHECKS: Sequence[Check] = (
    *FILTER_CHECKS,
    *SELECTION_CHECKS,
    *TRAINING_CHECKS,
    _lead,
    _staleness,
    _times,
    _evaluation,
    _environment,
    _start,
    _tokens,
    _budget,
)
