"""What a consumer receives and settles, as seen by its connection."""

import pytest
from pamqp import commands

from leveret.broker.amqp.content import body_frames, header_frame
from leveret.broker.amqp.methods import decode_method, method_frame
from leveret.broker.amqp.properties import encode_properties
from leveret.mgmt.perf.consumer import Consumer
from leveret.mgmt.perf.options import Options


class Connection:
    """Records sent frames and pauses, and answers nothing."""

    def __init__(self):
        self.handlers, self.sent, self.holds = {}, [], []

    def write(self, data):
        start = 0
        while start < len(data):
            stop = start + 7 + int.from_bytes(data[start + 3 : start + 7], "big")
            self.sent.append(decode_method(data[start + 7 : stop]))
            start = stop + 1

    def send(self, channel, method, **arguments):
        self.write(method_frame(channel, method, **arguments))

    def hold(self, wait_s):
        self.holds.append(wait_s)

    @property
    def settled(self):
        """(delivery tag, multiple) of each ack or nack, and `commit` of each transaction."""
        return [
            "commit" if isinstance(one, commands.Tx.Commit) else (one.delivery_tag, one.multiple)
            for one in self.sent
        ]


def deliveries(first, last):
    """Return the bytes of deliveries with these tags."""
    pieces = []
    for tag in range(first, last + 1):
        method = method_frame(1, commands.Basic.Deliver, consumer_tag="c", delivery_tag=tag)
        pieces += [method, header_frame(1, encode_properties({}), 12)]
        pieces += body_frames(1, bytes(12), 4096)
    return b"".join(pieces)


@pytest.fixture
async def make():
    """Creates a consumer with options; the connection is its `connection`."""

    def made(**given):
        return Consumer(Connection(), 1, ["q"], Options([], "x", **given))

    return made


async def test_each_message_is_acked(make):
    consumer = make()
    data = deliveries(1, 3)
    assert consumer.take(data, 0) == len(data)
    assert consumer.received == 3
    assert consumer.connection.settled == [(1, False), (2, False), (3, False)]


async def test_several_are_acked_at_once_and_the_rest_at_the_end(make):
    consumer = make(multi_ack_every=5)
    consumer.take(deliveries(1, 12), 0)
    assert consumer.connection.settled == [(10, True)]
    await consumer.stop()
    assert consumer.connection.settled == [(10, True), (12, True)]


async def test_transactions_are_committed_when_they_are_full_and_at_the_end(make):
    consumer = make(ctxsize=2)
    consumer.take(deliveries(1, 3), 0)
    await consumer.stop()
    tags = [(1, True), (2, True), "commit", (3, True), "commit"]
    assert consumer.connection.settled == tags


async def test_nacks_say_whether_to_requeue(make):
    for requeue in (True, False):
        consumer = make(nack=True, requeue=requeue)
        consumer.take(deliveries(1, 1), 0)
        (nack,) = consumer.connection.sent
        assert isinstance(nack, commands.Basic.Nack)
        assert nack.requeue is requeue


async def test_nothing_is_acked_without_acks(make):
    consumer = make(autoack=True)
    consumer.take(deliveries(1, 3), 0)
    await consumer.stop()
    assert (consumer.received, consumer.connection.sent) == (3, [])


async def test_not_one_more_is_counted_than_was_to_be(make):
    consumer = make(cmessages=4, multi_ack_every=3)
    data = deliveries(1, 10)
    position = consumer.take(data, 0)
    assert (consumer.received, consumer.done.done()) == (4, True)
    assert consumer.take(data, position) == len(data)
    assert consumer.received == 4
    assert consumer.connection.settled == [(3, True), (4, True)]


async def test_no_more_are_taken_than_the_rate_allows(make):
    consumer = make(consumer_rate=0)
    assert consumer.take(deliveries(1, 2), 0) == 0
    assert (consumer.received, len(consumer.connection.holds)) == (0, 1)


async def test_messages_that_take_their_time_hold_the_connection_and_are_acked_after_it(make):
    consumer = make(consumer_latency=10_000)
    data = deliveries(1, 2)
    assert consumer.take(data, 0) == len(data) // 2
    assert consumer.connection.holds == [pytest.approx(0.01)]
    assert consumer.connection.sent == []
    await consumer.stop()
    assert consumer.connection.settled == [(1, True)]
