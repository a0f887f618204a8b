"""Looking at runs. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from pipeline.cli import dead_letters
from pipeline.cli.common import (
    LOOK,
    AsJson,
    Bootstrap,
    RedisUrl,
    Run,
    connection_for,
    fail,
    out,
    print_json,
    redis_problem,
    say,
    settings_for,
)
from pipeline.cli.groups import check_group
from pipeline.cli.tailing import tail
from pipeline.cli.top import top
from pipeline.cli.what_if import what_if
from pipeline.config import ConfigError, ProcessSettings

if TYPE_CHECKING:
    from pipeline.domain.rules import Rules
    from pipeline.store.payloads import PayloadStore


def add_to(app: typer.Typer) -> None:
    """Add these commands."""
    for command in (runs, status, top, tail, trace, audit, what_if):
        app.command(rich_help_panel=LOOK)(command)
    app.add_typer(dead_letters.app, name="dead-letters", rich_help_panel=LOOK)


def runs(
    long: Annotated[bool, typer.Option("--long", "-l", help="Say when each was made, and how it stands.")] = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = None,
) -> None:
    """List the runs on this Kafka.

    With --long: running if a scheduler serves it, idle if none does, closing if it is about to end; completed, stopped,
    starved or failed if it has; not started if its creation was cut short (tamis delete removes it); unreadable if it
    was started by another release, or its beginning is gone (tamis status says which).
    """
    from pipeline.history.overview import overview
    from pipeline.log.admin import list_runs

    connection = connection_for("any", bootstrap)
    if long:
        stand = overview(connection)
        wide = max((len(one.run) for one in stand), default=0)
        found: list[Any] = [one._asdict() for one in stand]
        lines = [f"{one.run:<{wide}}  {_moment(one.started_ms):<19}  {one.state}" for one in stand]
    else:
        found = lines = list_runs(connection)
    if as_json:
        print_json(found)
    else:
        say("\n".join(lines) or "no runs; create one with tamis init, or try tamis demo")


def _moment(at_ms: int | None) -> str:
    """A time of day here, to the second."""
    return "" if at_ms is None else datetime.fromtimestamp(at_ms / 1000).isoformat(" ", "seconds")


def status(run: Run, as_json: AsJson = False, bootstrap: Bootstrap = None, redis_url: RedisUrl = None) -> None:
    """How a run stands: steps, groups, who waits for what, stages with their lag and processes, payloads in Redis.

    A domain's lead is the number of accepted, untrained groups to aim at; groups that are open may take it beyond.
    """
    from pipeline.history.status import status_of
    from pipeline.runs import connection_of, open_run

    settings = settings_for(run, bootstrap, redis_url, needs_redis=False)
    connection = connection_of(settings, run)
    opened = open_run(connection)
    found = status_of(connection, opened.rules, _store(settings, opened.rules), opened.config.verifiers)
    if as_json:
        print_json(found)
        return
    found["step"] = f"{found['step']} of {found.pop('steps')}"
    for name, value in found.items():
        if name not in ("stages", "problems", "domains", "shadows", "waiting", "members"):
            say(f"{name.replace('_', ' '):<18} {_words(value)}")
    for sentence in found["waiting"]:
        say(f"{'waiting':<18} {sentence}")
    for problem in found["problems"]:
        say(f"{'problem':<18} {problem}", "red")
    columns = ("open", "untrained", "lead", "judged", "accepted", "low_information", "invalid", "system")
    _print_rows(found["domains"], "domain", columns)
    _print_rows(found["shadows"], "shadow", ("domain", "asked", "accepts", "accepts_rejected", "rejects_accepted"))
    _print_rows(found["stages"], "stage", ("partition", "committed", "end", "lag"))
    for member in found["members"]:
        member["serves"] = ", ".join(map(str, member["partitions"])) or "stands by"
    _print_rows(found["members"], "stage", ("slot", "host", "serves"))


def _store(settings: ProcessSettings, rules: Rules) -> PayloadStore | str:
    """The payloads of a run, or why nothing can be asked of them."""
    from pipeline.runs import store_of

    if (problem := redis_problem(settings)) is not None:
        return problem
    try:
        return store_of(settings, rules.run, rules.max_payload_bytes)
    except ConfigError as error:
        return str(error)


def trace(
    run: Run,
    group: Annotated[
        str,
        typer.Argument(
            help="Id of the group, such as 17@0; tamis tail names them.", show_default=False, metavar="GROUP"
        ),
    ],
    as_json: AsJson = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Tell the life of one group: what happened to it, when, and why."""
    from pipeline.history.records import KafkaLog
    from pipeline.history.trace import trace_run

    connection = connection_for(run, bootstrap)
    check_group(connection, group)
    told = trace_run(KafkaLog(connection), group)
    if not told:
        fail(f"run {run} has no group {group}; tamis tail {run} --event GroupOpened --last 5 names some", 2)
    if as_json:
        print_json([line._asdict() for line in told])
        return
    for line in told:
        text = Text.assemble((f"{line.after_s:>9.3f} s  ", "dim"), line.text, (f"  {line.where}", "dim"))
        out.print(text, soft_wrap=True)


def audit(run: Run, as_json: AsJson = False, bootstrap: Bootstrap = None, redis_url: RedisUrl = None) -> None:
    """Check every invariant of a run, and that replay gives the recorded decisions. Exit code 1 if not."""
    from pipeline.history.audits.audit import audit_run
    from pipeline.runs import connection_of, open_run, store_of

    settings = settings_for(run, bootstrap, redis_url)
    connection = connection_of(settings, run)
    found = audit_run(connection, store_of(settings, run, open_run(connection).rules.max_payload_bytes))
    if as_json:
        print_json(
            {"clean": found.clean, "violations": found.violations, "pending": found.pending, "checked": found.checked}
        )
    else:
        for name, many in found.checked.items():
            say(f"{name:<20} {many:>10,}")
        for text in found.pending[:20]:
            say(f"pending: {text}")
        for text in found.violations[:50]:
            say(text, "red")
        say("clean" if found.clean else f"{len(found.violations)} violations", "" if found.clean else "bold red")
    raise typer.Exit(0 if found.clean else 1)


def _print_rows(rows: Sequence[Mapping[str, Any]], name: str, columns: Sequence[str]) -> None:
    """A table, unless it would be empty."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column(name)
    for column in columns:
        table.add_column(column.replace("_", " "), justify="right")
    for row in rows:
        table.add_row(*(_words(row[column]) for column in (name, *columns)))
    if rows:
        out.print()
        out.print(table)


def _words(value: Any) -> str:
    """A value as people read it."""
    match value:
        case None:
            return "–"
        case float():
            return f"{value:.3f}"
        case int():
            return f"{value:,}"
        case Mapping():
            return ", ".join(f"{name} {many:,}" for name, many in sorted(value.items(), key=lambda r: -r[1])) or "–"
        case list():
            return "; ".join(map(str, value)) or "–"
    return str(value)
