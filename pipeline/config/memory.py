"""How much memory the payloads of a run may take, given what Redis allows."""

from __future__ import annotations

from pipeline.config.check import check
from pipeline.config.errors import ConfigError, Problem
from pipeline.config.filter_checks import without_effect
from pipeline.config.models import DecisionConfig
from pipeline.config.origins import exposed_secrets
from pipeline.config.selection_checks import may_keep_nothing
from pipeline.config.training_checks import does_nothing


def resolve_budget(config: DecisionConfig, maxmemory: int) -> DecisionConfig:
    """The configuration with its payload budget set. ConfigError if Redis, with `maxmemory` bytes, is too small."""
    if maxmemory <= 0:
        message = "Redis has no memory limit (maxmemory 0): set one, such as maxmemory 4gb" + (
            "" if config.payload.budget else ", and payload.budget, such as 2800MB"
        )
        raise ConfigError.of("no_memory_limit", message, ("payload", "budget"))
    budget = config.payload.budget or maxmemory * 7 // 10
    payload = config.payload.model_copy(update={"budget": budget})
    resolved = config.model_copy(update={"payload": payload})
    problems = [*check(resolved), *_too_much(resolved, budget, maxmemory)]
    if problems:
        raise ConfigError(problems)
    return resolved


def cautions(config: DecisionConfig, maxmemory: int | None = None) -> list[Problem]:
    """What can run but probably isn't meant."""
    found = [*without_effect(config), *may_keep_nothing(config), *does_nothing(config), *exposed_secrets(config)]
    if config.group_size == 1:
        message = "is 1: a group of one has no baseline, so every advantage is 0 and nothing is learned; set 2 or more"
        found.append(Problem("no_baseline", ("group_size",), message))
    if config.publication == "refresh" and any(_one_version(config, name) for name in config.domains):
        message = (
            "is refresh, by which responses are of several policies, but provenance with one_version rejects those"
        )
        found.append(Problem("one_version_refresh", ("publication",), f"{message}; leave one of them out"))
    if 0 < config.starvation.no_progress_ms < config.assembly.deadline_ms:
        message = "is shorter than assembly.deadline: a slow group may end the run as starved; raise it, or set 0 (off)"
        found.append(Problem("no_progress_short", ("starvation", "no_progress"), message))
    if maxmemory and config.payload.max_bytes > 0.4 * maxmemory:
        message = (
            f"is {config.payload.max_bytes}, more than 0.4 of Redis' maxmemory {maxmemory}: Redis refuses such a "
            f"payload even when it is empty; lower payload.max to {maxmemory * 4 // 10} or raise maxmemory"
        )
        found.append(Problem("payload_never_fits", ("payload", "max"), message))
    return found


def _one_version(config: DecisionConfig, domain: str) -> bool:
    return any(getattr(link, "one_version", False) for link in config.chain(domain))


def _too_much(config: DecisionConfig, budget: int, maxmemory: int) -> list[Problem]:
    batch, evaluation = config.batch_bytes(), config.evaluation_bytes()
    needed = budget + batch + evaluation
    if needed <= maxmemory:
        return []
    left = maxmemory - batch - evaluation
    advice = (
        f"lower payload.budget to {left}, or " if left >= batch else "lower payload.max, the batch or group_size, or "
    )
    message = (
        f"{budget} + one batch {batch} + evaluation {evaluation} = {needed} bytes, more than Redis' maxmemory "
        f"{maxmemory}; {advice}raise maxmemory to {needed}"
    )
    return [Problem("memory_exceeded", ("payload", "budget"), message)]
