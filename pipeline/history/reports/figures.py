"""The curves of a report as plain Plotly figures. Colours are names that the page resolves, for dark and light.

A trace has its points by step (`x`) and by time (`minutes`); the page changes between the two.
"""

from __future__ import annotations

from typing import Final

from pipeline.domain.vocabulary import Category
from pipeline.history.lengths import LengthTotals
from pipeline.history.reports.curves import (
    Figure,
    acceptance,
    area,
    bins,
    by_batch,
    by_time,
    curve,
    figure,
    minutes,
    of_rows,
    over_time,
    seconds,
    shares_of,
    start_ms,
)
from pipeline.history.view import RunView

MOST_METRICS: Final = 6
DOMAIN_COLOURS: Final = ("main", "good", "solved", "flat", "bad", "other0", "other1", "other2")
REASON_COLOURS: Final = {"zero_std/all_zero": "bad", "zero_std/all_max": "solved", "zero_std/constant": "flat"}


def figures(view: RunView) -> list[Figure]:
    """Every figure for which the run has something to show."""
    made = [learning(view), verdicts(view), categories(view), by_domain(view), selection(view)]
    made += [lengths(view), length_spread(view), staleness(view), assembly(view), rate(view), memory(view), keys(view)]
    made += metrics(view)
    return [each for each in made if any(trace["y"] for trace in each["traces"])]


def learning(view: RunView) -> Figure:
    """Held-out accuracy, and the reward of training groups before and after the filter."""
    start, rows = start_ms(view), list(view.progress.batches)
    tests = [row for row in view.progress.evaluations if row.accuracy is not None]
    held_out = curve("held-out accuracy", "main", [r.step for r in tests], [r.accuracy for r in tests], width=3)
    held_out |= {"mode": "lines+markers", "minutes": minutes(start, [r.at_ms for r in tests])}
    sampled = by_batch(view, "reward, all groups sampled", "good", lambda row: row.sampled_reward)
    trained = by_batch(view, "reward, groups trained on", "quiet", lambda row: row.reward, width=1)
    return figure(
        "Reward and held-out accuracy", "mean reward", [held_out, sampled, trained], wide=True, both=bool(rows)
    )


def verdicts(view: RunView) -> Figure:
    """How the filter judged the groups, in shares of all, from batch to batch."""
    rows = list(view.progress.batches)
    ends = bins(rows)
    names = sorted(rows[-1].counts.rejected, key=lambda name: -rows[-1].counts.rejected[name]) if rows else []
    kept = rows[-1].counts.kept_by_guard if rows else 0
    accepted = shares_of(ends, lambda counts: counts.accepted - counts.kept_by_guard)
    traces = [area("accepted", "good", view, ends, accepted)]
    if kept:
        traces.append(area("kept by guard", "main", view, ends, shares_of(ends, lambda counts: counts.kept_by_guard)))
    for i, name in enumerate(names):
        shares = shares_of(ends, lambda counts, name=name: counts.rejected.get(name, 0))  # type: ignore[misc]
        traces.append(area(name.replace("_", " "), REASON_COLOURS.get(name, f"other{i % 3}"), view, ends, shares))
    return figure("Verdicts on training groups", "share of groups", traces, wide=True, percent=True)


def categories(view: RunView) -> Figure:
    """Rejections that say that a group was broken, that it taught nothing, or that the machinery lost it."""
    ends = bins(list(view.progress.batches))
    colours = {Category.INVALID: "bad", Category.LOW_INFORMATION: "flat", Category.SYSTEM: "other0"}
    traces = []
    for category, colour in colours.items():
        if view.groups.categories.get(category):
            shares = shares_of(ends, lambda counts, name=category: counts.categories.get(name, 0))  # type: ignore[misc]
            traces.append(of_rows(view, ends, category.replace("_", " "), colour, [*shares]))
    return figure("Rejections by category", "share of groups", traces, percent=True)


def by_domain(view: RunView) -> Figure:
    """Acceptance of each domain, where there are several."""
    ends, traces = bins(list(view.progress.batches)), []
    for i, name in enumerate(view.groups.domains if len(view.groups.domains) > 1 else ()):
        colour = DOMAIN_COLOURS[i % len(DOMAIN_COLOURS)]
        traces.append(of_rows(view, ends, name, colour, list(acceptance(ends, name))))
    return figure("Acceptance by domain", "share of groups", traces, percent=True)


