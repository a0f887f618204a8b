"""What trackers are told: a row for each step and each evaluation, taken from a run's view as its log is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from queue import Empty, SimpleQueue
from typing import NamedTuple

from pipeline.domain import events as e
from pipeline.history.rows import BatchRow, EvaluationRow
from pipeline.history.view import RunView
from pipeline.metrics.field import field_counts


class Row(NamedTuple):
    """Numbers by name, and the step that they belong to."""

    step: int
    values: Mapping[str, float]


class Rows:
    """Rows that wait for the trackers. `note` is called by who reads the log, `take` by who tells the trackers."""

    def __init__(self) -> None:
        self._waiting: SimpleQueue[Row] = SimpleQueue()

    def note(self, view: RunView, event: e.Event) -> None:
        """Take down what an event of the ledger has added to the view."""
        trained, evaluated = view.progress.batches.last, view.progress.evaluations.last
        match event:
            case e.BatchTrained() if trained is not None:
                self._waiting.put(Row(trained.step, dict(_trained(view, trained))))
            case e.EvaluationFinished() if evaluated is not None:
                self._waiting.put(Row(evaluated.step, dict(_evaluated(evaluated))))
            case _:
                return

    def take(self) -> Iterator[Row]:
        """What has come since the last call."""
        while True:
            try:
                yield self._waiting.get_nowait()
            except Empty:
                return


def _trained(view: RunView, row: BatchRow) -> Iterator[tuple[str, float]]:
    lengths = row.counts.lengths
    known: dict[str, float | None] = {
        "reward/sampled": row.sampled_reward,
        "reward/trained": row.reward,
        "staleness/mean": row.staleness_mean,
        "staleness/max": row.staleness_max,
        "groups/batch": row.groups,
        "groups/accepted": row.counts.accepted,
        "groups/rejected": row.counts.judged - row.counts.accepted,
        "response/tokens": lengths.member_tokens + lengths.discarded_tokens,
        "response/length": lengths.of_all,
        "response/length_members": lengths.of_members,
        "step/seconds": row.seconds,
        "step/policy_version": row.version,
    }
    yield from ((name, float(value)) for name, value in known.items() if value is not None)
    yield from ((f"train/{name}", value) for name, value in row.metrics.items())
    totals: dict[str, float] = {}
    for _, name, many in field_counts(view):
        totals[name] = totals.get(name, 0.0) + many
    yield from totals.items()


def _evaluated(row: EvaluationRow) -> Iterator[tuple[str, float]]:
    if row.accuracy is not None and not row.cut:
        yield "eval/accuracy", row.accuracy
    yield "eval/graded", float(row.graded)
    yield "eval/ungraded", float(row.ungraded)
    yield "eval/failed", float(row.failed)
