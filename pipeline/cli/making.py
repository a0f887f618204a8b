"""Making runs: from a configuration, or from another run's position."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.common import (
    STAGES,
    AsJson,
    Bootstrap,
    RedisUrl,
    Run,
    caution,
    fail,
    print_json,
    say,
    settings_for,
)
from pipeline.cli.configuring import Config, Override
from pipeline.config import DecisionConfig, ProcessSettings, cautions, load
from pipeline.domain import events as e

if TYPE_CHECKING:
    from pipeline.runs import StartedRun


def init(
    config: Config,
    override: Override = None,
    if_missing: Annotated[
        bool, typer.Option("--if-missing", help="Do nothing if the run is there with this very configuration.")
    ] = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = None,
    redis_url: RedisUrl = None,
) -> None:
    """Create a run: check its configuration, make its topics, and fix its decisions in the log for ever."""
    from pipeline.runs import init_run, started_with

    decisions = load(config, override or [])
    settings = settings_for(decisions.run, bootstrap, redis_url)
    if if_missing and (there := started_with(decisions, settings)):
        if as_json:
            print_json(_facts(there.started, created=False))
        else:
            say(f"run {decisions.run} is there, with this configuration, {there.started.config_hash[:12]}")
        return
    _warn(decisions, settings)
    run = init_run(decisions, settings)
    if as_json:
        print_json(_facts(run.started, created=True))
        return
    _say_created(run)


def fork(
    run: Run,
    new: Annotated[str, typer.Option("--as", help="Name of the new run.", show_default=False, metavar="NEW")],
    config: Annotated[
        Path | None,
        typer.Option(
            help="The new run's configuration, whatever `run` says in it. Default: RUN's own, with the steps left.",
            exists=True,
            dir_okay=False,
            metavar="FILE",
        ),
    ] = None,
    override: Override = None,
    step: Annotated[
        int | None,
        typer.Option(min=0, help="Go on from the last checkpoint up to this step. Default: the newest.", metavar="N"),
    ] = None,
    as_json: AsJson = False,
    bootstrap: Bootstrap = None,
    redis_url: RedisUrl = None,
) -> None:
    """Go on in a new run from where RUN has its last checkpoint: with other filters, more steps, another release.

    Weights and optimizer are those of the checkpoint, the prompts those after the ones drawn. RUN is only read.
    """
    from pipeline.forks import configured, fork_run, read_old
    from pipeline.runs import connection_of

    if override and config is None:
        fail("--set changes the values of a file: name it with --config", 2)
    if new == run:
        fail(f"--as {new} is the run itself; give the new one another name", 2)
    settings = settings_for(None, bootstrap, redis_url)
    old = read_old(connection_of(settings, run), step)
    if old.unread is not None:
        caution(f"the ledger of run {run} is read as far as it can be, which is up to {old.unread}")
    decisions = configured(old, new, config, override or [])
    _warn(decisions, settings)
    made, anew = fork_run(old, decisions, settings)
    for sentence in anew:
        caution(sentence)
    if as_json:
        print_json(
            _facts(made.started, created=True)
            | {"start": made.config.start.model_dump() if made.config.start else None}
        )
        return
    position = old.position
    say(f"from run {run} at step {position.step}, with the weights of policy version {position.checkpoint.version}")
    for domain in made.rules.domains:
        if domain.drawn:
            say(f"domain {domain.name} goes on after the {domain.drawn} prompts that {run} had drawn")
    _say_created(made)


def _warn(decisions: DecisionConfig, settings: ProcessSettings) -> None:
    """Say what can be done but probably isn't meant."""
    from pipeline.runs import store_of

    store = store_of(settings, decisions.run, decisions.payload.max_bytes)
    maxmemory = store.check_server().maxmemory
    store.close()
    for problem in cautions(decisions, maxmemory):
        caution(str(problem))


def _say_created(run: StartedRun) -> None:
    for source, reasons in run.left_out.items():
        many = ", ".join(f"{count} by {reason}" for reason, count in sorted(reasons.items()))
        say(f"{source}: {sum(reasons.values())} rows are left out: {many}")
    name = run.started.run
    commands = "\n".join(f"  tamis consume {stage} --run {name}" for stage in STAGES)
    say(
        f"run {name} is created, configuration {run.started.config_hash[:12]}\n"
        f"now start its processes, each by itself:\n{commands}\nand see how it goes: tamis status {name}"
    )


def _facts(started: e.RunStarted, created: bool) -> dict[str, Any]:
    return {
        "run": started.run,
        "created": created,
        "config_hash": started.config_hash,
        "filter_hashes": started.filter_hashes,
    }
