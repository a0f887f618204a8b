"""A run that lies in Kafka is audited and traced as one in memory."""

from __future__ import annotations

import secrets

import pytest

from pipeline.history.audits.audit import audit_run
from pipeline.history.records import KafkaLog
from pipeline.history.trace import trace_run
from pipeline.local import Services
from pipeline.log.admin import create_run
from pipeline.log.client import Connection, fact_producer
from pipeline.log.errors import Stop
from pipeline.log.topics import topic_name

from .drive import Drive

pytestmark = pytest.mark.contract


@pytest.fixture(scope="module")
def stored(services: Services) -> Connection:
    """A finished run, written to topics of its own."""
    name = f"t{secrets.token_hex(4)}"
    drive = Drive({"run": name}, stride=1)
    drive.run()
    connection = Connection(services.bootstrap, name, "here")
    create_run(connection, drive.rules)
    producer = fact_producer(connection)
    for r in drive.records:
        topic = topic_name(name, r.topic)
        producer.produce(topic, r.value, r.key, r.partition, timestamp=r.timestamp_ms, headers=list(r.headers))
    assert producer.flush(30) == 0
    return connection


def test_a_run_in_kafka_passes_the_audit(stored: Connection) -> None:
    found = audit_run(stored)
    assert (found.violations, found.pending, found.drained) == ([], [], True)
    assert found.checked["keys generated"] == found.checked["keys dropped"] > 50
    assert found.checked["outputs compared"] > 200


def test_a_group_in_kafka_is_traced(stored: Connection) -> None:
    lines = trace_run(KafkaLog(stored), "3@0")
    assert lines[0].text.startswith("opened for prompt train-0-0")
    assert lines[-1].text == "3 payloads dropped: trained"


def test_a_run_that_does_not_exist_is_said_so(services: Services) -> None:
    with pytest.raises(Stop, match="no-such-run"):
        audit_run(Connection(services.bootstrap, "no-such-run", "here"))
