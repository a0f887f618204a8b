"""`tamis tail`: the records of a topic."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Annotated

import typer

from pipeline.cli.common import AsJson, Bootstrap, Run, among, connection_for, effective_settings, fail
from pipeline.cli.groups import check_group
from pipeline.config.errors import nearest
from pipeline.domain.topology import Topic
from pipeline.local.probe import kafka_listens

NAMES = [topic.value for topic in Topic]
TOPICS = ", ".join(NAMES)


def _reasons(incomplete: str) -> list[str]:
    from pipeline.history.tail import REASONS  # which the shell asks for after --reason only

    return among(REASONS)(incomplete)


def _events(incomplete: str) -> list[str]:
    from pipeline.domain.events import EVENTS

    return among(EVENTS)(incomplete)


def _domains(given: typer.Context, incomplete: str) -> list[str]:
    from pipeline.domain.rules import rules_of
    from pipeline.log.start import read_run_started
    from pipeline.runs import connection_of

    with suppress(Exception):  # whatever is wrong, the command itself will say
        run = given.params["run"] or given.args[0]  # there, since an option without its value ends the parsing
        settings, _ = effective_settings(run, None, None)
        if settings.bootstrap is not None and kafka_listens(settings.bootstrap):
            rules = rules_of(read_run_started(connection_of(settings, run)).config)
            return among(domain.name for domain in rules.domains)(incomplete)
    return []


def tail(
    run: Run,
    topic: Annotated[
        str, typer.Argument(help=f"One of: {TOPICS}.", metavar="TOPIC", autocompletion=among(NAMES))
    ] = "ledger",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as records arrive.")] = False,
    last: Annotated[int, typer.Option(help="Only the last so many; 0: all.", min=0, metavar="N")] = 20,
    group: Annotated[str | None, typer.Option(help="Only records about this group.", metavar="GROUP")] = None,
    reason: Annotated[
        str | None,
        typer.Option(
            help="Only records that name this reason, such as zero_std.", metavar="REASON", autocompletion=_reasons
        ),
    ] = None,
    domain: Annotated[
        str | None, typer.Option(help="Only records about this domain.", metavar="DOMAIN", autocompletion=_domains)
    ] = None,
    event: Annotated[
        str | None,
        typer.Option(help="Only this kind of event, such as GroupRejected.", metavar="EVENT", autocompletion=_events),
    ] = None,
    as_json: AsJson = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Print the records of a topic, decoded, one a line: in short (times are UTC), or with --json whole, as JSON.

    The ticks of the run's clock, one a second, are left out, of JSON too; --event Tick shows them.
    """
    from pipeline.domain.events import EVENTS
    from pipeline.history.tail import REASONS, Domains, Wanted, json_line, tail_records, text_line
    from pipeline.runs import open_run

    if topic not in NAMES:
        fail(f"there is no topic {topic!r}; expected one of: {TOPICS}", 2)
    _known("event", event, EVENTS)
    _known("reason", reason, REASONS)
    connection = connection_for(run, bootstrap)
    if group is not None:
        check_group(connection, group)
    if domain is not None:
        _known("domain", domain, [known.name for known in open_run(connection).rules.domains])
    wanted = Wanted(group, reason, domain, event, Domains(connection))
    line = json_line if as_json else text_line
    for record in tail_records(connection, Topic(topic), follow=follow, last=last, wanted=wanted):
        print(line(record), flush=follow)


def _known(what: str, word: str | None, words: Iterable[str]) -> None:
    """Refuse a word that no record can have."""
    if word is not None and word not in (known := list(words)):
        fail(f"there is no {what} {word!r}; {nearest(word, known)}", 2)
