"""The beginning of a run: `init` fixes its decisions in the log, and every process reads them from there."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pipeline.config import (
    DecisionConfig,
    ProcessSettings,
    canonical,
    check_source,
    config_hash,
    filter_hashes,
    parse_canonical,
    resolve_budget,
    source_hashes,
)
from pipeline.config.errors import ConfigError
from pipeline.config.start import Start
from pipeline.domain.evaluation import plan
from pipeline.domain.events import RunStarted
from pipeline.domain.rules import DECISION_VERSIONS, Rules, rules_of
from pipeline.domain.topology import Output, Topic
from pipeline.log.admin import check_topics, create_run, delete_run, list_runs
from pipeline.log.client import Connection
from pipeline.log.codec import encode
from pipeline.log.errors import Stop, fork_of
from pipeline.log.facts import write_facts
from pipeline.log.start import read_run_started
from pipeline.log.topics import topic_config
from pipeline.sdk import PromptSource
from pipeline.training.files import FileMissing, RunFiles

if TYPE_CHECKING:
    from pipeline.store.payloads import PayloadStore

CREATED_BY = "tamis 0.1.0"


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A run as its first record fixes it."""

    started: RunStarted
    config: DecisionConfig
    rules: Rules
    left_out: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Prompts that the sources were told not to use, by source and reason; known to `init_run` alone."""


def connection_of(settings: ProcessSettings, run: str | None = None) -> Connection:
    """Where the log is. ConfigError if the settings don't say."""
    name = run or settings.run
    if name is None:
        raise ConfigError.of("not_set", "is not set; expected the name of a run", where="TAMIS_RUN (--run)")
    if settings.bootstrap is None:
        raise ConfigError.of(
            "not_set",
            "is not set; expected Kafka's host:port, such as `tamis up` starts here",
            where="TAMIS_BOOTSTRAP (--bootstrap)",
        )
    return Connection(settings.bootstrap, name, settings.slot, settings.kafka)


def store_of(settings: ProcessSettings, run: str, max_payload_bytes: int) -> PayloadStore:
    """The payload store of a run. ConfigError if the settings don't say where Redis is."""
    from pipeline.store.payloads import PayloadStore  # redis is slow to import, and most consumers don't need it

    if settings.redis_url is None:
        raise ConfigError.of(
            "not_set",
            "is not set; expected redis://host:port/0, such as `tamis up` starts here",
            where="TAMIS_REDIS_URL (--redis-url)",
        )
    return PayloadStore(settings.redis_url.get_secret_value(), run, max_payload_bytes=max_payload_bytes)


MOST_BYTES: Final = int(topic_config(Topic.LEDGER)["max.message.bytes"]) - 2**16
"""Of a run's first record; what Kafka adds to it is much less than what is left."""


def init_run(config: DecisionConfig, settings: ProcessSettings) -> StartedRun:
    """Create a run: check everything, make its topics, and write RunStarted. Raises ConfigError or Stop with nothing
    created, or StoreUnreachable/Unreachable with what to do next."""
    from pipeline import plugins

    store = store_of(settings, config.run, config.payload.max_bytes)
    config = resolve_budget(config, store.check_server().maxmemory)
    store.close()
    prompts, eval_prompts = plugins.prompts(config), plugins.eval_prompts(config)
    check_source(config, prompts)
    if eval_prompts is not None:
        check_source(config, eval_prompts, "eval_prompts")
    text = canonical(config)
    rules = rules_of(text)
    if config.start is not None:
        _check_start(RunFiles(settings.data_dir / config.run), config.start)
    if eval_prompts is not None and rules.evaluation.every:
        _check_eval_prompts(eval_prompts, rules)
    started = RunStarted(
        run=config.run,
        config=text,
        config_hash=config_hash(text),
        decision_versions=dict(DECISION_VERSIONS),
        filter_hashes=filter_hashes(config),
        sources=source_hashes(config),
        prompts_hash=prompts.content_hash,
        prompt_sizes=_sizes(prompts),
        eval_prompts_hash=eval_prompts.content_hash if eval_prompts is not None else None,
        eval_prompt_sizes=_sizes(eval_prompts) if eval_prompts is not None else {},
        created_by=CREATED_BY,
        at=time.time_ns() // 1_000_000,
    )
    if (size := len(encode(started))) > MOST_BYTES:
        message = f"the run's first record holds it all, and would have {size} bytes; expected at most {MOST_BYTES}: "
        raise ConfigError.of("too_large", message + "keep large options in a file, and name that")
    connection = connection_of(settings, config.run)
    create_run(connection, rules)
    try:
        write_facts(connection, "init", [Output(Topic.LEDGER, 0, started)])
    except BaseException:
        with suppress(Exception):
            delete_run(connection)
        raise
    given = {"prompts": prompts, "eval_prompts": eval_prompts}
    left_out = {name: getattr(source, "left_out", {}) for name, source in given.items()}
    return StartedRun(started, config, rules, {name: found for name, found in left_out.items() if found})


