"""What Prometheus scrapes is what the view says, under names that are declared once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from pipeline.domain import events as e
from pipeline.domain.topology import Topic
from pipeline.domain.vocabulary import (
    DeadLetterReason,
    DiscardReason,
    DropReason,
    ExpiryReason,
    Failure,
    FinishReason,
    Grading,
    Reason,
    ReturnReason,
    SkipReason,
    StarvationCause,
    StarvationPolicy,
    WaiverReason,
    category_of,
)
from pipeline.history.reports.report import count_tables
from pipeline.history.view import RunView
from pipeline.log.codec import Members
from pipeline.metrics import own
from pipeline.metrics.__main__ import document
from pipeline.metrics.declared import DECLARED, METRICS
from pipeline.metrics.run import ViewCollector, registry
from pipeline.verifiers.health import Health
from pipeline.verifiers.metrics import registry as verifiers_registry
from tests.history.drive import CONFIG, Drive

ROOT = Path(__file__).parents[2]
METRIC = {"metric": "reward"}
ZERO_STD = {"type": "zero_std", "tol": 1e-8, "max_reward": 1.0, **METRIC}
BAND = {"type": "band", "low": 0.5, "high": 1.0, **METRIC}
GUARD = {"type": "consecutive", "keep_after": 1}
DOMAINS = [
    {"name": "math", "quota": 3, "filters": [ZERO_STD], "filter_hash": "m", "shadow_filters": [BAND]},
    {"name": "code", "quota": 2, "filters": [BAND], "filter_hash": "c", "guard": GUARD},
    {"name": "chat", "quota": 1, "filters": [{"type": "no_filter"}], "filter_hash": "t"},
]
BY_REASON: dict[str, type[StrEnum]] = {
    "tamis_batches_skipped_total": SkipReason,
    "tamis_batches_returned_total": ReturnReason,
    "tamis_responses_discarded_total": DiscardReason,
    "tamis_payloads_dropped_total": DropReason,
    "tamis_dead_letters_total": DeadLetterReason,
}
Value = Callable[..., Any]


def viewed(drive: Drive) -> RunView:
    made = RunView()
    for record in drive.records:
        made.note(record.timestamp_ms, record.topic, record.event())
    return made


@pytest.fixture(scope="module")
def view() -> RunView:
    """Of a finished run of three domains, with everything that a view may know."""
    drive = Drive({"domains": DOMAINS, "filter_partitions": 1})
    drive.run()
    made = viewed(drive)
    made.sample_redis(made.last_ms, 5_000_000, 0)
    made.lags = {"filter": 3}
    chunk = e.SnapshotChunk("filter", 0, "a", 0, 2, 10, b"", b"x" * 700, 0)
    for index, at_ms in ((0, made.last_ms - 5_000), (1, made.last_ms - 4_000)):
        made.note(at_ms, Topic.SNAPSHOTS, e.SnapshotChunk(**{**_fields(chunk), "index": index}))
    return made


def _fields(event: Any) -> dict[str, Any]:
    return {name: getattr(event, name) for name in event.__dataclass_fields__}


@pytest.fixture(scope="module")
def scraped(view: RunView) -> CollectorRegistry:
    return registry(ViewCollector(view, Lock(), now_s=lambda: view.last_ms / 1000))


@pytest.fixture(scope="module")
def value(scraped: CollectorRegistry) -> Value:
    return lambda metric, /, **labels: scraped.get_sample_value(metric, labels)


def test_names_are_declared_once_with_unit_and_meaning() -> None:
    assert len(DECLARED) == len(METRICS)
    for metric in METRICS:
        assert metric.unit and metric.meaning.endswith(".") and metric.name.startswith("tamis_")
        assert not metric.name.endswith("_total")


def test_the_monitor_serves_what_is_declared_and_nothing_else(scraped: CollectorRegistry) -> None:
    found = {metric.name: metric for metric in scraped.collect()}
    declared = {m.name: m for m in METRICS if m.served_by == "monitor"}
    assert found.keys() == declared.keys()
    for name, metric in found.items():
        assert (metric.type, metric.documentation) == (declared[name].kind, declared[name].meaning)
        for sample in metric.samples:
            assert tuple(sample.labels) == declared[name].labels, name
    assert all(metric.samples for metric in found.values())


def test_a_consumer_serves_what_is_declared_and_nothing_else() -> None:
    own.start("filter")
    own.restored("filter", 0.5)
    for served_by, served in (("consumer", own.REGISTRY), ("scorer", verifiers_registry([Health("math")]))):
        lines = generate_latest(served).decode().splitlines()
        found = [tuple(line.split()[2:]) for line in lines if line.startswith("# TYPE tamis_")]
        ends = {"counter": "_total"}
        assert sorted(found) == sorted(
            (m.name + ends.get(m.kind, ""), m.kind) for m in METRICS if m.served_by == served_by
        )


def test_the_document_is_current() -> None:
    assert (ROOT / "docs" / "metrics.md").read_text() == document() + "\n"


def test_values_are_those_of_the_view(view: RunView, value: Value) -> None:
    batch = view.progress.batches.last
    assert batch is not None
    assert (value("tamis_step"), value("tamis_steps"), value("tamis_policy_version")) == (4, 4, 4)
    assert (value("tamis_reward"), value("tamis_staleness")) == (batch.sampled_reward, batch.staleness_mean)
    assert (value("tamis_redis_used_bytes"), value("tamis_payload_keys")) == (5_000_000, 0)
    assert (value("tamis_finished"), value("tamis_payload_held_bytes")) == (1, 0)
    assert value("tamis_payload_budget_bytes") == CONFIG["payload_budget"]
    assert value("tamis_learner", metric="loss") == batch.metrics["loss"]
    assert value("tamis_lag_records", stage="filter") == 3
    assert value("tamis_snapshot_bytes", stage="filter") == 1400
    assert value("tamis_snapshot_age_seconds", stage="filter") == 5
    assert value("tamis_straggler_age_seconds") == 0
    totals = view.groups.lengths.totals
    assert value("tamis_response_tokens_total", use="member") == totals.member_tokens > 0


@pytest.mark.parametrize("domain", ["math", "code", "chat"])
def test_each_domain_is_apart(view: RunView, value: Value, domain: str) -> None:
    counts = view.groups.domains[domain]
    assert value("tamis_groups_opened_total", domain=domain) == counts.opened > 0
    assert value("tamis_groups_accepted_total", domain=domain) == counts.accepted > 0
    assert value("tamis_replacements_total", domain=domain) == counts.replacements
    assert value("tamis_groups_expired_total", domain=domain, reason="stale") == counts.expired.get("stale", 0)
    assert value("tamis_assembly_seconds", domain=domain, quantile="0.5") == pytest.approx(1.1, rel=0.3)
    quota = next(d["quota"] for d in DOMAINS if d["name"] == domain)
    assert value("tamis_lead", domain=domain) == 2 * quota  # type: ignore[operator]
    assert value("tamis_groups_untrained", domain=domain) == 0


def test_rejections_are_counted_by_domain_category_reason_and_filter(view: RunView, value: Value) -> None:
    def rejected(domain: str, category: str, reason: str, by: str) -> Any:
        names = {"domain": domain, "category": category, "reason": reason, "filter": by}
        return value("tamis_groups_rejected_total", **names)

    assert rejected("math", "low_information", "zero_std", "zero_std") > 0
    assert rejected("code", "low_information", "band", "band") > 0
    assert rejected("math", "low_information", "band", "band") is None
    assert rejected("chat", "invalid", "non_finite_reward", "integrity") == 0
    assert rejected("chat", "system", "deadline", "assembler") == 0
    assert value("tamis_groups_kept_by_guard_total", domain="code") == view.groups.domains["code"].kept_by_guard > 0
    assert value("tamis_guard", domain="code", counter="total") > 0


def test_the_fields_names_are_there_and_at_0_too(view: RunView, value: Value) -> None:
    math = view.groups.domains["math"]
    filtered = math.judged - math.accepted
    assert value("tamis_field_total", domain="math", name="scheduler/group_filter_count") == filtered > 0
    names = ("drop_zero_std_0.0", "drop_zero_std_1.0")
    drops = [value("tamis_field_total", domain="math", name=f"rollout/dynamic_filter/{name}") for name in names]
    assert sum(drops) == filtered
    assert value("tamis_field_total", domain="code", name="rollout/dynamic_filter/drop_band") > 0
    assert value("tamis_field_total", domain="chat", name="rollout/dynamic_filter/drop_ungraded") == 0


def test_shadows_are_counted_beside_what_was_decided(view: RunView, value: Value) -> None:
    shadow = view.groups.shadows.found["math", "band"]
    said = {
        (s, d): value("tamis_shadow_groups_total", domain="math", shadow="band", said=s, decided=d)
        for s in ("accept", "reject")
        for d in ("accepted", "rejected")
    }
    assert sum(said.values()) == shadow.asked > 0
    assert said["reject", "accepted"] == shadow.only_here > 0
    assert said["accept", "rejected"] == shadow.only_there


def of_grading(domain: str, *members: tuple[Grading, Failure | None]) -> e.GroupRejected:
    made = tuple(
        e.Member(
            slot, 1, "key", 100, None if failure else 0.0, 0.0, 0.0, {}, None, grading, failure, FinishReason.STOP,
            False, False, False, 5, 9, 0, 0, "g",
        )
        for slot, (grading, failure) in enumerate(members)
    )  # fmt: skip
    return e.GroupRejected(
        "1@0", e.PromptRef("p1", domain, 1, 0), Reason.UNGRADED, category_of(Reason.UNGRADED), None, None,
        "drop_ungraded", None, Members().encode(made), 0, 0, 0, 0, None, "integrity", None, None, {}, "", {}, (), 0,
    )  # fmt: skip


def test_ungraded_members_and_failures_are_counted_though_their_reward_is_0() -> None:
    view = RunView()
    view.note(0, Topic.LEDGER, Drive({"domains": DOMAINS, "filter_partitions": 1}).started)
    zero, timeout = (Grading.UNGRADED, None), (Grading.FAILED, Failure.TIMEOUT)
    view.note(0, Topic.LEDGER, of_grading("math", zero, zero, timeout, (Grading.GRADED, None)))
    discards = [
        (DiscardReason.FAILED, None), (DiscardReason.FAILED, Failure.ENV_FAILED), (DiscardReason.LATE, Failure.TIMEOUT),
        (DiscardReason.LATE, None), (DiscardReason.FILTERED, None), (DiscardReason.DUPLICATE, Failure.EMPTY),
    ]  # fmt: skip
    for reason, failure in discards:
        view.note(0, Topic.DISCARDS, e.ResponseDiscarded("2@0", 0, 1, None, 0, 9, reason, failure, 0))
    made = registry(ViewCollector(view, Lock()))
    graded = {
        (domain, str(grading)): made.get_sample_value(
            "tamis_responses_graded_total", {"domain": domain, "grading": str(grading)}
        )
        for domain in ("math", "code")
        for grading in Grading
    }
    known = {("math", "graded"): 1, ("math", "ungraded"): 2, ("math", "failed"): 1}
    assert graded == known | {("code", str(grading)): 0 for grading in Grading}
    failed = {
        s.labels["failure"]: s.value
        for m in made.collect()
        for s in m.samples
        if s.name == "tamis_responses_failed_total"
    }
    assert failed == {str(f): 0 for f in Failure} | {"ungraded": 3, "timeout": 2, "env_failed": 1}
    tables = count_tables(view)
    assert tables["Members by grading"] == {"ungraded": 2, "graded": 1, "failed": 1}
    assert tables["Training responses failed"] == {"ungraded": 3, "timeout": 2, "env_failed": 1}


@pytest.mark.parametrize("name", BY_REASON)
def test_every_reason_is_there_from_the_start(name: str) -> None:
    unstarted = registry(ViewCollector(RunView(), Lock()))
    samples = {s.labels["reason"]: s.value for m in unstarted.collect() for s in m.samples if s.name == name}
    assert samples == {str(reason): 0 for reason in BY_REASON[name]}


def test_a_run_that_has_just_begun_has_its_domains_at_0() -> None:
    view = RunView()
    drive = Drive({"domains": DOMAINS, "filter_partitions": 1})
    view.note(0, Topic.LEDGER, drive.started)
    made = registry(ViewCollector(view, Lock()))
    for name, reasons in (("expired", ExpiryReason), ("waived", WaiverReason)):
        metric = {"expired": "tamis_groups_expired_total", "waived": "tamis_replacements_waived_total"}[name]
        for reason in reasons:
            assert made.get_sample_value(metric, {"domain": "chat", "reason": str(reason)}) == 0
    for cause in StarvationCause:
        assert made.get_sample_value("tamis_starvation_total", {"domain": "code", "cause": str(cause)}) == 0
    starved = e.StarvationRaised("code", StarvationCause.LOW_ACCEPTANCE, StarvationPolicy.WAIT, 0, 0, 9, 0, "", 0)
    view.note(1, Topic.LEDGER, starved)
    assert made.get_sample_value("tamis_starvation_total", {"domain": "code", "cause": "low_acceptance"}) == 1


def test_the_oldest_open_group_is_the_straggler() -> None:
    drive = Drive()
    drive.run(8)
    view = viewed(drive)
    assert view.groups.oldest_open_ms is not None
    made = registry(ViewCollector(view, Lock(), now_s=lambda: (view.groups.oldest_open_ms or 0) / 1000 + 42))
    assert made.get_sample_value("tamis_straggler_age_seconds") == pytest.approx(42)


def test_the_rate_is_that_of_now_also_when_the_log_is_silent(view: RunView) -> None:
    assert view.groups_per_s() > 0
    for silent_s, positive in ((1, True), (60, False)):
        made = registry(ViewCollector(view, Lock(), now_s=lambda s=silent_s: view.last_ms / 1000 + s))  # type: ignore[misc]
        assert bool(made.get_sample_value("tamis_groups_per_second")) is positive


def test_what_is_not_known_yet_is_left_out() -> None:
    text = generate_latest(registry(ViewCollector(RunView(), Lock()))).decode()
    assert "tamis_step 0.0" in text
    assert not {"tamis_reward", "tamis_accuracy", "tamis_redis_used_bytes"} & {
        line.split(" ")[0] for line in text.splitlines()
    }


def test_a_scrape_waits_while_the_view_is_changed(view: RunView) -> None:
    lock = Lock()
    made = registry(ViewCollector(view, lock))
    with ThreadPoolExecutor(1) as scraper:
        with lock:
            scrape = scraper.submit(made.get_sample_value, "tamis_step")
            view.progress.step = 5
        assert scrape.result(10) == 5
    view.progress.step = 4
