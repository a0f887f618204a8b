"""Options that are passed on to the Kafka client are refused by their name, whichever client meets them first; and
who gives a client up waits for it no longer than it may take."""

from __future__ import annotations

import threading

import pytest
import structlog
from confluent_kafka import Consumer, Producer

from pipeline.log import client
from pipeline.log.client import Connection, admin_client, fact_producer, give_up, plain_consumer, using
from pipeline.log.errors import Stop
from pipeline.log.reader import watermarks


@pytest.mark.parametrize("make", [admin_client, fact_producer, plain_consumer, lambda c: watermarks(c, "t", [0])])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"nonsense": "x"}, 'TAMIS_KAFKA: No such configuration property: "nonsense"; expected options of librdkafka'),
        ({"security.protocol": "bogus"}, 'TAMIS_KAFKA: Invalid value "bogus" for configuration property'),
    ],
)
def test_an_option_that_the_client_does_not_take_is_refused(make, options, said):
    with pytest.raises(Stop, match=said):
        make(Connection("127.0.0.1:1", "t", "here", options))


NOBODY = Connection("127.0.0.1:1", "t", "here")


def test_a_client_is_closed_at_the_end_of_its_block_also_by_an_error():
    with pytest.raises(ZeroDivisionError), using(plain_consumer(NOBODY)) as consumer:
        raise ZeroDivisionError
    with pytest.raises(RuntimeError, match="closed"):
        consumer.poll(0)
    with using(admin_client(NOBODY)) as admin:
        pass
    with pytest.raises(RuntimeError):
        admin.list_topics(timeout=0.1)


def test_what_a_producer_has_not_delivered_does_not_hold_its_end_up():
    producer = fact_producer(NOBODY)
    producer.produce("t", b"never delivered")
    give_up(producer)
    with pytest.raises(RuntimeError, match="closed"):
        producer.poll(0)


@pytest.mark.parametrize("kind", [Consumer, Producer])
def test_a_client_that_never_closes_is_left_with_a_warning(kind, monkeypatch):
    """As librdkafka has been seen to do. The client's own thread holds up neither the caller nor the process's end."""
    let_go = threading.Event()

    class Stuck(kind):
        def close(self):
            let_go.wait(60)

    monkeypatch.setattr(client, "CLOSE_S", 0.1)
    with structlog.testing.capture_logs() as told:
        give_up(Stuck({"bootstrap.servers": "127.0.0.1:1", **({"group.id": "t"} if kind is Consumer else {})}))
    (closing,) = [thread for thread in threading.enumerate() if thread.name == "give up"]
    assert closing.daemon
    assert [line["client"] for line in told] == ["Stuck"]
    let_go.set()
    closing.join(10)
    assert not closing.is_alive()
