"""The demo, and Kafka and Redis on this machine."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from pipeline import local
from pipeline.cli.common import (
    SEE,
    STATE,
    AsJson,
    Bootstrap,
    RedisUrl,
    among,
    caution,
    err,
    fail,
    make_room,
    out,
    print_json,
    say,
)
from pipeline.config import load_settings
from pipeline.demo.tasks import DEFAULT, TASKS, choices
from pipeline.local.services import GIB, shown

MEMORY_MIB = GIB >> 20


def add_to(app: typer.Typer) -> None:
    """Add these commands."""
    for command in (demo, up, down):
        app.command(rich_help_panel=SEE)(command)


def demo(
    task: Annotated[
        str | None,
        typer.Option(
            help=f"What is learned. {'. '.join(choices())}. Default: {DEFAULT}.",
            metavar="TASK",
            autocompletion=among(TASKS),
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of everything: prompts, policy, sampling. Default: 1.", min=0, metavar="N")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Optimizer steps. Default: as the task needs.", min=1, metavar="N")
    ] = None,
    no_filter: Annotated[bool, typer.Option("--no-filter", help="Train on groups of equal rewards too.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the last demo where it was.")] = False,
    json_path: Annotated[
        Path | None,
        typer.Option("--json", help="Write the result there.", dir_okay=False, writable=True, metavar="PATH"),
    ] = None,
    bootstrap: Bootstrap = None,
    redis_url: RedisUrl = None,
) -> None:
    """Watch a small policy learn: every process on this machine, an audit and a report at the end.

    Ctrl-C stops it in order, and --resume goes on where it was.

    Kafka and Redis are started where none is named, and left running: tamis down stops them.
    """
    from pipeline.demo.run import Options, run_demo

    if resume and (task is not None or seed is not None or steps is not None or no_filter):
        fail("--resume goes on with the run as it was started: leave --task, --seed, --steps and --no-filter out", 2)
    name = DEFAULT if task is None else task
    if name not in TASKS:
        fail("\n  ".join((f"there is no task {name!r}; expected one of:", *choices())), 2)
    if json_path is not None:
        make_room(json_path, "--json")
    named = load_settings(bootstrap=bootstrap, redis_url=redis_url)
    options = Options(
        state=STATE.absolute(),
        task=name,
        seed=1 if seed is None else seed,
        steps=steps or TASKS[name].steps,
        filtered=not no_filter,
        resume=resume,
        json_path=json_path,
        bootstrap=named.bootstrap,
        redis_url=named.redis_url.get_secret_value() if named.redis_url else None,
    )
    raise typer.Exit(run_demo(options, out))


def up(
    maxmemory: Annotated[
        int | None,
        typer.Option(help=f"Memory for a Redis that is started now, MiB. Default: {MEMORY_MIB}.", min=16, metavar="N"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Start Kafka and Redis on this machine, or find those that run; prints their addresses."""
    wanted = MEMORY_MIB if maxmemory is None else maxmemory
    services = local.ensure(STATE, redis_maxmemory=wanted << 20, say=lambda text: err.print(text, style="dim"))
    if maxmemory is not None and (problem := other_memory(services.redis_url, maxmemory)) is not None:
        caution(problem)
    if as_json:
        print_json({"bootstrap": services.bootstrap, "redis_url": services.redis_url})
        return
    say(f"export TAMIS_BOOTSTRAP={services.bootstrap}\nexport TAMIS_REDIS_URL={services.redis_url}")


def other_memory(redis_url: str, wanted: int) -> str | None:
    """The sentence about a Redis that ran already, with another limit than is asked for (MiB)."""
    from pipeline.store.payloads import PayloadStore

    store = PayloadStore(redis_url, "any", max_payload_bytes=1)
    has = store.check_server().maxmemory >> 20
    store.close()
    if has == wanted:
        return None
    docker = any(started.kind == "redis" and started.backend == "docker" for started, _ in local.status(STATE))
    down = "`tamis down --wipe`, which deletes all runs," if docker else "`tamis down`"
    return (
        f"Redis at {shown(redis_url)} runs already, with {has} MiB; for {wanted} MiB: {down} and `tamis up "
        f"--maxmemory {wanted}`"
    )


def down(
    wipe: Annotated[bool, typer.Option("--wipe", help="Delete their data as well: all runs, all policies.")] = False,
    as_json: AsJson = False,
) -> None:
    """Stop the Kafka and Redis that `up` or `demo` started; their data stays unless --wipe."""
    stopped = local.down(STATE, wipe=wipe)
    if wipe:
        shutil.rmtree(STATE / "files", ignore_errors=True)
        (STATE / "demo.json").unlink(missing_ok=True)
    if as_json:
        print_json({"stopped": stopped})
        return
    say("\n".join(f"stopped {name}" for name in stopped) or "nothing was running")
