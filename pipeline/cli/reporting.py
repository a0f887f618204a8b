"""`tamis report`: one HTML file about one run, or about several side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.common import (
    LOOK,
    AsJson,
    Bootstrap,
    RedisUrl,
    connection_for,
    fail,
    make_room,
    print_json,
    say,
    settings_for,
)
from pipeline.history.view import RunView

Runs = Annotated[
    list[str], typer.Argument(help="One run, or several to compare.", show_default=False, metavar="RUN...")
]
Out = Annotated[
    Path | None, typer.Option(help="Default: report-RUN.html.", dir_okay=False, writable=True, metavar="FILE")
]


def add_to(app: typer.Typer) -> None:
    """Add this command."""
    app.command(rich_help_panel=LOOK)(report)


def report(
    runs: Runs,
    out: Out = None,
    no_audit: Annotated[
        bool, typer.Option("--no-audit", help="Leave the audit out; it reads the whole run once more.")
    ] = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = None,
    redis_url: RedisUrl = None,
) -> None:
    """Write a report as one HTML file that needs nothing else.

    Of several runs: side by side as they ended, at equal wall time and at equal generated tokens; curves by step, time
    or tokens.
    """
    from pipeline.history.reports.compare import write_comparison
    from pipeline.history.watch import read_view

    names = list(dict.fromkeys(runs))
    path = out or Path(f"report-{'-'.join(names)[:100]}.html")
    make_room(path, "--out")
    if len(names) == 1:
        _write_one(names[0], path, no_audit, bootstrap, redis_url)
    else:
        views = [read_view(connection_for(name, bootstrap))[0] for name in names]
        for name, view in zip(names, views, strict=True):
            if view.started_ms is None:
                fail(f"run {name} has no record yet", 2)
        write_comparison(path, views)
    if as_json:
        print_json({"runs": names, "report": str(path.absolute())})
    else:
        say(str(path))


def _write_one(run: str, path: Path, no_audit: bool, bootstrap: str | None, redis_url: str | None) -> None:
    from pipeline.history.audits.audit import audit_run
    from pipeline.history.reports.report import write_report
    from pipeline.history.watch import read_view
    from pipeline.runs import connection_of, open_run, store_of

    settings = settings_for(run, bootstrap, redis_url)
    connection = connection_of(settings, run)
    store = store_of(settings, run, open_run(connection).rules.max_payload_bytes)
    view: RunView = read_view(connection)[0]
    found = None if no_audit else audit_run(connection, store)
    write_report(path, view, found, store.count_keys() if view.outcome else None)
