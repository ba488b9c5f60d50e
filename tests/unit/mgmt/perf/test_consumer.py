"""What a consumer receives and settles, as seen by its connection."""

import asyncio

import pytest
from pamqp import commands

from leveret.broker.moving.client.delivery_scanner import ClientDelivery
from leveret.mgmt.perf.consumer import PerfConsumer
from leveret.mgmt.perf.options import PerfOptions


class Channel:
    """Records what is settled and committed."""

    def __init__(self):
        self.settled, self.nacks, self.gets = [], [], []

    def ack(self, tag, multiple):
        self.settled.append((tag, multiple))

    def nack(self, tag, multiple, requeue):
        self.nacks.append((tag, multiple, requeue))

    def call(self, method, **arguments):
        if method is commands.Tx.Commit:
            self.settled.append("commit")
        return self.close()

    async def get(self, queue, no_ack):
        self.gets.append(queue)

    async def close(self):
        pass


class Connection:
    """Records pauses, and answers at once."""

    def __init__(self):
        self.channel, self.holds = Channel(), []

    async def open_channel(self):
        return self.channel

    def require(self, channel):
        pass

    async def call(self, channel, method, **arguments):
        pass

    def begin(self, work):
        return asyncio.ensure_future(work)

    def hold(self, wait_s, go_on):
        self.holds.append((wait_s, go_on))


def deliveries(first, last):
    """Messages with these tags."""
    return [
        ClientDelivery(tag, False, "", "q", b"\0\0", bytes(12)) for tag in range(first, last + 1)
    ]


@pytest.fixture
async def make():
    """Creates a consumer with options; the connection is its `connection`."""

    async def made(**given):
        consumer = PerfConsumer(Connection(), ["q"], PerfOptions([], "x", **given))
        await consumer.open()
        return consumer

    return made


def settled(consumer):
    """(delivery tag, multiple) of each ack, and `commit` of each transaction."""
    return consumer.connection.channel.settled


async def test_each_message_is_acked(make):
    consumer = await make()
    consumer.take(deliveries(1, 3))
    assert consumer.received == 3
    assert settled(consumer) == [(1, False), (2, False), (3, False)]


async def test_several_are_acked_at_once_and_the_rest_at_the_end(make):
    consumer = await make(multi_ack_every=5)
    consumer.take(deliveries(1, 12))
    assert settled(consumer) == [(10, True)]
    await consumer.stop()
    assert settled(consumer) == [(10, True), (12, True)]


async def test_transactions_are_committed_when_they_are_full_and_at_the_end(make):
    consumer = await make(ctxsize=2)
    consumer.take(deliveries(1, 3))
    await consumer.stop()
    assert settled(consumer) == [(1, True), (2, True), "commit", (3, True), "commit"]


@pytest.mark.parametrize("requeue", [True, False])
async def test_nacks_say_whether_to_requeue(make, requeue):
    consumer = await make(nack=True, requeue=requeue)
    consumer.take(deliveries(1, 1))
    assert consumer.connection.channel.nacks == [(1, False, requeue)]


async def test_nothing_is_acked_without_acks(make):
    consumer = await make(autoack=True)
    consumer.take(deliveries(1, 3))
    await consumer.stop()
    assert (consumer.received, settled(consumer)) == (3, [])


async def test_not_one_more_is_counted_than_was_to_be(make):
    consumer = await make(cmessages=4, multi_ack_every=3)
    consumer.take(deliveries(1, 10))
    assert (consumer.received, consumer.done.done()) == (4, True)
    consumer.take(deliveries(11, 12))
    assert consumer.received == 4
    assert settled(consumer) == [(3, True), (4, True)]


async def test_no_more_are_taken_than_the_rate_allows(make):
    consumer = await make(consumer_rate=0)
    consumer.take(deliveries(1, 2))
    assert (consumer.received, len(consumer.connection.holds)) == (0, 1)


async def test_no_more_are_asked_for_than_the_rate_allows(make):
    consumer = await make(polling=True, consumer_rate=0)
    await consumer.start()
    await asyncio.sleep(0)
    assert not consumer.connection.channel.gets
    await consumer.stop()


async def test_messages_that_take_their_time_hold_the_connection_and_are_acked_after_it(make):
    consumer = await make(consumer_latency=10_000)
    consumer.take(deliveries(1, 2))
    ((wait_s, go_on),) = consumer.connection.holds
    assert (consumer.received, wait_s, settled(consumer)) == (1, pytest.approx(0.01), [])
    go_on()
    assert (consumer.received, len(consumer.connection.holds)) == (2, 2)
    await consumer.stop()
    assert settled(consumer) == [(2, True)]
