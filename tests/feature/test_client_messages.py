"""The node's AMQP client against an embedded broker: channels, consumers, publishes, confirms."""

import asyncio

import pytest
from pamqp import commands

from leveret.broker.amqp.properties import decode_properties
from leveret.broker.moving.client.address import ServerAddress
from leveret.broker.moving.client.connection import ClientConnection
from leveret.broker.moving.client.ended import ChannelClosed, ConnectionClosed
from leveret.testing import EmbeddedBroker
from tests.feature.client_parts import EVERYTHING, PERSISTENT, Confirmed, Taken
from tests.patience import PATIENCE_SECONDS, until

QUEUE = "a queue, ä"


@pytest.fixture
async def broker():
    async with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
async def connection(broker):
    address = ServerAddress(broker.host, broker.port)
    connection = await ClientConnection.open(address, {"product": ("S", "a test")})
    yield connection
    await connection.close()


async def channel_with_queue(connection, **arguments):
    channel = await connection.open_channel()
    await channel.call(commands.Queue.Declare, queue=QUEUE, **arguments)
    return channel


async def test_messages_are_confirmed_and_delivered_unchanged(connection):
    channel = await channel_with_queue(connection)
    await channel.confirm()
    confirmed = Confirmed(channel)
    for number in range(500):
        tag = channel.publish("", QUEUE, EVERYTHING, b"message %d" % number)
    assert tag == 500
    await confirmed.until(500)
    assert not confirmed.nacked

    taken = Taken()
    await channel.consume(QUEUE, taken)
    deliveries = await taken.until(500)
    assert [delivery.tag for delivery in deliveries] == list(range(1, 501))
    assert [delivery.body for delivery in deliveries] == [b"message %d" % n for n in range(500)]
    first = deliveries[0]
    assert (first.exchange, first.routing_key, first.redelivered) == ("", QUEUE, False)
    assert {delivery.properties for delivery in deliveries} == {EVERYTHING}
    assert decode_properties(EVERYTHING)["headers"] == {"a": ("S", "x"), "b": ("s", 5)}


