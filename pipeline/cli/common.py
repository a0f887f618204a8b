"""What the commands share: options, addresses, and how they speak."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from pipeline import local
from pipeline.config import ProcessSettings, load_settings
from pipeline.local.probe import kafka_listens, redis_listens
from pipeline.log.client import Connection

STAGES = ("scheduler", "generator", "scorer", "assembler", "filter", "batcher", "trainer", "reaper", "monitor")
STATE = Path(os.environ.get("TAMIS_STATE", ".tamis"))

SEE, OWN, LOOK = "See it work", "A run of your own", "What happened, and why"


def known_runs(incomplete: str) -> list[str]:
    """For the shell's completion: the runs on the broker that answers, none if none does."""
    from pipeline.log.admin import list_runs
    from pipeline.runs import connection_of

    with suppress(Exception):  # whatever is wrong, the command itself will say
        settings, _ = effective_settings(None, None, None)
        if settings.bootstrap is not None and kafka_listens(settings.bootstrap):
            return [run for run in list_runs(connection_of(settings, "any")) if run.startswith(incomplete)]
    return []


def among(words: Iterable[str]) -> Callable[[str], list[str]]:
    """For the shell's completion: these words."""
    known = list(words)
    return lambda incomplete: [word for word in known if word.startswith(incomplete)]


Run = Annotated[
    str,
    typer.Argument(
        help="Name of the run (tamis runs lists them).",
        show_default=False,
        metavar="RUN",
        autocompletion=known_runs,
    ),
]
Bootstrap = Annotated[
    str | None,
    typer.Option(
        help="Kafka's address, host:port. Default: TAMIS_BOOTSTRAP, or what `tamis up` started.", metavar="ADDRESS"
    ),
]
RedisUrl = Annotated[
    str | None,
    typer.Option(help="Redis' URL. Default: TAMIS_REDIS_URL, or what `tamis up` started.", metavar="URL"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]

out = Console(highlight=False, emoji=False, markup=False)
err = Console(stderr=True, highlight=False, emoji=False, markup=False)


def effective_settings(
    run: str | None, bootstrap: str | None, redis_url: str | None
) -> tuple[ProcessSettings, set[str]]:
    """Flags, else the environment, else what runs on this machine; and what came from the last of these."""
    found = load_settings(bootstrap=bootstrap, redis_url=redis_url, run=run)
    given = found.redis_url.get_secret_value() if found.redis_url else None
    complete = found.bootstrap is not None and given is not None
    here = {} if complete else {s.kind: s.address for s, alive in local.status(STATE) if alive}
    settings = load_settings(
        bootstrap=found.bootstrap or here.get("kafka"),
        redis_url=given or here.get("redis"),
        run=run,
        data_dir=os.environ.get("TAMIS_DATA_DIR") or STATE / "files",
    )
    asked = {"bootstrap": (found.bootstrap, "kafka"), "redis_url": (given, "redis")}
    return settings, {name for name, (own, kind) in asked.items() if own is None and kind in here}


def settings_for(
    run: str | None, bootstrap: str | None, redis_url: str | None, needs_redis: bool = True
) -> ProcessSettings:
    """Flags, else the environment, else what runs on this machine. Ends with a sentence if nothing listens there: a
    client would only wait."""
    settings, _ = effective_settings(run, bootstrap, redis_url)
    if settings.bootstrap is not None and not kafka_listens(settings.bootstrap):
        fail(_silent("Kafka", settings.bootstrap, "--bootstrap (TAMIS_BOOTSTRAP)"), 3)
    if needs_redis and settings.redis_url and not redis_listens(settings.redis_url.get_secret_value()):
        fail(_silent("Redis", settings.redis_address(), "--redis-url (TAMIS_REDIS_URL)"), 3)
    return settings


def connection_for(run: str, bootstrap: str | None) -> Connection:
    """The log of a run."""
    from pipeline.runs import connection_of

    return connection_of(settings_for(run, bootstrap, None, needs_redis=False), run)


def _silent(what: str, address: str | None, option: str) -> str:
    return f"{what} at {address} accepts no connection; start it, start one here with `tamis up`, or correct {option}"


def say(text: str, style: str = "") -> None:
    """A text for people, on as many lines as it has: a terminal's width doesn't break it, nor do brackets in it."""
    out.print(Text(text, style=style), soft_wrap=True)


def caution(text: str) -> None:
    """What can be done but probably isn't meant."""
    err.print(Text.assemble(("caution: ", "bold yellow"), text), soft_wrap=True)


def fail(text: str, code: int) -> NoReturn:
    """End with a sentence that says what to do next."""
    err.print(Text.assemble(("error: ", "bold red"), text), soft_wrap=True)
    raise SystemExit(code)


def print_json(value: Any) -> None:
    """One JSON document."""
    print(json.dumps(value, indent=2))
