"""What Prometheus scrapes is what the view says, under names that don't change."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from pipeline.domain.vocabulary import DiscardReason, DropReason, ExpiryReason, Reason, WaiverReason
from pipeline.history.view import RunView
from pipeline.metrics import registry
from tests.history.drive import Drive

GAUGES = {
    "tamis_step",
    "tamis_steps",
    "tamis_policy_version",
    "tamis_groups_open",
    "tamis_reward",
    "tamis_staleness",
    "tamis_accuracy",
    "tamis_groups_per_second",
    "tamis_redis_used_bytes",
    "tamis_payload_keys",
    "tamis_finished",
    "tamis_learner",
}
COUNTERS = {
    "tamis_groups_opened",
    "tamis_groups_accepted",
    "tamis_replacements",
    "tamis_groups_rejected",
    "tamis_groups_expired",
    "tamis_replacements_waived",
    "tamis_responses_discarded",
    "tamis_payloads_dropped",
    "tamis_dead_letters",
}
BY_REASON = {
    "tamis_groups_rejected_total": Reason,
    "tamis_groups_expired_total": ExpiryReason,
    "tamis_replacements_waived_total": WaiverReason,
    "tamis_responses_discarded_total": DiscardReason,
    "tamis_payloads_dropped_total": DropReason,
}


@pytest.fixture(scope="module")
def view() -> RunView:
    """Of a finished run, whose last sample of Redis was 5 MB in 0 keys."""
    drive, made = Drive(), RunView()
    for record in drive.run():
        made.note(record.timestamp_ms, record.topic, record.event())
    made.sample_redis(made.last_ms, 5_000_000, 0)
    return made


@pytest.fixture(scope="module")
def scraped(view: RunView) -> CollectorRegistry:
    return registry(view, Lock())


def test_every_metric_has_its_name_and_kind_and_an_explanation(scraped: CollectorRegistry) -> None:
    found = {metric.name: metric for metric in scraped.collect()}
    assert found.keys() == GAUGES | COUNTERS
    assert {name for name, metric in found.items() if metric.type == "gauge"} == GAUGES
    assert all(metric.documentation.endswith(".") for metric in found.values())


def test_values_are_those_of_the_view(view: RunView, scraped: CollectorRegistry) -> None:
    value, groups, batch = scraped.get_sample_value, view.groups, view.progress.batches.last
    assert batch is not None
    assert (value("tamis_step"), value("tamis_steps"), value("tamis_policy_version")) == (4, 4, 4)
    assert value("tamis_groups_opened_total") == groups.opened > 0
    assert value("tamis_groups_accepted_total") == groups.accepted > 0
    assert value("tamis_replacements_total") == groups.replacements > 0
    assert (value("tamis_reward"), value("tamis_staleness")) == (batch.sampled_reward, batch.staleness_mean)
    assert (value("tamis_redis_used_bytes"), value("tamis_payload_keys")) == (5_000_000, 0)
    assert value("tamis_finished") == 1


def test_what_the_learner_measured_is_there_by_name(view: RunView, scraped: CollectorRegistry) -> None:
    last = view.progress.batches.last
    assert last is not None and last.metrics
    samples = next(metric.samples for metric in scraped.collect() if metric.name == "tamis_learner")
    assert {sample.labels["metric"]: sample.value for sample in samples} == last.metrics


def test_classes_of_a_reason_are_counted_together(view: RunView, scraped: CollectorRegistry) -> None:
    rejected = scraped.get_sample_value("tamis_groups_rejected_total", {"reason": "zero_std"})
    assert rejected == sum(many for name, many in view.groups.rejected.items() if name.startswith("zero_std")) > 0


@pytest.mark.parametrize("name", BY_REASON)
def test_every_reason_is_there_from_the_start(name: str) -> None:
    unstarted = registry(RunView(), Lock())
    samples = {s.labels["reason"]: s.value for m in unstarted.collect() for s in m.samples if s.name == name}
    assert samples == {str(reason): 0 for reason in BY_REASON[name]}


def test_what_is_not_known_yet_is_left_out() -> None:
    text = generate_latest(registry(RunView(), Lock())).decode()
    assert "tamis_step 0.0" in text
    assert not {"tamis_reward", "tamis_accuracy", "tamis_redis_used_bytes"} & {
        line.split(" ")[0] for line in text.splitlines()
    }


def test_a_scrape_waits_while_the_view_is_changed(view: RunView) -> None:
    lock = Lock()
    made = registry(view, lock)
    with ThreadPoolExecutor(1) as scraper:
        with lock:
            scrape = scraper.submit(made.get_sample_value, "tamis_step")
            view.progress.step = 5
        assert scrape.result(10) == 5
    view.progress.step = 4
