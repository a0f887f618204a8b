"""The health of verifiers for Prometheus, as their scorer serves it. Names are declared here, once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pipeline.verifiers.health import WINDOW_S, Health

COUNTERS = {
    "tamis_verifier_calls": ("Calls of a verifier.", "calls"),
    "tamis_verifier_responses": ("Responses put to a verifier.", "responses"),
    "tamis_verifier_failures": ("Responses that a verifier left without a score, timeouts included.", "failures"),
    "tamis_verifier_timeouts": ("Responses that a verifier took too long for.", "timeouts"),
    "tamis_verifier_seconds": ("Seconds that calls of a verifier took, together.", "seconds"),
}
WINDOWED = {
    "tamis_verifier_recent_responses": (f"Responses put to a verifier in the last {WINDOW_S} s.", "responses"),
    "tamis_verifier_recent_failures": (f"Those of the last {WINDOW_S} s without a score.", "failures"),
    "tamis_verifier_recent_timeouts": (f"Those of the last {WINDOW_S} s that took too long.", "timeouts"),
}


class HealthCollector(Collector):
    """Metrics of a scorer's verifiers, each with the label `verifier`, from the start on."""

    def __init__(self, healths: Sequence[Health]) -> None:
        self._healths = healths

    def collect(self) -> Iterator[Metric]:
        """All metrics, as of now."""
        for name, (meaning, field) in COUNTERS.items():
            counter = CounterMetricFamily(name, meaning, labels=["verifier"])
            for health in self._healths:
                counter.add_metric([health.name], getattr(health.total, field))
            yield counter
        recent = {health.name: health.recent() for health in self._healths}
        for name, (meaning, field) in WINDOWED.items():
            yield _gauge(name, meaning, {verifier: getattr(counts, field) for verifier, counts in recent.items()})
        latency = {name: counts.seconds / counts.calls for name, counts in recent.items() if counts.calls}
        yield _gauge("tamis_verifier_latency_seconds", f"Mean seconds of a call in the last {WINDOW_S} s.", latency)
        out = {health.name: float(health.outage() is not None) for health in self._healths}
        yield _gauge("tamis_verifier_out", "1 while most responses are left without a score.", out)


def _gauge(name: str, meaning: str, values: dict[str, float]) -> Metric:
    gauge = GaugeMetricFamily(name, meaning, labels=["verifier"])
    for verifier, value in values.items():
        gauge.add_metric([verifier], value)
    return gauge


def registry(healths: Sequence[Health]) -> CollectorRegistry:
    """A registry of its own for one scorer."""
    made = CollectorRegistry()
    made.register(HealthCollector(healths))
    return made
