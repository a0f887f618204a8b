"""Options that are passed on to the Kafka client are refused by their name, whichever client meets them first."""

from __future__ import annotations

import pytest

from pipeline.log.client import Connection, admin_client, fact_producer, plain_consumer
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
