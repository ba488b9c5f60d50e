"""Deliveries are processed in runs, or assembled frame by frame."""

import pytest
from pamqp import commands

from leveret.broker.amqp.content import body_frames, header_frame
from leveret.broker.amqp.frames import BODY, HEADER
from leveret.broker.amqp.methods import method_frame
from leveret.broker.amqp.properties import encode_properties
from leveret.mgmt.perf.deliveries import Assembly, shape_of, step
from leveret.mgmt.perf.histogram import LatencyHistogram

MINUTE_NS = 60 * 10**9
MILLISECOND_NS = 10**6


def delivery(tag, body=None, *, sent_ns=0, consumer="c", channel=1, headers=None):
    """Return the bytes of a delivery."""
    body = sent_ns.to_bytes(8, "big") + bytes(8) if body is None else body
    properties = encode_properties({"headers": headers} if headers else {})
    method = method_frame(
        channel, commands.Basic.Deliver, consumer_tag=consumer, delivery_tag=tag, exchange="e",
        routing_key="k",
    )  # fmt: skip
    header = header_frame(channel, properties, len(body))
    return b"".join((method, header, *body_frames(channel, body, 4096)))


def stepped(data, count_max=1000, now_ns=MINUTE_NS):
    latencies = LatencyHistogram()
    shape = shape_of(data, 0)
    assert shape is not None
    return step(data, 0, shape, count_max, now_ns, latencies), latencies


def test_a_run_is_counted_and_timed():
    sent = [MINUTE_NS - MILLISECOND_NS] * 2 + [MINUTE_NS - 2 * MILLISECOND_NS]
    data = b"".join(delivery(tag, sent_ns=at) for tag, at in zip((5, 6, 7), sent, strict=True))
    run, latencies = stepped(data)
    assert run == (3, len(data), 7)
    assert (latencies.total, latencies.minimum, latencies.maximum) == (3, 1000, 2000)


def test_no_more_are_taken_than_may_be():
    data = b"".join(delivery(tag) for tag in range(1, 11))
    run, _ = stepped(data, count_max=4)
    assert (run.messages, run.last_tag, run.stop) == (4, 4, len(data) * 4 // 10)


@pytest.mark.parametrize(
    "other",
    [
        delivery(2, consumer="d"), delivery(2, channel=2), delivery(2, b"x" * 17),
        delivery(2)[:-1], b"",
    ],
)  # fmt: skip
def test_a_run_ends_where_something_else_begins(other):
    first = delivery(1)
    run, _ = stepped(first + other)
    assert (run.messages, run.stop) == (1, len(first))


def test_times_may_be_in_a_header():
    headers = {"timestamp": ("l", MINUTE_NS - MILLISECOND_NS)}
    data = b"".join(delivery(tag, b"text", headers=headers) for tag in (1, 2))
    run, latencies = stepped(data)
    assert (run.messages, latencies.total, latencies.maximum) == (2, 2, 1000)


def test_messages_of_others_count_but_their_times_do_not():
    data = delivery(1, b"somebody else's words") + delivery(2, b"somebody else's words")
    run, latencies = stepped(data)
    assert (run.messages, latencies.total) == (2, 0)


@pytest.mark.parametrize(
    "data",
    [
        delivery(1)[:20], delivery(1)[:-1], delivery(1, b"x" * 5000), delivery(1, b""),
        method_frame(1, commands.Basic.Ack, delivery_tag=1),
    ],
)  # fmt: skip
def test_a_partial_delivery_or_one_of_several_body_frames_has_no_shape(data):
    assert shape_of(data, 0) is None


def test_a_message_is_put_together_of_its_frames():
    assembly = Assembly()
    assembly.begin(9)
    header = header_frame(1, encode_properties({}), 5000)[7:-1]
    stamp = (77).to_bytes(8, "big")
    assert assembly.add(HEADER, header) is None
    assert assembly.is_open
    assert assembly.add(BODY, stamp + bytes(4000)) is None
    assert assembly.add(BODY, bytes(992)) == stamp
    assert (assembly.is_open, assembly.tag) == (False, 9)


def test_an_empty_message_is_whole_with_its_header():
    assembly = Assembly()
    assembly.begin(1)
    assert assembly.add(HEADER, header_frame(1, encode_properties({}), 0)[7:-1]) == b""
    assert not assembly.is_open
