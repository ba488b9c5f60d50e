"""The latencies of deliveries."""

import pytest

from leveret.broker.amqp.properties import encode_properties
from leveret.broker.moving.client.delivery_scanner import ClientDelivery
from leveret.mgmt.perf.deliveries import note_latencies
from leveret.mgmt.perf.histogram import LatencyHistogram

MINUTE_NS = 60 * 10**9
MILLISECOND_NS = 10**6


def delivery(sent_ns, *, body=None, **headers):
    """A message of zeros after the time; with a body, the time is in the header `timestamp`."""
    if body is None:
        body = sent_ns.to_bytes(8, "big") + bytes(8)
    properties = encode_properties({"headers": headers} if headers else {})
    return ClientDelivery(1, False, "e", "k", properties, body)


def latencies_of(*deliveries):
    """How many latencies were noted, and the least and the greatest in microseconds."""
    latencies = LatencyHistogram()
    note_latencies(deliveries, MINUTE_NS, latencies)
    return latencies.total, latencies.minimum, latencies.maximum


def test_messages_of_several_batches():
    ago = [MINUTE_NS - 2 * MILLISECOND_NS] * 3 + [MINUTE_NS - 6 * MILLISECOND_NS]
    assert latencies_of(*map(delivery, ago)) == (4, 2000, 6000)


def test_the_time_may_be_in_a_header():
    sent_ns = MINUTE_NS - MILLISECOND_NS
    stamped = delivery(0, body=b"a longer text", a=("S", "x"), timestamp=("l", sent_ns))
    assert latencies_of(stamped) == (1, 1000, 1000)


@pytest.mark.parametrize(
    "foreign",
    [
        delivery(0, body=b"short"),
        delivery(0, body=b""),
        delivery(MINUTE_NS + 1000),
        delivery(0, body=b"a text that another program has published"),
    ],
)
def test_messages_of_others_have_no_latency(foreign):
    assert latencies_of(foreign) == (0, None, None)
