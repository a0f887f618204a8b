"""`tamis what-if`: other filters over a run that is there already, and what its own shadow filters said."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress
from rich.table import Table

from pipeline.cli.common import AsJson, Bootstrap, Run, caution, connection_for, err, out, print_json, say
from pipeline.domain.rules import DECISION_VERSIONS, rules_of
from pipeline.domain.topology import Topic, partitions
from pipeline.history.estimates import how_exact
from pipeline.history.shadows import ShadowTally, shadow_rows
from pipeline.history.what_if import TOPICS, Comparison
from pipeline.log.client import Connection
from pipeline.log.reader import Record, end_offsets, read_topic

Filters = Annotated[
    Path | None,
    typer.Option(
        "--filters",
        help="YAML or TOML with the sections filters, guard, metric, domains, as in a run's configuration.",
        exists=True,
        dir_okay=False,
        show_default=False,
        metavar="FILE",
    ),
]


def what_if(run: Run, filters: Filters = None, as_json: AsJson = False, bootstrap: Bootstrap = None) -> None:
    """Say what other filters and guards would have made of a run's groups. Nothing in the run changes.

    Without --filters: what the run's own shadow filters said.
    """
    from pipeline import plugins
    from pipeline.config import canonical, parse_canonical
    from pipeline.config.other_filters import with_other_filters
    from pipeline.history.what_if import what_if as compare
    from pipeline.log.start import read_run_started
    from pipeline.process import calm_collector

    calm_collector()
    connection = connection_for(run, bootstrap)
    started = read_run_started(connection)
    rules = rules_of(started.config)
    if filters is None:
        _own_shadows(connection, run, as_json)
        return
    was, now = started.decision_versions.get("filter"), DECISION_VERSIONS["filter"]
    if was != now:
        caution(f"run {run} was filtered by decision version {was}, this release has {now}: that alone may differ")
    other = rules_of(canonical(with_other_filters(parse_canonical(started.config), filters)))
    customs = plugins.group_filters(other)
    ends = [n for topic in TOPICS for n in end_offsets(connection, topic, partitions(topic, rules)).values()]
    records = (record for topic in TOPICS for record in read_topic(connection, topic))
    found = compare(_watched(records, sum(ends)), rules, other, customs)
    if as_json:
        print_json(as_tree(found, run, str(filters)))
    else:
        _show(found, run, str(filters))


def _own_shadows(connection: Connection, run: str, as_json: bool) -> None:
    from pipeline.history.shadows import recorded_shadows

    ends = end_offsets(connection, Topic.LEDGER, 1)
    tally, verdicts = recorded_shadows(_watched(read_topic(connection, Topic.LEDGER), sum(ends.values())))
    if as_json:
        print_json({"run": run, "verdicts": verdicts, "shadows": shadow_rows(tally)})
    elif tally.found:
        say(f"run {run}, {verdicts:,} verdicts; its shadow filters said:\n")
        _show_shadows(tally)
    else:
        say(
            f"run {run}, {verdicts:,} verdicts, no shadow filters; --filters FILE judges the groups by other filters "
            "(docs/filters.md)"
        )


def _watched(records: Iterable[Record], many: int) -> Iterator[Record]:
    """The records; a terminal is shown how far it is."""
    with Progress(console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task("reading", total=many)
        for n, record in enumerate(records):
            if n % 1_000 == 0:
                progress.update(task, completed=n)
            yield record


# ------------------------------------------------------------------------------------------------------------ showing


def as_tree(found: Comparison, run: str, filters: str) -> dict[str, Any]:
    """The comparison as JSON."""
    estimates = found.estimates()
    return {
        "run": run,
        "filters": filters,
        "judged": found.judged,
        "agree": found.agree,
        "differ": found.judged - found.agree,
        "verdicts": [
            {"domain": domain, "recorded": was, "would_be": would, "groups": many}
            for (domain, was, would), many in _most(found)
        ],
        "domains": [_domain(found, name) for name in found.domains],
        "batches": {"formed": found.formed, "recorded": found.batches(False), "would_be": found.batches(True)},
        "exact": not estimates,
        "estimates": estimates,
        "shadows": shadow_rows(found.shadows),
        "unreadable": found.unreadable,
    }


def _domain(found: Comparison, name: str) -> dict[str, Any]:
    """One domain; costs are of everything sampled for it, for each group that was, or would be, accepted."""
    d = found.domains[name]
    return {
        "domain": name,
        "judged": d.judged,
        "accepted": d.accepted,
        "would_accept": d.would_accept,
        "acceptance": _ratio(d.accepted, d.judged),
        "would_be_acceptance": _ratio(d.would_accept, d.judged),
        "tokens": d.tokens,
        "responses": d.responses,
        "tokens_per_accepted": _ratio(d.tokens, d.accepted),
        "would_be_tokens_per_accepted": _ratio(d.tokens, d.would_accept),
        "responses_per_accepted": _ratio(d.responses, d.accepted),
        "would_be_responses_per_accepted": _ratio(d.responses, d.would_accept),
        "unjudged": d.unjudged,
    }


def _show(found: Comparison, run: str, filters: str) -> None:
    differ = found.judged - found.agree
    say(
        f"run {run}, {found.judged:,} groups judged again by {filters}: {found.agree:,} agree "
        f"({_percent(found.agree, found.judged)}), {differ:,} differ\n"
    )
    verdicts = _table("domain", "recorded", "would be", right=("groups",))
    for (domain, was, would), many in _most(found):
        verdicts.add_row(domain, was, would, f"{many:,}", style="" if was == would else "yellow")
    out.print(verdicts)
    columns = ("judged", "accepted", "would be", "tokens / accepted", "would be", "responses / accepted", "would be")
    domains = _table("domain", right=columns)
    for name, d in found.domains.items():
        costs = [_each(cost, many) for cost in (d.tokens, d.responses) for many in (d.accepted, d.would_accept)]
        shares = [f"{many:,} ({_percent(many, d.judged)})" for many in (d.accepted, d.would_accept)]
        domains.add_row(name, f"{d.judged:,}", *shares, *costs)
    out.print()
    out.print(domains)
    for name, d in found.domains.items():
        if d.unjudged:
            reasons = ", ".join(f"{reason} {many:,}" for reason, many in sorted(d.unjudged.items()))
            say(f"\n{name}: ended before the filter, and counted in the costs: {reasons}")
    say(
        f"\nbatches: {found.formed:,} formed; the accepted groups make {found.batches(False):,}, and would have made "
        f"{found.batches(True):,}"
    )
    if found.shadows.found:
        out.print()
        _show_shadows(found.shadows)
    if found.unreadable:
        say(f"{found.unreadable:,} records can't be read, and are left out", "yellow")
    say(f"\n{how_exact(found.rules, found.other)}")
    estimates = found.estimates()
    for why in estimates:
        say(f"Acceptance, cost and batches are an estimate: {why}.", "yellow")
    if not estimates:
        say("Acceptance, cost and batches are exact too: no group would have fared otherwise.")


def _show_shadows(tally: ShadowTally) -> None:
    table = _table("domain", "shadow", right=("asked", "accepts", "of rejected", "rejects", "of accepted"))
    table.add_column("why")
    for (domain, name), s in tally.found.items():
        reasons = ", ".join(f"{reason} {many:,}" for reason, many in sorted(s.rejects.items()))
        accepts = f"{s.accepts:,} ({_percent(s.accepts, s.asked)})"
        counts = (f"{s.only_there:,}", f"{s.asked - s.accepts:,}", f"{s.only_here:,}")
        table.add_row(domain, name, f"{s.asked:,}", accepts, *counts, reasons or "–")
    out.print(table)


def _most(found: Comparison) -> list[tuple[tuple[str, str, str], int]]:
    """By domain, the most frequent first."""
    names = list(found.domains)
    return sorted(found.verdicts.items(), key=lambda row: (names.index(row[0][0]), -row[1], row[0]))


def _table(*columns: str, right: tuple[str, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column)
    for column in right:
        table.add_column(column, justify="right")
    return table


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _each(cost: int, many: int) -> str:
    return f"{cost / many:,.1f}" if many else "–"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"
