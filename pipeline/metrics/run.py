"""The run's numbers, read from a RunView whenever Prometheus asks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from threading import Lock

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pipeline.domain.advice import UNGRADED
from pipeline.domain.topology import StageName
from pipeline.domain.vocabulary import (
    DeadLetterReason,
    DiscardReason,
    DropReason,
    ExpiryReason,
    Failure,
    Grading,
    ReturnReason,
    SkipReason,
    StarvationCause,
    WaiverReason,
)
from pipeline.history.view import RunView
from pipeline.metrics.declared import DECLARED
from pipeline.metrics.field import field_counts

Labels = tuple[str, ...]
Samples = Iterable[tuple[Labels, float | None]]
QUANTILES = (0.5, 0.9, 0.99)
MOST_MEASURED = 50


class ViewCollector(Collector):
    """Metrics of one run. What is not known yet is left out; counters are there from the start. `asked`: how often."""

    def __init__(self, view: RunView, lock: Lock, now_s: Callable[[], float] = time.time) -> None:
        self._view, self._lock, self._now_s = view, lock, now_s
        self.asked = 0

    def collect(self) -> Iterator[Metric]:
        """All metrics, as of now."""
        with self._lock:
            now_ms = int(self._now_s() * 1000)
            for samples in (progress(self._view), groups(self._view, now_ms), payloads(self._view)):
                yield from (_family(name, values) for name, values in samples)
            yield from (_family(name, values) for name, values in log(self._view, now_ms))
            self.asked += 1

    def describe(self) -> Iterator[Metric]:
        """Nothing is collected to find out the names."""
        return iter(())


def progress(view: RunView) -> Iterator[tuple[str, Samples]]:
    """How the training comes along."""
    p, last, evaluation = view.progress, view.progress.batches.last, view.progress.last_evaluation
    yield "tamis_step", _one(view.step)
    yield "tamis_steps", _one(view.steps)
    yield "tamis_step_seconds", _one(p.seconds_a_step)
    yield "tamis_policy_version", _one(p.version)
    yield "tamis_checkpoint_version", _one(p.checkpoint)
    yield "tamis_finished", _one(float(view.outcome is not None))
    yield "tamis_reward", _one(last.sampled_reward if last else None)
    yield "tamis_accuracy", _one(evaluation.accuracy if evaluation else None)
    yield "tamis_staleness", _one(last.staleness_mean if last else None)
    yield "tamis_staleness_max", _one(last.staleness_max if last else None)
    yield (
        "tamis_learner",
        [((name,), value) for name, value in islice(last.metrics.items() if last else (), MOST_MEASURED)],
    )
    yield "tamis_batches_skipped", _known(p.skipped, SkipReason)
    yield "tamis_batches_returned", _known(p.returned, ReturnReason)
    causes = {(name, str(cause)): 0 for name in view.groups.domains for cause in StarvationCause}
    yield "tamis_starvation", (causes | view.starved).items()
    yield "tamis_stage_failures", _known(view.failed, StageName)


def groups(view: RunView, now_ms: int) -> Iterator[tuple[str, Samples]]:
    """How groups fare, by domain."""
    counts, domains = view.groups, view.groups.domains
    oldest = counts.oldest_open_ms
    yield "tamis_groups_per_second", _one(view.groups_per_s(now_ms))
    yield "tamis_straggler_age_seconds", _one(0.0 if oldest is None else max(now_ms - oldest, 0) / 1000)
    for name, value in _BY_DOMAIN.items():
        yield name, [((domain,), getattr(d, value)) for domain, d in domains.items()]
    rejected = [((domain, *names), many) for domain, d in domains.items() for names, many in d.rejected.items()]
    yield "tamis_groups_rejected", rejected
    for name, attribute, reasons in _BY_REASON:
        yield (
            name,
            [
                ((domain, reason), many)
                for domain, d in domains.items()
                for reason, many in ({str(r): 0 for r in reasons} | getattr(d, attribute)).items()
            ],
        )
    yield (
        "tamis_assembly_seconds",
        [
            ((domain, str(q)), None if (ms := d.assembly.quantile(q)) is None else ms / 1000)
            for domain, d in domains.items()
            for q in QUANTILES
        ],
    )
    yield "tamis_groups_untrained", [((domain,), view.progress.untrained.get(domain, 0)) for domain in domains]
    yield "tamis_lead", [((d.name,), view.rules.lead(d)) for d in view.rules.domains] if view.rules else ()
    guards = [((domain, name), value) for domain, d in domains.items() for name, value in d.guard.items()]
    yield "tamis_guard", guards
    yield (
        "tamis_shadow_groups",
        [
            ((domain, name, *said), many)
            for (domain, name), shadow in counts.shadows.found.items()
            for said, many in shadow.table.items()
        ],
    )
    yield "tamis_field", [((domain, name), many) for domain, name, many in field_counts(view)]


_BY_DOMAIN = {
    "tamis_groups_opened": "opened",
    "tamis_groups_open": "open",
    "tamis_groups_accepted": "accepted",
    "tamis_groups_kept_by_guard": "kept_by_guard",
    "tamis_groups_deselected": "deselected",
    "tamis_replacements": "replacements",
}
_BY_REASON = (
    ("tamis_groups_expired", "expired", tuple(ExpiryReason)),
    ("tamis_replacements_waived", "waived", tuple(WaiverReason)),
    ("tamis_responses_graded", "graded", tuple(Grading)),
)


def payloads(view: RunView) -> Iterator[tuple[str, Samples]]:
    """Responses, and what they take."""
    redis, totals = view.redis.last, view.groups.lengths.totals
    yield "tamis_responses", [(("member",), totals.members), (("discarded",), totals.discarded)]
    yield "tamis_response_tokens", [(("member",), totals.member_tokens), (("discarded",), totals.discarded_tokens)]
    yield "tamis_responses_discarded", _known(view.discarded, DiscardReason)
    yield "tamis_responses_failed", _known(view.groups.failures.counts, (*Failure, UNGRADED))
    yield "tamis_payload_keys", _one(redis.keys if redis else None)
    yield "tamis_payload_held_bytes", _one(view.progress.held_bytes)
    yield "tamis_payload_budget_bytes", _one(view.rules.payload_budget if view.rules else None)
    yield "tamis_redis_used_bytes", _one(redis.used_bytes if redis else None)
    yield "tamis_payloads_dropped", _known(view.dropped, DropReason)


def log(view: RunView, now_ms: int) -> Iterator[tuple[str, Samples]]:
    """The log itself."""
    yield "tamis_dead_letters", _known(view.dead_letters, DeadLetterReason)
    yield "tamis_lag_records", [((stage,), many) for stage, many in view.lags.items()]
    ages, sizes = view.snapshots.ages_s(now_ms), view.snapshots.sizes()
    yield "tamis_snapshot_age_seconds", [((stage,), age) for stage, age in ages.items()]
    yield "tamis_snapshot_bytes", [((stage,), size) for stage, size in sizes.items()]


def _one(value: float | None) -> Samples:
    return [((), value)]


def _known(counts: Mapping[str, int], names: Iterable[str]) -> Samples:
    """Each name, those that were not met at 0."""
    return [((name,), many) for name, many in ({str(name): 0 for name in names} | dict(counts)).items()]


def _family(name: str, samples: Samples) -> Metric:
    declared = DECLARED[name]
    kind = GaugeMetricFamily if declared.kind == "gauge" else CounterMetricFamily
    family: Metric = kind(name, declared.meaning, labels=declared.labels)
    for labels, value in samples:
        if value is not None:
            family.add_metric(labels, value)  # type: ignore[attr-defined]
    return family


def registry(collector: Collector) -> CollectorRegistry:
    """A registry of its own for one run's view."""
    made = CollectorRegistry()
    made.register(collector)
    return made