@pytest.mark.parametrize("size", [0, 1, 16 * 1024, 131_064, 131_065, 1_000_000, 5_000_000])
async def test_bodies_of_any_size_arrive(connection, size):
    channel = await channel_with_queue(connection)
    taken = Taken()
    await channel.consume(QUEUE, taken, no_ack=True)
    body = bytes(range(256)) * (size // 256 + 1)
    for _ in range(3):
        channel.publish("", QUEUE, PERSISTENT, body[:size])
        channel.publish("", QUEUE, b"\0\0", b"small")
    deliveries = await taken.until(6)
    assert [delivery.body for delivery in deliveries] == [body[:size], b"small"] * 3
    assert [delivery.properties for delivery in deliveries] == [PERSISTENT, b"\0\0"] * 3


async def test_acks_and_nacks_settle_deliveries(broker, connection):
    channel = await channel_with_queue(connection)
    for number in range(6):
        channel.publish("", QUEUE, PERSISTENT, b"%d" % number)
    await channel.call(commands.Basic.Qos, prefetch_count=6)
    taken = Taken()
    await channel.consume(QUEUE, taken)
    await taken.until(6)
    channel.ack(2, multiple=True)
    channel.ack(4)
    channel.nack(5, requeue=False)
    channel.nack(6, requeue=True)
    again = (await taken.until(7))[6]
    assert (again.tag, again.redelivered, again.body) == (7, True, b"5")
    channel.nack(7, multiple=True, requeue=False)
    await channel.close()
    assert broker.queue_length(QUEUE) == 0


async def test_a_message_without_a_queue_is_returned_with_its_properties(connection):
    channel = await connection.open_channel()
    returned = asyncio.get_running_loop().create_future()
    channel.on_returned = returned.set_result
    channel.publish("", "nobody", EVERYTHING, b"lost", mandatory=True)
    message = await asyncio.wait_for(returned, PATIENCE_SECONDS)
    assert (message.reply_code, message.reply_text) == (312, "NO_ROUTE")
    assert (message.exchange, message.routing_key) == ("", "nobody")
    assert (message.properties, message.body) == (EVERYTHING, b"lost")


async def test_a_refused_publish_is_told_as_such(connection):
    arguments = {"x-max-length": ("l", 0), "x-overflow": ("S", "reject-publish")}
    channel = await channel_with_queue(connection, arguments=arguments)
    await channel.confirm()
    confirmed = Confirmed(channel)
    await confirmed.until(channel.publish("", QUEUE, b"\0\0", b"refused"))
    assert confirmed.nacked == [1]


async def test_an_error_ends_the_channel_and_leaves_the_connection(connection):
    channel = await connection.open_channel()
    with pytest.raises(ChannelClosed) as raised:
        await channel.call(commands.Queue.Declare, queue="missing", passive=True)
    assert raised.value.closed.reply_code == 404
    assert channel.closed.result().text == "NOT_FOUND - no queue 'missing' in vhost '/'"
    with pytest.raises(ChannelClosed, match="NOT_FOUND"):
        await channel.call(commands.Basic.Qos, prefetch_count=1)
    assert channel.publish("", "missing", b"\0\0", b"discarded") == 0
    other = await connection.open_channel()
    assert other.number == channel.number
    await other.call(commands.Queue.Declare, queue=QUEUE)


async def test_calls_that_wait_together_get_their_own_answers(connection):
    channel = await connection.open_channel()
    names = [f"queue {number}" for number in range(20)]
    answers = await asyncio.gather(
        *(channel.call(commands.Queue.Declare, queue=name) for name in names)
    )
    assert [answer.queue for answer in answers] == names


async def test_the_server_tells_that_it_cancelled_a_consumer(connection):
    channel = await channel_with_queue(connection)
    cancelled = asyncio.get_running_loop().create_future()
    channel.on_cancelled = cancelled.set_result
    tag = await channel.consume(QUEUE, Taken(), consumer_tag="mine")
    assert tag == "mine"
    await channel.call(commands.Queue.Delete, queue=QUEUE)
    assert await asyncio.wait_for(cancelled, PATIENCE_SECONDS) == "mine"


async def test_a_cancelled_consumer_takes_no_more(broker, connection):
    channel = await channel_with_queue(connection)
    taken = Taken()
    tag = await channel.consume(QUEUE, taken, arguments={"x-priority": ("I", 5)})
    channel.publish("", QUEUE, b"\0\0", b"first")
    await taken.until(1)
    channel.ack(1)
    await channel.cancel(tag)
    channel.publish("", QUEUE, b"\0\0", b"second")
    await channel.close()
    assert len(taken.deliveries) == 1
    assert broker.queue_length(QUEUE) == 1


async def test_a_closed_channel_gives_its_deliveries_back(broker, connection):
    channel = await channel_with_queue(connection)
    for _ in range(50):
        channel.publish("", QUEUE, b"\0\0", b"unsettled")
    taken = Taken()
    await channel.consume(QUEUE, taken)
    await taken.until(50)
    await channel.close()
    assert channel.closed.result() == (200, "closed by this node")
    assert broker.queue_length(QUEUE) == 50


async def test_a_broker_that_stops_ends_connection_and_channels(broker, connection):
    channel = await channel_with_queue(connection)
    waiting = asyncio.ensure_future(connection.closed)
    await broker.stop()
    closed = await asyncio.wait_for(waiting, PATIENCE_SECONDS)
    assert closed.reply_code == 320
    assert channel.closed.result() == closed
    with pytest.raises(ConnectionClosed, match="CONNECTION_FORCED"):
        await channel.call(commands.Basic.Qos, prefetch_count=1)
    with pytest.raises(ConnectionClosed, match="CONNECTION_FORCED"):
        await connection.open_channel()


async def test_a_connection_that_breaks_ends_everything(broker, connection):
    channel = await channel_with_queue(connection)
    broker.drop_connections()
    closed = await asyncio.wait_for(asyncio.shield(connection.closed), PATIENCE_SECONDS)
    assert closed.reply_code == 0
    assert "closed the socket" in closed.text
    assert channel.closed.result() == closed


async def test_a_blocked_connection_is_not_writable_until_it_is_unblocked(broker, connection):
    channel = await channel_with_queue(connection)
    assert channel.is_writable
    broker.block_publishers()
    # The server blocks all publishers.
    channel.publish("", QUEUE, b"\0\0", b"blocked")
    await until(lambda: connection.is_blocked)
    assert not channel.is_writable
    writable = asyncio.Event()
    channel.on_writable = writable.set
    broker.unblock_publishers()
    await asyncio.wait_for(writable.wait(), PATIENCE_SECONDS)
    assert channel.is_writable
    assert not connection.is_blocked


async def test_a_socket_that_takes_no_more_makes_the_channel_wait(broker, connection):
    channel = await channel_with_queue(connection)
    writable = asyncio.Event()
    channel.on_writable = writable.set
    sent = 0
    while channel.is_writable:
        channel.publish("", QUEUE, b"\0\0", bytes(100_000))
        sent += 1
    await asyncio.wait_for(writable.wait(), PATIENCE_SECONDS)
    await channel.call(commands.Basic.Qos, prefetch_count=1)
    assert broker.queue_length(QUEUE) == sent


async def test_a_connection_that_is_not_read_gets_everything_later(connection):
    channel = await channel_with_queue(connection)
    taken = Taken()
    await channel.consume(QUEUE, taken, no_ack=True)
    connection.pause_reading()
    for number in range(100):
        channel.publish("", QUEUE, b"\0\0", b"%d" % number)
    connection.resume_reading()
    assert len(await taken.until(100)) == 100


async def test_the_server_knows_the_name_of_the_client(broker, connection):
    (served,) = broker.broker.connections
    assert served.client_properties["product"] == ("S", "a test")
    assert connection.server_properties["product"] == ("S", "RabbitMQ")
    assert connection.limits.heartbeat_s == 10
