"""A new run from an old one's position: its checkpoint, and the prompts after those that it had drawn. Of the old run
nothing is changed, and the new one needs nothing of it any more."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.config import ConfigError, DecisionConfig, ProcessSettings, written
from pipeline.config.files import Document, read
from pipeline.config.load import checked
from pipeline.config.start import Start
from pipeline.domain import events as e
from pipeline.domain.forking import Position, newest, positions
from pipeline.domain.told import told_error
from pipeline.domain.topology import Topic
from pipeline.log.admin import check_free
from pipeline.log.client import Connection
from pipeline.log.codec import Poison, UnknownSchema
from pipeline.log.errors import Fatal, Stop
from pipeline.log.reader import read_topic
from pipeline.log.start import read_run_started
from pipeline.runs import StartedRun, connection_of, init_run
from pipeline.sdk import PromptSource
from pipeline.training.files import FileMissing, RunFiles


@dataclass(frozen=True, slots=True)
class Old:
    """The run that is gone on from. `unread`: why its ledger was read up to there only."""

    started: e.RunStarted
    position: Position
    unread: str | None


def read_old(connection: Connection, step: int | None = None) -> Old:
    """Its newest checkpoint, or that at or before a step, whatever release has written it. Stop if it has none."""
    started, unread = read_run_started(connection), list[str]()
    begun = json.loads(started.config).get("start", {}).get("prompts", {})
    events = _readable(connection, unread)
    position = newest(positions(events, started.prompt_sizes, begun), step)
    if position is None:
        limits = [f"at or before step {step}"] * (step is not None) + [f"before {found}" for found in unread]
        why = " and ".join(limits) or "yet: its trainer never began"
        advice = "there is nothing to go on from: make a new run of its configuration with tamis init CONFIG"
        raise Stop(f"run {connection.run} has no checkpoint {why}; {advice}")
    return Old(started, position, unread[0] if unread else None)


def _readable(connection: Connection, unread: list[str]) -> Iterator[e.Event]:
    """The ledger up to the first record that can't be read; why is added to `unread`."""
    offset = 0
    try:
        for record in read_topic(connection, Topic.LEDGER):
            offset = record.offset
            yield record.event()
    except (Poison, UnknownSchema, Fatal) as error:
        unread.append(f"ledger/0/{offset} ({error})")


def configured(old: Old, name: str, file: Path | None, overrides: Sequence[str] = ()) -> DecisionConfig:
    """The new run's configuration: that of a file, with `key.path=value` set over it, or the old run's own with the
    steps that it had left. ConfigError or Stop if no run can be made of it."""
    if file is not None:
        source = read(file)
        for assignment in overrides:
            source.override(assignment)
        return _named(source, name)
    try:
        return _named(_own(old), name)
    except (ConfigError, KeyError) as error:
        if isinstance(error, ConfigError) and error.problems[0].path == ("run",):
            raise
        message = f"this release can't take the configuration of run {old.started.run} as it is ({told_error(error)})"
        raise Stop(f"{message}; give one that it can: --config FILE") from error


def _named(source: Document, name: str) -> DecisionConfig:
    source.tree["run"], source.places["run",] = name, "--as"
    source.tree.pop("start", None)
    return checked(source)


def _own(old: Old) -> Document:
    source = written(old.started.config)
    whole = source.tree["steps"]
    source.tree["steps"] = whole - old.position.step
    if source.tree["steps"] < 1:
        raise Stop(
            f"run {old.started.run} has taken all of its {whole} steps: none is left; go on from an earlier checkpoint "
            "(--step N), or name a configuration that says how many steps to take (--config FILE)"
        )
    return source


def carried(old: Old, config: DecisionConfig, source: PromptSource) -> tuple[dict[str, int], list[str]]:
    """By domain, how many prompts count as drawn; and a sentence for each domain that has to start anew."""
    run, known = old.started.run, old.position.drawn
    missing, found, there = f"run {run} had no such domain", source.content_hash, old.started.prompts_hash
    if found != there:
        missing, known = f"its source has the content {found[:12]}…, that of run {run} had {there[:12]}…", {}
    anew = [f"domain {d} starts at its first prompt: {missing}" for d in config.domains if d not in known]
    return {domain: known.get(domain, 0) for domain in config.domains}, anew


def fork_run(old: Old, config: DecisionConfig, settings: ProcessSettings) -> tuple[StartedRun, list[str]]:
    """Make the new run; also, a sentence for each domain whose prompts start anew. Raises Stop or ConfigError with
    nothing made."""
    from pipeline import plugins

    run, position = old.started.run, old.position
    check_free(connection_of(settings, config.run))
    prompts, anew = carried(old, config, plugins.prompts(config))
    files = RunFiles(settings.data_dir / config.run)
    try:
        copy = files.adopt(RunFiles(settings.data_dir / run), position.checkpoint)
    except FileMissing as error:
        raise Stop(f"run {run}, step {position.step}: {error}; or take an earlier checkpoint: --step N") from error
    start = Start(
        run=run, step=position.step, version=copy.version, checkpoint=copy.path, sha256=copy.sha256, prompts=prompts
    )
    try:
        return init_run(config.model_copy(update={"start": start}), settings), anew
    except BaseException:
        files.drop(copy)
        raise
