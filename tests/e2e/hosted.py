"""What the test processes run: one consumer as its container does, or several as threads of one process.

The processes are forked from a server that has imported everything, so that a start costs no imports.
"""

from __future__ import annotations

import faulthandler
import importlib
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence

import structlog

import consumers.assembler
import consumers.batcher
import consumers.filter
import consumers.generator
import consumers.reaper
import consumers.scheduler
import consumers.scorer
import consumers.trainer  # noqa: F401 - with torch, once for all
from pipeline.config import load_settings
from pipeline.log.codec import Members
from pipeline.log.errors import LogError
from pipeline.process import Process, configure_logs, stop_on_signals
from pipeline.runs import connection_of, open_run


def run(roles: Sequence[str], flags: Sequence[str], environment: Mapping[str, str], log: str) -> None:
    """Entry point of a test process."""
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(file, 1)
    os.dup2(file, 2)
    faulthandler.register(signal.SIGUSR1, file=os.fdopen(os.dup(file), "w"))
    os.environ.update(environment)
    sys.argv = ["consumers", *flags]
    if len(roles) == 1:
        sys.exit(importlib.import_module(f"consumers.{roles[0]}").main())
    sys.exit(run_together(roles, "--until-finished" in flags))


def run_together(roles: Sequence[str], until_finished: bool) -> int:
    """Several consumers as threads. The first that fails ends them all, with its exit code."""
    settings = load_settings()
    configure_logs(settings.log_level)
    told = stop_on_signals()
    connection = connection_of(settings)
    found = open_run(connection)
    failures: list[BaseException] = []

    def stopping() -> bool:
        return bool(failures) or told()

    process = Process(
        settings, connection, found.started, found.config, found.rules, Members(), stopping, until_finished
    )

    def serve(role: str) -> None:
        structlog.contextvars.bind_contextvars(consumer=role, slot=settings.slot)
        try:
            importlib.import_module(f"consumers.{role}").serve(process)
        except BaseException as error:
            structlog.get_logger().exception("failed", role=role)
            failures.append(error)

    threads = [threading.Thread(target=serve, args=(role,), name=role) for role in roles]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not failures:
        return 0
    return failures[0].exit_code if isinstance(failures[0], LogError) else 1
