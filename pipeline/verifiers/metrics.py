"""The health of verifiers for Prometheus, as their scorer serves it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pipeline.metrics.declared import DECLARED
from pipeline.verifiers.health import Health

COUNTERS = ("calls", "responses", "failures", "timeouts", "seconds")
WINDOWED = ("responses", "failures", "timeouts")


class HealthCollector(Collector):
    """Metrics of a scorer's verifiers, each with the label `verifier`, from the start on."""

    def __init__(self, healths: Sequence[Health]) -> None:
        self._healths = healths

    def collect(self) -> Iterator[Metric]:
        """All metrics, as of now."""
        for field in COUNTERS:
            declared = DECLARED[f"tamis_verifier_{field}"]
            counter = CounterMetricFamily(declared.name, declared.meaning, labels=declared.labels)
            for health in self._healths:
                counter.add_metric([health.name], getattr(health.total, field))
            yield counter
        recent = {health.name: health.recent() for health in self._healths}
        for field in WINDOWED:
            values = {verifier: getattr(counts, field) for verifier, counts in recent.items()}
            yield _gauge(f"tamis_verifier_recent_{field}", values)
        latency = {name: counts.seconds / counts.calls for name, counts in recent.items() if counts.calls}
        yield _gauge("tamis_verifier_latency_seconds", latency)
        out = {health.name: float(health.outage() is not None) for health in self._healths}
        yield _gauge("tamis_verifier_out", out)


def _gauge(name: str, values: dict[str, float]) -> Metric:
    declared = DECLARED[name]
    gauge = GaugeMetricFamily(name, declared.meaning, labels=declared.labels)
    for verifier, value in values.items():
        gauge.add_metric([verifier], value)
    return gauge


def registry(healths: Sequence[Health]) -> CollectorRegistry:
    """A registry of its own for one scorer."""
    made = CollectorRegistry()
    made.register(HealthCollector(healths))
    return made