def started_with(config: DecisionConfig, settings: ProcessSettings) -> StartedRun | None:
    """The run of that name if it was started with this configuration, None if there is none. A payload budget that
    isn't configured may be any, and so may the place where it was forked. ConfigError if the run was started with
    another configuration."""
    connection = connection_of(settings, config.run)
    if config.run not in list_runs(connection):
        return None
    run = open_run(connection)
    budget = config.payload.budget or run.config.payload.budget
    payload = config.payload.model_copy(update={"budget": budget})
    update = {"payload": payload, "start": config.start or run.config.start}
    wanted, recorded = canonical(config.model_copy(update=update)), run.started.config
    if wanted != recorded:
        differing = ", ".join(_differing(json.loads(wanted), json.loads(recorded)))
        message = (
            f"run {config.run} was started with other values of {differing}, and goes on under those alone; take them, "
            f"name another run, or go on with yours in a new one: `{fork_of(config.run)} --config FILE`"
        )
        raise ConfigError.of("other_configuration", message, ("run",))
    return run


def _differing(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    return sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))


def _check_eval_prompts(source: PromptSource, rules: Rules) -> None:
    """An evaluation asks all of its prompts, so each must be one that can be issued. Raises ConfigError."""
    from pipeline.prompts.feed import Feed

    feed = Feed(source, rules)
    for domain, ordinal in plan(rules, feed, tuple(source.domains())):
        found = feed.at(domain, ordinal, 0)
        if found.problem is not None:
            message = (
                f"prompt {found.id} of domain {domain} is too long: {found.problem}; shorten it, or raise the limit"
            )
            raise ConfigError.of("eval_prompt_too_long", message, ("eval_prompts",))


def _check_start(files: RunFiles, start: Start) -> None:
    """Raise ConfigError unless the checkpoint that the run begins with is in its folder."""
    try:
        files.checked(start.policy())
    except FileMissing as error:
        raise ConfigError.of("no_start", f"{error}; `tamis fork` puts it there", ("start", "checkpoint")) from error


def _sizes(source: PromptSource) -> dict[str, int]:
    return {domain: source.size(domain) for domain in source.domains()}


def open_run(connection: Connection) -> StartedRun:
    """Read what an existing run decides. Stop if this release decides otherwise, or its topics are not as they were."""
    started = read_run_started(connection)
    if started.decision_versions != DECISION_VERSIONS:
        raise Stop(
            f"run {started.run} was started with decision versions {started.decision_versions}, this release has "
            f"{DECISION_VERSIONS}: use the release that started it, or go on in a new run: `{fork_of(started.run)}`"
        )
    rules = rules_of(started.config)
    check_topics(connection, rules)
    return StartedRun(started, parse_canonical(started.config), rules)


def check_prompts(started: RunStarted, prompts: PromptSource, eval_prompts: PromptSource | None) -> None:
    """Stop if a prompt source isn't the one that the run was started with: its prompts would be others."""
    given = {"prompts": prompts.content_hash}
    recorded = {"prompts": started.prompts_hash}
    if eval_prompts is not None and started.eval_prompts_hash is not None:
        given["eval_prompts"], recorded["eval_prompts"] = eval_prompts.content_hash, started.eval_prompts_hash
    for name, found in given.items():
        if found != recorded[name]:
            raise Stop(
                f"{name} has changed since run {started.run} was started (content {found[:12]}…, recorded "
                f"{recorded[name][:12]}…): put the old one back, or go on in a new run: `{fork_of(started.run)}`"
            )
