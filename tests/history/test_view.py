"""The view counts what happened, in memory that doesn't grow with the run."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest

from pipeline.domain import events as e
from pipeline.domain.topology import Topic
from pipeline.domain.vocabulary import Outcome, Purpose
from pipeline.history.rows import Phase
from pipeline.history.series import MOST_POINTS, Rate, Series, Spread
from pipeline.history.view import RunView
from pipeline.log.reader import Record

from .drive import START_MS, Drive


def viewed(records: list[Record]) -> RunView:
    view = RunView()
    for record in records:
        view.note(record.timestamp_ms, record.topic, record.event())
    return view


@pytest.fixture(scope="module")
def view(drive: Drive) -> RunView:
    return viewed(drive.records)


def test_groups_are_counted_by_how_they_end(view: RunView, drive: Drive) -> None:
    kinds = Counter(type(r.event()).__name__ for r in drive.records if r.topic is Topic.LEDGER)
    groups = view.groups
    assert groups.opened + groups.opened_eval == kinds["GroupOpened"]
    assert groups.accepted == kinds["GroupAccepted"]
    assert sum(groups.rejected.values()) == sum(groups.categories.values()) == kinds["GroupRejected"]
    assert set(groups.rejected) <= {"zero_std/all_zero", "zero_std/all_max"}
    assert groups.evaluated == kinds["GroupEvaluated"] == 9
    assert sum(groups.expired.values()) == kinds["GroupExpired"]
    assert (groups.open_train, groups.open_eval) == (0, 0)


def test_a_finished_run_says_so(view: RunView) -> None:
    assert (view.phase, view.outcome, view.step, view.steps) == (Phase.FINISHED, Outcome.COMPLETED, 4, 4)
    assert view.drained
    assert view.seconds_left is None


def test_batches_have_reward_staleness_and_metrics(view: RunView) -> None:
    rows = list(view.progress.batches)
    assert [(row.step, row.batch, row.version, row.groups) for row in rows] == [(i, i, i, 4) for i in (1, 2, 3, 4)]
    assert all(0 < (row.reward or 0) < 1 for row in rows)
    assert [row.staleness_max for row in rows] == [0, 1, 1, 1]
    assert rows[-1].metrics == {"loss": 0.1}
    judged = [row.counts.judged for row in rows]
    assert judged == sorted(judged)
    assert judged[-1] <= view.groups.totals.judged


def test_evaluations_are_listed_with_their_accuracy(view: RunView) -> None:
    assert [(row.step, row.version, row.graded) for row in view.progress.evaluations] == [
        (0, 0, 3),
        (2, 2, 3),
        (4, 4, 3),
    ]
    assert view.progress.under_way == {}


def test_assembly_is_timed_by_the_records_clocks(view: RunView) -> None:
    assert view.groups.assembly.count == view.groups.assembled
    assert view.groups.assembly.quantile(0.5) == pytest.approx(1100, rel=0.1)


def test_topics_may_be_read_one_after_the_other(view: RunView, drive: Drive) -> None:
    backwards = viewed(sorted(drive.records, key=lambda r: (r.topic.value, r.partition, r.offset)))
    assert backwards.groups.assembly.count == view.groups.assembly.count
    assert backwards.groups.rejected == view.groups.rejected
    assert backwards.dropped == view.dropped


@pytest.mark.parametrize(("turns", "phase"), [(0, Phase.WAITING), (1, Phase.EVALUATING), (5, Phase.TRAINING)])
def test_the_phase_follows_the_log(turns: int, phase: Phase) -> None:
    drive = Drive()
    drive.run(turns)
    records = drive.records if turns else [r for r in drive.records if not isinstance(r.event(), e.TrainerStarted)]
    assert viewed(records).phase is phase


def test_a_run_that_was_stopped_over_night_is_one_run_with_a_gap() -> None:
    drive = Drive()
    drive.run(6)
    drive.now += 8 * 3_600_000
    drive.run()
    view = viewed(drive.records)
    assert len(view.gaps) == 1
    assert view.gaps[0].end_ms - view.gaps[0].start_ms == pytest.approx(8 * 3_600_000, abs=3_000)
    assert view.active_s < 60
    assert (view.progress.seconds_a_step or 0) < 10


def test_a_returned_batch_is_a_step_undone_and_its_groups_keep_their_rewards(drive: Drive) -> None:
    view = RunView()
    for record in drive.records:
        event = record.event()
        view.note(record.timestamp_ms, record.topic, event)
        if isinstance(event, e.BatchTrained):
            first = view.progress.batches.last
            formed = next(v for r in drive.records if isinstance(v := r.event(), e.BatchFormed))
            view.note(record.timestamp_ms, Topic.LEDGER, e.BatchReturned(1, "lost", True, (), None, 0))  # type: ignore[arg-type]
            assert view.step == 0
            view.note(record.timestamp_ms, Topic.LEDGER, e.BatchFormed(2, formed.groups, 4, 1.0, 1, None, 0))
            view.note(record.timestamp_ms, Topic.LEDGER, e.BatchTrained(2, 2, "", "", {}, 0))
            again = view.progress.batches.last
            assert first is not None and again is not None
            assert (again.step, again.reward) == (1, first.reward)
            return


def test_a_series_is_thinned_and_keeps_its_ends() -> None:
    series: Series[int] = Series()
    for i in range(1_000_001):
        series.add(i)
    points = list(series)
    assert MOST_POINTS // 2 <= len(points) == len(series) <= MOST_POINTS
    assert (points[0], points[-1]) == (0, 1_000_000)
    assert len({b - a for a, b in pairwise(points[:-1])}) == 1


def test_a_short_series_is_kept_whole() -> None:
    series: Series[int] = Series()
    assert (list(series), len(series)) == ([], 0)
    for i in range(10):
        series.add(i)
    assert list(series) == list(range(10))


def test_quantiles_are_within_their_bucket() -> None:
    rng, spread = random.Random(5), Spread()
    values = sorted(rng.expovariate(1 / 2000) for _ in range(10_000))
    for value in values:
        spread.add(value)
    assert spread.quantile(0.5) == pytest.approx(values[4999], rel=0.03)
    assert spread.quantile(0.9) == pytest.approx(values[8999], rel=0.03)
    assert Spread().quantile(0.5) is None


def test_the_rate_is_of_the_last_seconds_of_the_log() -> None:
    rate = Rate(window_s=10)
    for i in range(100):
        rate.add(START_MS + 100 * i)
    assert rate.at(START_MS + 9_900) == pytest.approx(10.0)
    assert rate.at(START_MS + 60_000) == 0.0


def test_memory_stays_flat_over_a_long_run() -> None:
    view, ref = RunView(), e.PromptRef("p", "sort", 0, 0)
    scores = e.Scores(0.5, 0.5, 1.0, 5.0, None, None)
    for n in range(20_000):
        at, gid = START_MS + n * 2_000, f"{n}@0"
        opened = e.GroupOpened(gid, ref, Purpose.TRAIN, None, gid, None, 1, 0, 2, 0, 0, None, at)
        group = e.BatchGroup(gid, "sort", b"", 1.0, 0, n, n)
        accepted = e.GroupAccepted(
            gid, ref, 2, b"", 0, 0, n, n, scores, "zero_std", 0.5, 0.0, {}, "f", {}, False, (), at
        )  # fmt: skip
        story = (opened, accepted, e.BatchFormed(n, (group,), 1, 1.0, n, None, at),
                 e.BatchTrained(n, n, "", "", {}, at), e.CheckpointSaved(n, "", "", (n,), at))  # fmt: skip
        for event in story:
            view.note(at, Topic.LEDGER, event)
    assert len(view.progress.batches) <= MOST_POINTS
    assert len(view.moments) <= MOST_POINTS
    assert view.groups.open_train == 0
    assert view.progress._formed == view.progress._pool == view.groups._open == {}
