"""`tamis delete`: all that there is of a run."""

from __future__ import annotations

import shutil
import sys
from typing import Annotated

import typer

from pipeline.cli.common import AsJson, Bootstrap, RedisUrl, Run, fail, print_json, say, settings_for


def delete(
    run: Run,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = None,
    redis_url: RedisUrl = None,
) -> None:
    """Delete a run: its topics, its payloads, its policies and checkpoints. Stop its processes first."""
    from pipeline.log.admin import delete_run, topics_of_run
    from pipeline.runs import connection_of, store_of

    settings = settings_for(run, bootstrap, redis_url)
    connection, store, folder = connection_of(settings, run), store_of(settings, run, 1), settings.data_dir / run
    known = len(topics_of_run(connection))
    found = _told(known, store.count_keys(), f"the folder {folder}" if folder.exists() else "")
    if found and not yes:
        doubt = "" if known else f" (Kafka at {settings.bootstrap} has no such run: is it the right one?)"
        _ask(f"{found} of run {run}{doubt}")
    topics = delete_run(connection)
    keys = sum(store.drop(some) for some in store.scan())
    files = folder.exists()
    if files:  # last, since nothing else tells where the weights are from
        shutil.rmtree(folder)
    if as_json:
        print_json({"run": run, "topics": topics, "payloads": keys, "folder": str(folder) if files else None})
        return
    gone = _told(topics, keys, f"the folder {folder}" if files else "")
    say(f"deleted {gone} of run {run}" if gone else f"there is no run {run}")


def _ask(what: str) -> None:
    """Go on only if a person says yes; on standard error, since standard output is for the answer."""
    if not sys.stdin.isatty():
        fail(f"deleting {what} needs a yes: use --yes where nobody can be asked", 2)
    typer.confirm(f"Delete for ever {what}?", abort=True, err=True)


def _told(topics: int, keys: int, folder: str) -> str:
    """What there is of a run, in words; empty if there is nothing."""
    counted = [f"{topics} topics"] * (topics > 0) + [f"{keys} payloads"] * (keys > 0) + [folder] * bool(folder)
    return ", ".join(counted[:-1]) + " and " * (len(counted) > 1) + "".join(counted[-1:])
