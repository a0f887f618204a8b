"""The run's numbers for Prometheus, read from a RunView whenever it asks. Names are declared here, once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from threading import Lock

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pipeline.domain.vocabulary import DiscardReason, DropReason, ExpiryReason, Reason, WaiverReason
from pipeline.history.view import RunView


class ViewCollector(Collector):
    """Metrics of one run. Counters by reason are there from the start, at 0."""

    def __init__(self, view: RunView, lock: Lock) -> None:
        self._view, self._lock = view, lock

    def collect(self) -> Iterator[Metric]:
        """All metrics, as of now."""
        with self._lock:
            yield from self._gauges()
            yield from self._counters()

    def _gauges(self) -> Iterator[Metric]:
        view, last = self._view, self._view.progress.batches.last
        redis, evaluation = view.redis.last, view.progress.last_evaluation
        values: dict[str, tuple[str, float | None]] = {
            "tamis_step": ("Steps done.", view.step),
            "tamis_steps": ("Steps that the run is to take.", view.steps),
            "tamis_policy_version": ("Version of the policy last trained.", view.progress.version),
            "tamis_groups_open": ("Training groups that are open.", view.groups.open_train),
            "tamis_reward": (
                "Mean reward of the groups judged since the last step.",
                last.sampled_reward if last else None,
            ),
            "tamis_staleness": (
                "Mean staleness of the last batch, policy versions.",
                last.staleness_mean if last else None,
            ),
            "tamis_accuracy": ("Mean reward of the last evaluation.", evaluation.accuracy if evaluation else None),
            "tamis_groups_per_second": ("Groups ended a second, lately.", view.groups_per_s()),
            "tamis_redis_used_bytes": ("Memory that Redis uses.", redis.used_bytes if redis else None),
            "tamis_payload_keys": ("Payload keys of the run in Redis.", redis.keys if redis else None),
            "tamis_finished": ("1 once the run is finished.", float(view.outcome is not None)),
        }
        for name, (meaning, value) in values.items():
            if value is not None:
                yield GaugeMetricFamily(name, meaning, value)
        learner = GaugeMetricFamily("tamis_learner", "What the learner measured in the last step.", labels=["metric"])
        for name, measured in (last.metrics if last else {}).items():
            learner.add_metric([name], measured)
        yield learner

    def _counters(self) -> Iterator[Metric]:
        groups = self._view.groups
        yield CounterMetricFamily("tamis_groups_opened", "Training groups opened.", groups.opened)
        yield CounterMetricFamily("tamis_groups_accepted", "Groups that the filter kept.", groups.accepted)
        yield CounterMetricFamily(
            "tamis_replacements", "Prompts issued in answer to an ended group.", groups.replacements
        )
        yield _by_reason("tamis_groups_rejected", "Groups rejected.", groups.rejected, [*Reason])
        yield _by_reason("tamis_groups_expired", "Groups ended unused.", groups.expired, [*ExpiryReason])
        yield _by_reason(
            "tamis_replacements_waived", "Ended groups without a replacement.", groups.waived, [*WaiverReason]
        )
        yield _by_reason("tamis_responses_discarded", "Responses not used.", self._view.discarded, [*DiscardReason])
        yield _by_reason("tamis_payloads_dropped", "Payload keys dropped.", self._view.dropped, [*DropReason])
        yield _by_reason("tamis_dead_letters", "Records that couldn't be read.", self._view.dead_letters, [])


def _by_reason(name: str, meaning: str, counts: Mapping[str, int], known: list[str]) -> Metric:
    family = CounterMetricFamily(name, meaning, labels=["reason"])
    totals = {str(reason): 0 for reason in known}
    for label, many in counts.items():
        reason = label.partition("/")[0]
        totals[reason] = totals.get(reason, 0) + many
    for reason, many in totals.items():
        family.add_metric([reason], many)
    return family


def registry(view: RunView, lock: Lock) -> CollectorRegistry:
    """A registry of its own for one run's view."""
    made = CollectorRegistry()
    made.register(ViewCollector(view, lock))
    return made
