"""What a consumer process says of itself. One registry for the process, and an object for each declared metric."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics

from pipeline.metrics.declared import DECLARED

disable_created_metrics()  # type: ignore[no-untyped-call]  # gauges that say when a counter was made
REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


def counter(name: str) -> Counter:
    """The counter of that declared name; make it once."""
    metric = DECLARED[name]
    return Counter(name, metric.meaning, metric.labels, registry=REGISTRY)


def gauge(name: str) -> Gauge:
    """The gauge of that declared name; make it once."""
    metric = DECLARED[name]
    return Gauge(name, metric.meaning, metric.labels, registry=REGISTRY)


def histogram(name: str) -> Histogram:
    """The histogram of that declared name, of durations; make it once."""
    metric = DECLARED[name]
    return Histogram(name, metric.meaning, metric.labels, registry=REGISTRY, buckets=_SECONDS)


_TRANSACTIONS, _ABORTED = counter("tamis_transactions"), counter("tamis_transactions_aborted")
_OPEN_FOR = histogram("tamis_transaction_seconds")
_HANDLED, _WRITTEN = counter("tamis_records_handled"), counter("tamis_records_written")
_RESTORES, _RESTORE_TIME = counter("tamis_restores"), gauge("tamis_restore_seconds")


def start(stage: str) -> None:
    """Have the counters of a stage at 0."""
    for each in (_TRANSACTIONS, _ABORTED, _OPEN_FOR, _HANDLED, _WRITTEN, _RESTORES):
        each.labels(stage)


def committed(stage: str, seconds: float) -> None:
    """A transaction is over."""
    _TRANSACTIONS.labels(stage).inc()
    _OPEN_FOR.labels(stage).observe(seconds)


def aborted(stage: str) -> None:
    """A transaction came to nothing."""
    _ABORTED.labels(stage).inc()


def handled(stage: str, records: int, written: int) -> None:
    """What a committed transaction held."""
    _HANDLED.labels(stage).inc(records)
    _WRITTEN.labels(stage).inc(written)


def restored(stage: str, seconds: float) -> None:
    """The states of new partitions are there."""
    _RESTORES.labels(stage).inc()
    _RESTORE_TIME.labels(stage).set(seconds)
