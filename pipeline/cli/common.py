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

ANSWER_S = 10.0
"""How long a broker that accepts a connection may take to answer."""

SEE, OWN, LOOK = "See it work", "A run of your own", "What happened, and why"


def known_runs(incomplete: str) -> list[str]:
    """For the shell's completion: the runs on the broker that answers, none if none does."""
    from pipeline.log.admin import list_runs
    from pipeline.runs import connection_of

    with suppress(Exception):  # whatever is wrong, the command itself will say
        settings, _ = effective_settings(None, None, None)
        if settings.bootstrap is not None and kafka_listens(settings.bootstrap):
            return among(list_runs(connection_of(settings, "any")))(incomplete)
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
    here = {} if complete else {kind: address for kind, (address, alive) in _started().items() if alive}
    settings = load_settings(
        bootstrap=found.bootstrap or here.get("kafka"),
        redis_url=given or here.get("redis"),
        run=run,
        data_dir=os.environ.get("TAMIS_DATA_DIR") or STATE / "files",
    )
    asked = {"bootstrap": (found.bootstrap, "kafka"), "redis_url": (given, "redis")}
    return settings, {name for name, (own, kind) in asked.items() if own is None and kind in here}


def _started() -> dict[str, tuple[str, bool]]:
    """What `tamis up` started here: by kind its address, and whether it answers."""
    return {started.kind: (started.address, alive) for started, alive in local.status(STATE)}


def settings_for(
    run: str | None, bootstrap: str | None, redis_url: str | None, needs_redis: bool = True
) -> ProcessSettings:
    """Flags, else the environment, else what runs on this machine. Ends with a sentence if nothing answers there: a
    client would only wait, and say less."""
    from pipeline.log.admin import topics_of_broker
    from pipeline.runs import connection_of

    settings, _ = effective_settings(run, bootstrap, redis_url)
    if (problem := kafka_problem(settings)) is not None:
        fail(problem, 3)
    if needs_redis and (problem := redis_problem(settings)) is not None:
        fail(problem, 3)
    if settings.bootstrap is not None:
        topics_of_broker(connection_of(settings, run or "any"), ANSWER_S)
    return settings


def kafka_problem(settings: ProcessSettings) -> str | None:
    """Why nothing can be asked of Kafka; None if it listens, or if nothing says where it is."""
    if settings.bootstrap is None:
        return _gone("kafka", "Kafka")
    if kafka_listens(settings.bootstrap):
        return None
    return _silent("Kafka", settings.bootstrap, "--bootstrap (TAMIS_BOOTSTRAP)")


def redis_problem(settings: ProcessSettings) -> str | None:
    """The same of Redis."""
    if settings.redis_url is None:
        return _gone("redis", "Redis")
    if redis_listens(settings.redis_url.get_secret_value()):
        return None
    return _silent("Redis", settings.redis_address(), "--redis-url (TAMIS_REDIS_URL)")


def _gone(kind: str, name: str) -> str | None:
    """The sentence about a service that `tamis up` started and that has gone; None if it started none."""
    if (found := _started().get(kind)) is None or found[1]:
        return None
    return f"{name}, which `tamis up` started at {found[0]}, doesn't answer; `tamis up` starts it again"


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


def make_room(path: Path, option: str) -> None:
    """Make the folder of a file that is written at the end of something long. What is in the way is said now."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"{option} {path}: {error.filename}: {error.strerror}; name a file in a folder that can be written", 2)
    if not os.access(path.parent, os.W_OK):
        fail(f"{option} {path}: {path.parent} can't be written; name a file in a folder that can", 2)


def print_json(value: Any) -> None:
    """One JSON document."""
    print(json.dumps(value, indent=2))
