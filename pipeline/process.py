"""What every consumer process has in common: settings, logs, the run it serves, signals, a sign of life."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from pipeline.changes import announce
from pipeline.config import DecisionConfig, ProcessSettings, load_settings
from pipeline.config.errors import ConfigError
from pipeline.domain.events import RunStarted
from pipeline.domain.rules import Rules
from pipeline.health import VARIABLE, Heartbeat
from pipeline.log.client import Connection
from pipeline.log.codec import Members
from pipeline.log.errors import Fenced, LogError
from pipeline.log.hooks import Hooks
from pipeline.metrics import own
from pipeline.metrics.server import metrics_server
from pipeline.runs import connection_of, open_run, store_of
from pipeline.store.errors import StoreError

if TYPE_CHECKING:
    from pipeline.store.payloads import PayloadStore

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Process:
    """A consumer process and the run that it serves."""

    settings: ProcessSettings
    connection: Connection
    started: RunStarted
    config: DecisionConfig
    rules: Rules
    members: Members
    stopping: Callable[[], bool]
    until_finished: bool
    heartbeat: Heartbeat = field(default_factory=Heartbeat)

    def store(self) -> PayloadStore:
        """The run's payloads, on a Redis that can't lose them. Raises StoreError."""
        store = store_of(self.settings, self.rules.run, self.rules.max_payload_bytes)
        store.check_server()
        return store

    def hooks(self, **more: Any) -> Hooks:
        """What a loop in this process tells: that it lives, and what of its decisions is worth a line of log."""
        return Hooks(heartbeat=self.heartbeat, written=announce, **more)

    def folder(self) -> Path:
        """The run's files, which trainer and generators share."""
        return self.settings.data_dir / self.rules.run


def run_consumer(name: str, serve: Callable[[Process], int]) -> int:
    """Start a consumer: read its settings and its run, serve until told to stop, and say why it ends. Exit codes: 0
    done or stopped, 2 a person has to act, others: start it again."""
    parser = argparse.ArgumentParser(prog=f"python -m consumers.{name}", description=f"The {name} of a Tamis run.")
    parser.add_argument("--until-finished", action="store_true", help="exit 0 when the run is finished")
    parser.add_argument("--json", action="store_true", help="say why it ends as JSON on a terminal too")
    given = parser.parse_args()
    until_finished, refuse = bool(given.until_finished), refusal(bool(given.json))
    configure_logs("error", consumer=name)  # until it is known what is wanted
    try:
        settings = load_settings()
        configure_logs(settings.log_level, **who(name, settings))
        stopping = stop_on_signals()
        connection = connection_of(settings)
        run = open_run(connection)
        calm_collector()
        if name != "monitor":  # which serves the run's
            metrics_server(own.REGISTRY)
        return serve(
            Process(settings, connection, run.started, run.config, run.rules, Members(), stopping, until_finished)
        )
    except (ConfigError, StoreError) as error:
        refuse("cannot go on", str(error))
        return 2 if isinstance(error, ValueError) else 3
    except OSError as error:
        if error.filename is None:  # not of a file
            raise
        refuse("cannot go on", unusable(error))
        return 2
    except LogError as error:
        if isinstance(error, Fenced):
            log.info("ends", why=str(error))
        else:
            refuse("ends", str(error))
        return error.exit_code


def refusal(as_json: bool) -> Callable[[str, str], None]:
    """How a process says why it can't go on: a person at a terminal gets a sentence, as from all commands; a log, or
    who asks for JSON, a line like the others."""
    return print_refusal if sys.stderr.isatty() and not as_json else log_refusal


def print_refusal(what: str, why: str) -> None:
    """For people."""
    print(f"error: {why}", file=sys.stderr)


def log_refusal(what: str, why: str) -> None:
    """For programs."""
    log.error(what, why=why)


def who(consumer: str, settings: ProcessSettings) -> dict[str, str]:
    """What each line of a consumer's log begins with."""
    return {"consumer": consumer, "slot": settings.slot, **({"run": settings.run} if settings.run else {})}


def unusable(error: OSError) -> str:
    """The sentence about a file or folder that can't be used."""
    heartbeat = os.environ.get(VARIABLE)
    of_heartbeat = heartbeat is not None and str(error.filename).startswith(str(Path(heartbeat)))
    variable, what = (VARIABLE, "a file in one") if of_heartbeat else ("TAMIS_DATA_DIR", "one")
    return (
        f"{error.filename}: {error.strerror}; expected a place that this process may read and write, in a container a "
        f"volume: set {variable} to {what}, or mend this one"
    )


def calm_collector() -> None:
    """Have the garbage collector look less often: records make no cycles, and what is imported stays."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def stop_on_signals() -> Callable[[], bool]:
    """SIGTERM and SIGINT set a flag that loops look at; a second one ends the process at once."""
    received: list[int] = []

    def receive(number: int, frame: object) -> None:
        if received:
            os._exit(128 + number)
        received.append(number)

    signal.signal(signal.SIGTERM, receive)
    signal.signal(signal.SIGINT, receive)
    return lambda: bool(received)


def configure_logs(level: str, **everywhere: str) -> None:
    """One line of JSON for each batch or change of state, on standard error; `everywhere` stands in each, whatever
    thread it comes from."""
    structlog.configure(
        processors=[
            lambda logger, method, line: {**everywhere, **line},
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
    )
