"""All commands, and how they end: with a sentence and an exit code that say what to do, never with a traceback."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

import typer

from pipeline.cli import looking, own_runs, reporting, services
from pipeline.cli.common import STATE, fail
from pipeline.config.errors import ConfigError
from pipeline.demo.errors import DemoFailed
from pipeline.local import LocalServicesError
from pipeline.log.errors import LogError
from pipeline.process import configure_logs
from pipeline.store.errors import StoreConfigError, StoreError

HELP = """Tamis moves rollouts from generators to a trainer through a log that proves what happened to each of them.

[bold]See it work:[/bold]  tamis demo

[bold]A run of your own:[/bold]  tamis up, then tamis init CONFIG, then tamis consume STAGE for each stage (a process \
each), then tamis status RUN. examples/jsonl.yaml is a configuration to start from. tamis fork RUN --as NEW \
goes on from a run's last checkpoint under another configuration.

[bold]What happened, and why:[/bold]  tamis tail RUN shows the last decisions, tamis trace RUN GROUP tells the life of \
one group, and tamis audit RUN checks them all."""

EPILOG = """Addresses come from --bootstrap and --redis-url, else from TAMIS_BOOTSTRAP and TAMIS_REDIS_URL, else from \
what tamis up started here. TAMIS_STATE names the folder of the latter (default: .tamis).

Who asks for --json gets the answer as JSON on standard output. A refusal is a sentence on standard error and an \
exit code, with --json too.

Exit codes: 0 done, 1 the answer is no (an audit that isn't clean, a demo that failed), 2 something has to be changed \
first, 3 Kafka or Redis doesn't answer."""

app = typer.Typer(
    name="tamis",
    help=HELP,
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
services.add_to(app)
own_runs.add_to(app)
looking.add_to(app)
reporting.add_to(app)


def run(arguments: Sequence[str] | None = None) -> None:
    """Do what the command line says, and exit."""
    configure_logs("error")
    sys.path.append(os.getcwd())  # where a person keeps the plugins that a configuration names
    try:
        app(None if arguments is None else list(arguments), prog_name="tamis")
    except (StoreConfigError, ConfigError, ValueError) as error:
        fail(str(error), 2)
    except LocalServicesError as error:
        fail(str(error), error.exit_code)
    except StoreError as error:
        fail(str(error), 3)
    except LogError as error:
        fail(str(error), error.exit_code)
    except DemoFailed as error:
        fail(str(error), 1)
    except OSError as error:
        fail(_of_a_file(error), 2)
    except Exception as error:
        where = _kept(traceback.format_exc())
        fail(f"{type(error).__name__}: {error}. That is a bug in Tamis; {where}, please report it", 70)


def _kept(report: str) -> str:
    """Where a report of a crash is, or how to have one."""
    crash = STATE / "crash.txt"
    try:
        STATE.mkdir(parents=True, exist_ok=True)
        crash.write_text(report)
    except OSError:
        return f"no report can be written under {STATE}: set TAMIS_STATE to a folder that can be, do it again"
    return f"{crash} says where"


def _of_a_file(error: OSError) -> str:
    """The sentence about a file or folder that can't be used."""
    if not error.filename:
        return str(error)
    path, state = Path(str(error.filename)).absolute(), STATE.absolute()
    sentence = f"{error.strerror}: {error.filename}"
    if path.is_relative_to(state) or state.is_relative_to(path):
        return f"{sentence}; expected a folder that can be written: set TAMIS_STATE to one"
    return sentence