def selection(view: RunView) -> Figure:
    """How many of a window's candidates were kept, where groups were deselected."""
    traces = []
    if view.groups.deselected:
        traces = [
            by_batch(view, "candidates", "quiet", lambda row: row.candidates, width=1),
            by_batch(view, "kept", "main", lambda row: row.groups),
        ]
    return figure("Selection of groups", "groups", traces)


def lengths(view: RunView) -> Figure:
    """Mean response lengths over time: the members are the first to arrive, which favours short answers."""
    ends = bins(list(view.progress.batches))
    totals = [row.counts.lengths for row in ends]
    since = [now.since(before) for before, now in zip([LengthTotals(), *totals], totals, strict=False)]
    whole = view.groups.lengths.totals
    traces = [
        of_rows(view, ends, "members", "main", [each.of_members for each in since]),
        of_rows(view, ends, "discarded", "bad", [each.of_discarded for each in since]),
        of_rows(view, ends, "all", "quiet", [each.of_all for each in since]),
    ]
    return figure("Response length: mean", "tokens", traces) | {"note": bias(whole)}


def length_spread(view: RunView) -> Figure:
    """How lengths are spread."""
    spreads = {"members": ("main", view.groups.lengths.members), "discarded": ("bad", view.groups.lengths.discarded)}
    traces = []
    for name, (colour, spread) in spreads.items():
        points = list(spread.shares())
        traces.append(curve(name, colour, [round(x, 1) for x, _ in points], [y for _, y in points]))
    made = figure("Response length: distribution", "share of responses", traces, both=False)
    return made | {"across": "tokens"}


def bias(totals: LengthTotals) -> str:
    """What it means for training that the first responses are the members."""
    members, discarded, every = totals.of_members, totals.of_discarded, totals.of_all
    if members is None or every is None:
        return ""
    if discarded is None:
        return f"Members have {members:,.1f} tokens on average. No whole response was discarded: they are all there is."
    side = "shorter" if members < every else "longer"
    return (
        f"A group's members are the first to arrive, which favours short answers. Members have {members:,.1f} tokens "
        f"on average, discarded responses {discarded:,.1f}, all {every:,.1f}: members are "
        f"{100 * abs(members - every) / every:.1f} % {side} than what was sampled. "
        "Failed responses and copies are left out."
    )


def staleness(view: RunView) -> Figure:
    """How old the groups of each batch were."""
    mean = by_batch(view, "mean", "main", lambda row: row.staleness_mean)
    most = by_batch(view, "oldest", "quiet", lambda row: row.staleness_max, width=1)
    return figure("Staleness of batches", "policy versions", [mean, most])


def assembly(view: RunView) -> Figure:
    """From a group's opening to its last response."""
    median = by_time(view, "median", "main", lambda m: seconds(m.assembly_p50_ms))
    slow = by_time(view, "90th percentile", "quiet", lambda m: seconds(m.assembly_p90_ms), width=1)
    return figure("Time to assemble a group", "seconds", [median, slow], both=False)


def rate(view: RunView) -> Figure:
    """Throughput, and what is under way."""
    ended = by_time(view, "groups ended a second", "main", lambda m: m.groups_per_s)
    return figure("Throughput", "groups / s", [ended], both=False)


def memory(view: RunView) -> Figure:
    """What Redis says it uses."""
    line = over_time(view, "used memory", "main", [(p.at_ms, p.used_bytes / 2**20) for p in view.redis])
    return figure("Memory of Redis", "MiB", [line], both=False)


def keys(view: RunView) -> Figure:
    """Payloads that live in Redis."""
    line = over_time(view, "payload keys", "main", [(p.at_ms, float(p.keys)) for p in view.redis])
    return figure("Payloads in Redis", "keys", [line], both=False)


def metrics(view: RunView) -> list[Figure]:
    """What the learner says of its steps."""
    last = view.progress.batches.last
    names = list(last.metrics)[:MOST_METRICS] if last else []
    return [
        figure(f"Learner: {name}", name, [by_batch(view, name, "main", lambda row, n=name: row.metrics.get(n))])  # type: ignore[misc]
        for name in names
    ]
