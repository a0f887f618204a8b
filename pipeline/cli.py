"""The command line: `tamis --help` teaches the flow. Every command says what to do next when it can't go on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from pipeline import local
from pipeline.config import DecisionConfig, ProcessSettings, load, load_settings
from pipeline.config.errors import ConfigError
from pipeline.domain import events as e
from pipeline.domain.topology import Output, Topic
from pipeline.local import LocalServicesError
from pipeline.log.client import Connection
from pipeline.log.errors import LogError
from pipeline.store.errors import StoreError

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="""Tamis moves rollouts from generators to a trainer through a log that proves what happened.

[bold]See it work:[/]  tamis demo

[bold]A run of your own:[/]  tamis up → tamis init CONFIG → tamis consume STAGE (one process each) → tamis status RUN

[bold]What happened, and why:[/]  tamis trace RUN GROUP, tamis tail RUN, tamis audit RUN""",
)

STAGES = ("scheduler", "generator", "scorer", "assembler", "filter", "batcher", "trainer", "reaper", "monitor")
STATE = Path(os.environ.get("TAMIS_STATE", ".tamis"))

Run = Annotated[str, typer.Argument(help="Name of the run (tamis runs lists them).", show_default=False)]
Bootstrap = Annotated[
    str | None, typer.Option(help="Kafka's address, host:port. Default: TAMIS_BOOTSTRAP, or what `tamis up` started.")
]
RedisUrl = Annotated[str | None, typer.Option(help="Redis' URL. Default: TAMIS_REDIS_URL, or what `tamis up` started.")]
AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]

out = Console()
err = Console(stderr=True)


def settings_for(run: str | None, bootstrap: str | None, redis_url: str | None) -> ProcessSettings:
    """Flags, else the environment, else what runs on this machine."""
    found = load_settings(bootstrap=bootstrap, redis_url=redis_url, run=run)
    services = {s.kind: s.address for s, alive in local.status(STATE) if alive}
    return load_settings(
        bootstrap=found.bootstrap or services.get("kafka"),
        redis_url=found.redis_url.get_secret_value() if found.redis_url else services.get("redis"),
        run=run,
        data_dir=os.environ.get("TAMIS_DATA_DIR") or STATE / "files",
    )


def connection_for(run: str, bootstrap: str | None, redis_url: str | None = None) -> Connection:
    """The log of a run."""
    from pipeline.runs import connection_of

    return connection_of(settings_for(run, bootstrap, redis_url), run)


# ------------------------------------------------------------------------------------------------------ demo, services


@app.command()
def demo(
    seed: Annotated[int, typer.Option(help="Seed of everything: prompts, policy, sampling.")] = 1,
    steps: Annotated[int | None, typer.Option(help="Optimizer steps.", min=1, show_default="120")] = None,
    no_filter: Annotated[bool, typer.Option("--no-filter", help="Train on groups of equal rewards too.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the last demo where it was.")] = False,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write the result there.")] = None,
    bootstrap: Bootstrap = None,
    redis_url: RedisUrl = None,
) -> None:
    """Watch a small policy learn: every process, on this machine, with an audit and a report at the end."""
    from pipeline.demo.recipe import STEPS
    from pipeline.demo.run import Options, run_demo

    named = load_settings(bootstrap=bootstrap, redis_url=redis_url)
    options = Options(
        STATE.absolute(), seed, steps or STEPS, not no_filter, resume, json_path, named.bootstrap,
        named.redis_url.get_secret_value() if named.redis_url else None,
    )  # fmt: skip
    raise typer.Exit(run_demo(options, out))


@app.command()
def up(
    maxmemory: Annotated[int, typer.Option(help="Memory for Redis, MiB.", min=16)] = 1024,
) -> None:
    """Start Kafka and Redis on this machine, or find those that run; prints their addresses."""
    services = local.ensure(STATE, redis_maxmemory=maxmemory << 20, say=lambda text: err.print(text, style="dim"))
    out.print(
        f"export TAMIS_BOOTSTRAP={services.bootstrap}\nexport TAMIS_REDIS_URL={services.redis_url}", soft_wrap=True
    )


@app.command()
def down(
    wipe: Annotated[bool, typer.Option("--wipe", help="Delete their data as well: all runs.")] = False,
) -> None:
    """Stop the Kafka and Redis that `up` or `demo` started; their data stays unless --wipe."""
    stopped = local.down(STATE, wipe=wipe)
    out.print("\n".join(f"stopped {name}" for name in stopped) or "nothing was running")


# --------------------------------------------------------------------------------------------------------- own runs


@app.command()
def init(
    config: Annotated[Path, typer.Argument(help="YAML or TOML file; examples/ has one.", exists=True, dir_okay=False)],
    override: Annotated[list[str] | None, typer.Option("--set", help="key.path=value; may be repeated.")] = None,
    bootstrap: Bootstrap = None,
    redis_url: RedisUrl = None,
) -> None:
    """Create a run: check its configuration, make its topics, and fix its decisions in the log for ever."""
    from pipeline.config import cautions
    from pipeline.runs import init_run

    decisions: DecisionConfig = load(config, override or [])
    for caution in cautions(decisions):
        err.print(f"[yellow]caution:[/] {caution}", highlight=False)
    run = init_run(decisions, settings_for(decisions.run, bootstrap, redis_url))
    out.print(
        f"run {run.rules.run} is created, configuration {run.started.config_hash[:12]}\n"
        f"start its processes, one each: " + ", ".join(f"tamis consume {stage}" for stage in STAGES)
        + f" --run {run.rules.run}",
        highlight=False,
    )  # fmt: skip


@app.command()
def consume(
    stage: Annotated[str, typer.Argument(help=f"One of: {', '.join(STAGES)}.", show_default=False)],
    run: Annotated[str | None, typer.Option(help="Name of the run. Default: TAMIS_RUN.")] = None,
    slot: Annotated[
        str | None, typer.Option(help="Its place among processes of the stage. Default: the host name.")
    ] = None,
    until_finished: Annotated[bool, typer.Option("--until-finished", help="End when the run is finished.")] = False,
    bootstrap: Bootstrap = None,
    redis_url: RedisUrl = None,
) -> None:
    """Run one consumer in this process, until stopped. Start as many of a stage as you like, each with its own slot."""
    if stage not in STAGES:
        _fail(f"there is no stage {stage!r}; expected one of: {', '.join(STAGES)}", 2)
    settings = settings_for(run, bootstrap, redis_url)
    environment = {
        "TAMIS_BOOTSTRAP": settings.bootstrap,
        "TAMIS_REDIS_URL": settings.redis_url.get_secret_value() if settings.redis_url else None,
        "TAMIS_RUN": settings.run,
        "TAMIS_SLOT": slot or settings.slot,
        "TAMIS_DATA_DIR": str(settings.data_dir),
    }
    os.environ.update({name: value for name, value in environment.items() if value})
    flags = ["--until-finished"] if until_finished else []
    os.execv(sys.executable, [sys.executable, "-m", f"consumers.{stage}", *flags])  # noqa: S606


@app.command()
def stop(run: Run, bootstrap: Bootstrap = None) -> None:
    """Ask a run to end in order: what is open is cancelled, a checkpoint is saved, every payload is dropped."""
    from pipeline.log.facts import FactWriter

    connection = connection_for(run, bootstrap)
    asked = e.StopRequested(os.environ.get("USER") or "command line", time.time_ns() // 1_000_000)
    FactWriter(connection, "cli").write([Output(Topic.LEDGER, 0, asked)])
    out.print(f"asked run {run} to stop; its scheduler answers with RunClosing (tamis tail {run})", highlight=False)


@app.command()
def recover(run: Run, bootstrap: Bootstrap = None) -> None:
    """Rebuild the committed offsets of a run whose consumer groups were deleted, from the log itself."""
    from pipeline.log.recover import recover_run
    from pipeline.runs import open_run

    connection = connection_for(run, bootstrap)
    for stage, offsets in recover_run(connection, open_run(connection).rules).items():
        out.print(f"{stage}: {offsets}", highlight=False)


# ------------------------------------------------------------------------------------------------------- looking at it


@app.command()
def runs(bootstrap: Bootstrap = None) -> None:
    """List the runs on this Kafka."""
    from pipeline.log.admin import list_runs

    names = list_runs(connection_for("any", bootstrap))
    out.print("\n".join(names) or "no runs; create one with tamis init, or try tamis demo")


@app.command()
def status(run: Run, as_json: AsJson = False, bootstrap: Bootstrap = None, redis_url: RedisUrl = None) -> None:
    """How a run stands: steps, groups, stages with their lag, payloads in Redis."""
    from pipeline.history.status import status_of
    from pipeline.runs import connection_of, open_run, store_of

    settings = settings_for(run, bootstrap, redis_url)
    connection = connection_of(settings, run)
    opened = open_run(connection)
    found = status_of(connection, opened.rules, store_of(settings, run, opened.rules.max_payload_bytes))
    if as_json:
        _print_json(found)
        return
    for name, value in found.items():
        if name != "stages":
            out.print(f"{name:<16} {value}", highlight=False)
    table = Table("stage", "partition", "committed", "end", "lag", box=None)
    for row in found["stages"]:
        table.add_row(*(str(row[column]) for column in ("stage", "partition", "committed", "end", "lag")))
    out.print(table)


@app.command()
def tail(
    run: Run,
    topic: Annotated[str, typer.Argument(help=f"One of: {', '.join(t.value for t in Topic)}.")] = "ledger",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as records arrive.")] = False,
    last: Annotated[int, typer.Option(help="Only the last so many; 0: all.", min=0)] = 20,
    group: Annotated[str | None, typer.Option(help="Only records about this group.")] = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Print the records of a topic as JSON, one a line."""
    from pipeline.history.tail import tail_lines

    if topic not in {t.value for t in Topic}:
        _fail(f"there is no topic {topic!r}; expected one of: {', '.join(t.value for t in Topic)}", 2)
    for text in tail_lines(connection_for(run, bootstrap), Topic(topic), follow=follow, last=last, group=group):
        print(text, flush=follow)


