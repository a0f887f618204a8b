"""The dashboard asks for what is there: read by a parser of PromQL, and by Prometheus' own where it is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
import yaml

from pipeline.metrics.declared import METRICS
from tests.containers.files import DASHBOARD, QUERIES, ROOT, SERVICES

FOLDER = ROOT / "deploy" / "prometheus"
ENDS = {"counter": "_total", "histogram": "_bucket", "gauge": ""}
LABELS = {metric.name + ENDS[metric.kind]: {*metric.labels, "instance", "job", "consumer"} for metric in METRICS}
"""What is asked of each metric by; the last three are Prometheus' and its configuration's."""


def parts(query: str) -> list[Any]:
    """The expressions that a query consists of. ValueError if it is none, or of the wrong types."""
    found: list[Any] = []
    promql.walk(promql.parse(query), found.append)
    return found


def selectors(query: str) -> list[Any]:
    return [part for part in parts(query) if isinstance(part, promql.VectorSelector)]


def labels_of(query: str) -> set[str]:
    """The labels that the outermost sum of a query leaves, or those of its metric."""
    sums = [part for part in parts(query) if isinstance(part, promql.AggregateExpr)]
    if sums:
        return set(sums[0].modifier.labels) if sums[0].modifier else set()
    (selector,) = selectors(query)
    return LABELS[selector.name]


@pytest.mark.parametrize("query", QUERIES)
def test_the_dashboard_asks_for_metrics_and_labels_that_exist(query: str) -> None:
    (selector,) = selectors(query)
    known = LABELS[selector.name] | ({"le"} if selector.name.endswith("_bucket") else set())
    sums = [part.modifier.labels for part in parts(query) if isinstance(part, promql.AggregateExpr) and part.modifier]
    named = {label for labels in sums for label in labels}
    assert named | {matcher.name for matcher in selector.matchers.matchers} <= known
    assert set(re.findall(r"\{\{(\w+)\}\}", QUERIES[query])) <= labels_of(query)


@pytest.mark.parametrize("query", ["rate(tamis_step)", "sum by (a (tamis_step)", "tamis_step[5m", "ratio(tamis_step)"])
def test_what_is_no_query_is_seen(query: str) -> None:
    with pytest.raises(ValueError):
        parts(query)


def test_counters_are_asked_for_their_rate_or_their_sum() -> None:
    for query in QUERIES:
        (selector,) = selectors(query)
        if selector.name.endswith(("_total", "_bucket")):
            assert re.search(r"\b(rate|sum)\b", query), query


def test_the_dashboard_asks_the_source_that_is_provisioned() -> None:
    (source,) = yaml.safe_load((ROOT / "deploy/grafana/datasources/prometheus.yml").read_text())["datasources"]
    assert {panel["datasource"]["uid"] for panel in DASHBOARD["panels"]} == {source["uid"]}
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home == "/etc/grafana/provisioning/dashboards/tamis.json"


def promtool(*words: str) -> str:
    """What Prometheus' own tool says; the test is skipped where it isn't installed."""
    if not shutil.which("promtool"):
        pytest.skip("promtool, which comes with Prometheus, is not on the PATH")
    done = subprocess.run(["promtool", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_loads_the_configuration() -> None:
    assert "is valid prometheus config file syntax" in promtool("check", "config", str(FOLDER / "prometheus.yml"))


def test_promtool_reads_every_query(tmp_path: Path) -> None:
    rules = [{"record": f"query_{number}", "expr": query} for number, query in enumerate(QUERIES)]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(QUERIES)} rules found" in promtool("check", "rules", str(tmp_path / "rules.yml"))
