"""How a run stands: a view of all its records so far, the lag of its stages, its payloads in Redis."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

from pipeline.domain.rules import Rules
from pipeline.domain.vocabulary import Category
from pipeline.history.domain_counts import DomainCounts
from pipeline.history.lags import lags
from pipeline.history.outages import outages
from pipeline.history.shadows import shadow_rows
from pipeline.history.view import RunView
from pipeline.history.waiting import waits
from pipeline.history.watch import read_view
from pipeline.log.client import Connection
from pipeline.log.members import members_of
from pipeline.store.errors import StoreError
from pipeline.store.payloads import PayloadStore


def status_of(
    connection: Connection, rules: Rules, store: PayloadStore | str, verifiers: Collection[str] = ()
) -> dict[str, Any]:
    """Numbers of a run by name; `stages` has a row for each partition of each stage's input, `problems` a sentence
    for each that has a hole, each verifier that is out and a Redis that isn't there (`store` may be why), `waiting` one
    for each thing that waits, `members` the processes at work."""
    view, _ = read_view(connection)
    stages, members = lags(connection, rules), members_of(connection)
    keys, used, silent = _payloads(store)
    groups, first, last = view.groups, view.progress.first_evaluation, view.progress.last_evaluation
    return {
        "run": view.run,
        "phase": str(view.phase),
        "outcome": str(view.outcome) if view.outcome else None,
        "step": view.step,
        "steps": view.steps,
        "policy_version": view.progress.version,
        "groups_open": groups.open_train + groups.open_eval,
        "groups_opened": groups.opened,
        "accepted": groups.accepted,
        "rejected": groups.rejected,
        "kept_by_guard": groups.kept_by_guard,
        "deselected": groups.deselected,
        "expired": groups.expired,
        "replacements": groups.replacements,
        "waived": groups.waived,
        "accuracy_before": first.accuracy if first else None,
        "accuracy_after": last.accuracy if last else None,
        "domains": [domain_row(name, counts, view, rules) for name, counts in groups.domains.items()],
        "shadows": shadow_rows(groups.shadows),
        "dead_letters": view.dead_letters,
        "starvation": [note.text for note in view.starvation],
        "failures": [note.text for note in view.failures],
        "payload_keys": keys,
        "redis_used_bytes": used,
        "payload_budget": rules.payload_budget,
        "problems": [
            *silent,
            *(text for row in stages if (text := problem(row, connection.run)) is not None),
            *outages(connection, rules.partitions, verifiers, time.time_ns() // 1_000_000),
        ],
        "waiting": list(waits(view, rules, members)),
        "members": [member._asdict() for member in members],
        "stages": stages,
    }


def _payloads(store: PayloadStore | str) -> tuple[int | None, int | None, list[str]]:
    """The run's keys, Redis' bytes, and why they can't be told, if so."""
    if isinstance(store, str):
        return None, None, [store]
    try:
        return store.count_keys(), store.used_bytes(), []
    except StoreError as error:
        return None, None, [str(error)]


def domain_row(name: str, counts: DomainCounts, view: RunView, rules: Rules) -> dict[str, Any]:
    """How one domain stands; `lead` is how many groups the scheduler wants accepted and untrained at most; those
    that were open already may take it beyond."""
    own = rules.domain(name)
    return {
        "domain": name,
        "quota": own.quota,
        "open": counts.open,
        "untrained": view.progress.untrained.get(name, 0),
        "lead": rules.lead(own),
        "judged": counts.judged,
        "accepted": counts.accepted,
        "kept_by_guard": counts.kept_by_guard,
        "deselected": counts.deselected,
        "low_information": counts.rejections_in(Category.LOW_INFORMATION),
        "invalid": counts.rejections_in(Category.INVALID),
        "system": counts.rejections_in(Category.SYSTEM),
        "expired": sum(counts.expired.values()),
        "guard": counts.guard,
        "rejected": [
            {"category": category, "reason": reason, "filter": by, "groups": many}
            for (category, reason, by), many in counts.rejected.items()
            if many
        ],
    }


def problem(row: dict[str, Any], run: str) -> str | None:
    """What keeps a stage from going on in a partition, and what to do."""
    where = f"{row['stage']}: {row['topic']}/{row['partition']}"
    if row["committed"] is None:
        return f"{where}: its committed offset is gone; run tamis recover {run}"
    if row["committed"] < row["first"]:
        return (
            f"{where}: {row['first'] - row['committed']} records from {row['committed']} on are gone before they were "
            "handled; restore the topic from an archive"
        )
    if row["committed"] > row["end"]:
        return f"{where}: it is handled up to {row['committed']} and ends at {row['end']}: the topic was made anew"
    return None
