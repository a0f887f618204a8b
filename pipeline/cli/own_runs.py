"""Running and stopping runs; making them is in making.py, deleting them in deleting.py."""

from __future__ import annotations

import os
import runpy
import sys
import time
from typing import Annotated

import typer

from pipeline.cli import configuring, making
from pipeline.cli.common import (
    OWN,
    STAGES,
    AsJson,
    Bootstrap,
    RedisUrl,
    Run,
    among,
    caution,
    connection_for,
    fail,
    known_runs,
    print_json,
    say,
    settings_for,
)
from pipeline.cli.deleting import delete
from pipeline.config import load_settings
from pipeline.domain import events as e


def add_to(app: typer.Typer) -> None:
    """Add these commands."""
    app.add_typer(configuring.app, name="config", rich_help_panel=OWN)
    for command in (making.init, making.fork, consume, stop, recover, delete):
        app.command(rich_help_panel=OWN)(command)


def consume(
    stage: Annotated[
        str,
        typer.Argument(
            help=f"One of: {', '.join(STAGES)}.", show_default=False, metavar="STAGE", autocompletion=among(STAGES)
        ),
    ],
    run: Annotated[
        str | None,
        typer.Option(help="Name of the run. Default: TAMIS_RUN.", metavar="RUN", autocompletion=known_runs),
    ] = None,
    slot: Annotated[
        str | None,
        typer.Option(
            help="Its place among processes of the stage. Default: TAMIS_SLOT, or the host name.", metavar="SLOT"
        ),
    ] = None,
    until_finished: Annotated[bool, typer.Option("--until-finished", help="End when the run is finished.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Say why it ends as JSON too, like its log; on a terminal it is a sentence.")
    ] = False,
    bootstrap: Bootstrap = None,
    redis_url: RedisUrl = None,
) -> None:
    """Run one consumer here, until stopped. Start as many of a stage as you like, each with its own --slot."""
    if stage not in STAGES:
        fail(f"there is no stage {stage!r}; expected one of: {', '.join(STAGES)}", 2)
    load_settings(run=run, slot=slot)  # refused by the names that were used
    settings = settings_for(run, bootstrap, redis_url)
    environment = {
        "TAMIS_BOOTSTRAP": settings.bootstrap,
        "TAMIS_REDIS_URL": settings.redis_url.get_secret_value() if settings.redis_url else None,
        "TAMIS_RUN": settings.run,
        "TAMIS_SLOT": slot or settings.slot,
        "TAMIS_DATA_DIR": str(settings.data_dir),
    }
    os.environ.update({name: value for name, value in environment.items() if value})
    sys.argv[1:] = [*["--until-finished"] * until_finished, *["--json"] * as_json]
    runpy.run_module(f"consumers.{stage}", run_name="__main__", alter_sys=True)


def stop(run: Run, as_json: AsJson = False, bootstrap: Bootstrap = None) -> None:
    """Ask a run to end in order: what is open is cancelled, a checkpoint is saved, every payload is dropped."""
    from pipeline.domain.topology import Output, StageName, Topic
    from pipeline.history.watch import read_view
    from pipeline.log.facts import write_facts
    from pipeline.log.members import members_of
    from pipeline.runs import open_run

    connection = connection_for(run, bootstrap)
    open_run(connection)
    if (outcome := read_view(connection)[0].outcome) is not None:
        if as_json:
            print_json({"run": run, "asked_ms": None, "outcome": str(outcome)})
        else:
            say(f"run {run} is over already: {outcome}")
        return
    if not members_of(connection, [StageName.SCHEDULER]):
        caution(f"no scheduler is at work: the request waits in the log (tamis consume scheduler --run {run})")
    asked = e.StopRequested(os.environ.get("USER") or "command line", time.time_ns() // 1_000_000)
    write_facts(connection, "cli", [Output(Topic.LEDGER, 0, asked)])
    if as_json:
        print_json({"run": run, "asked_ms": asked.at})
        return
    say(f"asked run {run} to stop; its scheduler answers with RunClosing (tamis tail {run})")


def recover(run: Run, as_json: AsJson = False, bootstrap: Bootstrap = None) -> None:
    """Rebuild the committed offsets of a run whose consumer groups were deleted, from the log itself."""
    from pipeline.log.recover import recover_run
    from pipeline.runs import open_run

    connection = connection_for(run, bootstrap)
    found = recover_run(connection, open_run(connection).rules)
    if as_json:
        print_json({str(stage): offsets for stage, offsets in found.items()})
        return
    for stage, offsets in found.items():
        say(f"{stage}: {offsets}")
    if not found:
        say(f"nothing to rebuild: every stage of run {run} has its committed offsets")
