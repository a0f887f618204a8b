"""`tamis dead-letters`: what could not be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from pipeline.cli.common import AsJson, Bootstrap, Run, connection_for, fail, print_json, say
from pipeline.history.dead_letters import Letter, NotReplayable, again, letters
from pipeline.history.records import KafkaLog
from pipeline.log.codec import to_json

Number = Annotated[
    int, typer.Argument(help="Number of the letter, as `list` shows it.", show_default=False, min=0, metavar="NUMBER")
]

SHOWN_BYTES: Final = 512

app = typer.Typer(no_args_is_help=True, help="Records that a stage could not read: list, show, send them again.")


@app.command("list")
def list_letters(run: Run, as_json: AsJson = False, bootstrap: Bootstrap = None) -> None:
    """List a run's dead letters: when, which stage, which record, which group, and why."""
    found = list(letters(KafkaLog(connection_for(run, bootstrap))))
    if as_json:
        print_json([_row(letter) for letter in found])
        return
    if not found:
        say(f"run {run} has no dead letters")
        return
    for line in lines(found):
        say(line)


@app.command("show")
def show_letter(run: Run, number: Number, as_json: AsJson = False, bootstrap: Bootstrap = None) -> None:
    """Show one dead letter whole: the record's bytes and headers, and whether it could be sent again."""
    from pipeline.runs import open_run

    connection = connection_for(run, bootstrap)
    letter = _letter(run, number, KafkaLog(connection))
    try:
        output = again(letter, open_run(connection).rules)
        fate = f"can be sent again, to {output.topic}/{output.partition}: tamis dead-letters replay {run} {number}"
    except NotReplayable as error:
        fate = str(error)
    if as_json:
        print_json({**_row(letter), "letter": to_json(letter.event), "replay": fate})
        return
    for name, item in _row(letter).items():
        say(f"{name:<8} {item if item is not None else '–'}")
    for header in letter.event.headers:
        say(f"header   {header.name}: {(header.value or b'').decode('utf-8', 'replace')}")
    value: bytes = letter.event.value or b""
    say(f"value    {'none' if letter.event.value is None else f'{len(value):,} bytes'}")
    for at in range(0, min(len(value), SHOWN_BYTES), 16):
        piece = value[at : at + 16]
        say(f"  {at:04x}  {piece.hex(' '):<47}  {_readable(piece)}")
    say(f"replay   {fate}")


@app.command("replay")
def replay_letter(run: Run, number: Number, as_json: AsJson = False, bootstrap: Bootstrap = None) -> None:
    """Send the record of a dead letter again, to where it belongs, if this release can read it.

    Only what may come twice or late is sent: what nobody waits for any more is discarded, and its payload dropped.
    """
    from pipeline.history.watch import read_view
    from pipeline.log.facts import write_facts
    from pipeline.runs import open_run

    connection = connection_for(run, bootstrap)
    rules = open_run(connection).rules
    letter = _letter(run, number, KafkaLog(connection))
    if read_view(connection)[0].outcome is not None:
        fail(f"run {run} is finished: nobody reads its records any more", 2)
    try:
        output = again(letter, rules)
    except NotReplayable as error:
        fail(str(error), 2)
    write_facts(connection, "cli", [output])
    kind = type(output.event).__name__
    if as_json:
        print_json({"number": number, "event": kind, "topic": output.topic.value, "partition": output.partition})
    else:
        say(f"sent {kind} {letter.group or ''} again, to {output.topic}/{output.partition}".replace("  ", " "))


def _letter(run: str, number: int, log: KafkaLog) -> Letter:
    for letter in letters(log):
        if letter.number == number:
            return letter
    fail(f"run {run} has no dead letter {number}; tamis dead-letters list {run} shows them", 2)


def lines(found: Sequence[Letter]) -> Iterator[str]:
    """A head and a line for each, in columns. Coordinates are there to be copied: nothing is cut at any width."""
    rows = [
        tuple(str("–" if value is None else value).replace("\n", " ") for value in _row(letter).values())
        for letter in found
    ]
    table = [("number", "time", "stage", "record", "group", "reason", "detail"), *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        yield "  ".join(f"{word:<{width}}" for word, width in zip(row, widths, strict=True)).rstrip()


def _readable(piece: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in piece)


def _row(letter: Letter) -> dict[str, str | int | None]:
    when = datetime.fromtimestamp(letter.written_ms / 1000, UTC).isoformat(timespec="seconds")
    return {
        "number": letter.number,
        "time": when,
        "stage": letter.event.stage,
        "record": letter.where,
        "group": letter.group,
        "reason": letter.event.reason.value,
        "detail": letter.event.detail,
    }
