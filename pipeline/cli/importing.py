"""Carrying a configuration over from another system."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from pipeline.cli.common import AsJson, among, err, fail, out, print_json, say
from pipeline.config.errors import dotted

if TYPE_CHECKING:
    from pipeline.config.imports import Imported

NAMES = ("roll", "ragen", "miles")


def import_config(
    system: Annotated[
        str,
        typer.Option(
            "--from",
            help=f"One of: {', '.join(NAMES)}.",
            show_default=False,
            metavar="SYSTEM",
            autocompletion=among(NAMES),
        ),
    ],
    file: Annotated[
        Path | None,
        typer.Argument(
            help="Its configuration, .yaml or .toml.", exists=True, dir_okay=False, show_default=False, metavar="FILE"
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--out", help="Write it there, not to standard output.", metavar="FILE")
    ] = None,
    override: Annotated[
        list[str] | None,
        typer.Option("--set", help="key.path=value over the file's; may be repeated.", metavar="KEY=VALUE"),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 1 if what decides there can't be kept.")] = False,
    keys: Annotated[bool, typer.Option("--keys", help="List what becomes of each key there; no FILE.")] = False,
    as_json: AsJson = False,
) -> None:
    """Turn a configuration of ROLL, RAGEN or MILES into one that decides the same.

    Each line says which key it comes from; what only you can name (engine, prompts, learner) is marked TO WRITE.

    What can't be carried over is listed with the reason, on standard error and at the end of the file."""
    from pipeline.config.imports import SYSTEMS
    from pipeline.config.imports import import_config as imported_from

    if system not in SYSTEMS:
        fail(f"--from {system}: there is no such system; expected one of: {', '.join(SYSTEMS)}", 2)
    if keys:
        _show_keys(system, as_json)
        return
    if file is None:
        fail(f"give the file: tamis config import --from {system} FILE", 2)
    found = imported_from(system, file, tuple(override or ()))
    if not found.carried:
        fail(f"{file}: nothing in it is known of {found.system.name}; is it of another system (--from)?", 2)
    if output is not None:
        _write(output, found.text())
    problems = found.problems()
    if as_json:
        print_json(_report(found, problems))
    else:
        if output is None:
            print(found.text(), end="")
        _tell(found, problems, output)
    raise typer.Exit(1 if strict and (found.lost or problems) else 0)


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x") as file:
            file.write(text)
    except FileExistsError:
        fail(f"{path} exists; remove it, or name another file", 2)


def _tell(found: Imported, problems: list[str], output: Path | None) -> None:
    """What was done, on standard error."""
    if output is not None:
        say(f"{output}: written; next: tamis config check {output}")
    counts = f"{len(found.carried)} settings carried, {len(found.to_write)} to write, {len(found.left)} keys not"
    err.print(counts, soft_wrap=True)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("not carried", "value", "why"):
        table.add_column(column, overflow="fold")
    for one in found.left:
        table.add_row(one.key, one.value or "", one.why, style="yellow" if one in found.lost else "")
    if found.left:
        err.print(table)
    for problem in problems:
        err.print(f"no run can be made of it yet: {problem}", style="red", markup=False, soft_wrap=True)


def _report(found: Imported, problems: list[str]) -> dict[str, Any]:
    return {
        "system": found.system.name,
        "configuration": found.tree,
        "origins": {dotted(setting.path): setting.origin for setting in found.settings.values()},
        "to_write": [dotted(setting.path) for setting in found.to_write],
        "not_carried": [{"key": o.key, "value": o.value, "fate": o.fate, "why": o.why} for o in found.left],
        "problems": problems,
    }


def _show_keys(system: str, as_json: bool) -> None:
    from pipeline.config.imports import SYSTEMS

    rows = SYSTEMS[system].rows
    if as_json:
        print_json([{"key": row.key, "ours": row.ours, "note": row.note} for row in rows])
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("key", "becomes", ""):
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(row.key, row.ours or "-", row.note)
    out.print(table)