@app.command()
def trace(
    run: Run,
    group: Annotated[str, typer.Argument(help="Id of the group, such as 17@0.", show_default=False)],
    bootstrap: Bootstrap = None,
) -> None:
    """Tell the life of one group: what happened to it, when, and why."""
    from pipeline.history.records import KafkaLog
    from pipeline.history.trace import trace_run

    told = trace_run(KafkaLog(connection_for(run, bootstrap)), group)
    if not told:
        _fail(f"run {run} has no group {group}; tamis tail {run} shows its last ones", 2)
    for line in told:
        out.print(f"[dim]{line.after_s:>9.3f} s[/]  {line.text}  [dim]{line.where}[/]", highlight=False, soft_wrap=True)


@app.command()
def audit(run: Run, as_json: AsJson = False, bootstrap: Bootstrap = None, redis_url: RedisUrl = None) -> None:
    """Check every invariant of a run, and that replay gives the recorded decisions. Exit code 1 if not."""
    from pipeline.history.audit import audit_run
    from pipeline.runs import connection_of, open_run, store_of

    settings = settings_for(run, bootstrap, redis_url)
    connection = connection_of(settings, run)
    found = audit_run(connection, store_of(settings, run, open_run(connection).rules.max_payload_bytes))
    if as_json:
        _print_json(
            {"clean": found.clean, "violations": found.violations, "pending": found.pending, "checked": found.checked}
        )
    else:
        for name, many in found.checked.items():
            out.print(f"{name:<20} {many:>10,}", highlight=False)
        for text in found.pending[:20]:
            out.print(f"pending: {text}", highlight=False)
        out.print("clean" if found.clean else "\n".join(f"[red]{text}[/]" for text in found.violations[:50]))
    raise typer.Exit(0 if found.clean else 1)


# ----------------------------------------------------------------------------------------------------------- plumbing


def main() -> None:
    """Entry point: errors that a person can mend are one sentence, not a traceback."""
    _guarded(app)


def _guarded(command: Callable[[], Any]) -> None:
    try:
        command()
    except (ConfigError, LocalServicesError, StoreError, FileNotFoundError, ValueError) as error:
        _fail(str(error), 2)
    except LogError as error:
        _fail(str(error), error.exit_code)
    except subprocess.CalledProcessError as error:
        _fail(str(error), 1)


def _fail(text: str, code: int) -> NoReturn:
    err.print(f"[bold red]error:[/] {text}", highlight=False, soft_wrap=True)
    raise SystemExit(code)


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))


if __name__ == "__main__":
    main()
