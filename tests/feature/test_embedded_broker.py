"""The embedded broker's features for tests: virtual clock, fault injection and records."""

import asyncio
import threading

import aio_pika
import pika
import pytest
from pika import exceptions

from leveret.broker.config import Config
from leveret.testing import EmbeddedBroker
from tests.patience import PATIENCE_SECONDS


@pytest.fixture
async def embedded():
    async with EmbeddedBroker(virtual_clock=True) as broker:
        yield broker


@pytest.fixture
async def connection(embedded):
    connection = await aio_pika.connect(embedded.url)
    yield connection
    await connection.close()


def closing_of(connection_or_channel):
    """Return a future of the error with which it is closed."""
    closed = asyncio.get_running_loop().create_future()
    connection_or_channel.close_callbacks.add(lambda _, error: closed.set_result(error))
    return asyncio.wait_for(closed, PATIENCE_SECONDS)


# Start and stop


async def test_two_brokers_have_nothing_in_common(embedded, connection):
    await (await connection.channel()).declare_queue("q")
    async with EmbeddedBroker() as other:
        assert other.port != embedded.port
        with pytest.raises(KeyError):
            other.queue_length("q")


async def test_a_broker_that_is_stopped_refuses_connections_and_starts_again_empty():
    broker = EmbeddedBroker()
    await broker.start()
    url = broker.url
    connection = await aio_pika.connect(url)
    await (await connection.channel()).declare_queue("q", durable=True)
    await broker.stop()
    with pytest.raises(aio_pika.exceptions.AMQPConnectionError):
        await aio_pika.connect(url)
    await broker.start()
    again = await aio_pika.connect(broker.url)
    with pytest.raises(aio_pika.exceptions.ChannelNotFoundEntity):
        await (await again.channel()).declare_queue("q", passive=True)
    await again.close()
    await broker.stop()


async def test_a_robust_client_outlives_a_restart_on_the_same_port():
    async with EmbeddedBroker() as first:
        port = first.port
        connection = await aio_pika.connect_robust(first.url, reconnect_interval=0.05)
        queue = await (await connection.channel()).declare_queue("q")
        received = asyncio.Queue()
        await queue.consume(received.put, no_ack=True)
        reconnected = asyncio.Event()
        connection.reconnect_callbacks.add(lambda *_: reconnected.set())
    async with EmbeddedBroker(port=port):
        await asyncio.wait_for(reconnected.wait(), PATIENCE_SECONDS)
        channel = await connection.channel()
        await channel.default_exchange.publish(aio_pika.Message(b"x"), "q")
        assert (await asyncio.wait_for(received.get(), PATIENCE_SECONDS)).body == b"x"
        await connection.close()


async def test_the_url_has_the_configured_user_and_vhost():
    config = Config(default_user="shop", default_pass="p@ss:word", default_vhost="the/shop")
    async with EmbeddedBroker(config) as broker:
        connection = await aio_pika.connect(broker.url)
        await (await connection.channel()).declare_queue("q")
        assert broker.queue_length("q", vhost="the/shop") == 0
        await connection.close()


async def test_the_url_has_a_password_with_a_slash():
    async with EmbeddedBroker(Config(default_pass="either/or")) as broker:
        connection = await aio_pika.connect(broker.url)
        await connection.close()


def test_a_broker_that_cannot_listen_leaves_no_thread(amqp_broker):
    threads = threading.active_count()
    with pytest.raises(OSError), EmbeddedBroker.in_thread(port=amqp_broker.port):
        pass
    assert threading.active_count() == threads


# Virtual clock


async def test_a_message_expires_when_time_is_moved(embedded, connection):
    channel = await connection.channel()
    await channel.declare_queue("q")
    for seconds in (60, 3600):
        message = aio_pika.Message(b"x", expiration=seconds)
        await channel.default_exchange.publish(message, "q")
    embedded.advance(59)
    assert embedded.queue_length("q") == 2
    embedded.advance(2)
    assert embedded.queue_length("q") == 1


async def test_a_queue_expires_when_time_is_moved(embedded, connection):
    channel = await connection.channel()
    await channel.declare_queue("q", arguments={"x-expires": 60_000})
    embedded.advance(61)
    with pytest.raises(KeyError):
        embedded.queue_length("q")


async def test_a_delayed_message_comes_when_time_is_moved(embedded, connection):
    channel = await connection.channel()
    exchange = await channel.declare_exchange(
        "later", "x-delayed-message", arguments={"x-delayed-type": "direct"}
    )
    queue = await channel.declare_queue("q")
    await queue.bind(exchange, "k")
    await exchange.publish(aio_pika.Message(b"x", headers={"x-delay": 60_000}), "k")
    assert embedded.queue_length("q") == 0
    embedded.advance(61)
    assert embedded.queue_length("q") == 1


async def test_a_client_that_sends_no_heartbeats_is_cut_off(embedded):
    """The client's clock does not move, so it sends none."""
    connection = await aio_pika.connect(embedded.url + "?heartbeat=60")
    closed = closing_of(connection)
    embedded.advance(50)
    await (await connection.channel()).declare_queue("q")
    embedded.advance(240)
    await closed
    assert not embedded.broker.connections


async def test_a_client_without_heartbeats_stays(embedded):
    connection = await aio_pika.connect(embedded.url + "?heartbeat=0")
    embedded.advance(24 * 3600)
    await (await connection.channel()).declare_queue("q")
    await connection.close()


async def test_a_consumer_that_does_not_acknowledge_loses_its_channel():
    config = Config(consumer_timeout_ms=90_000)
    async with EmbeddedBroker(config, virtual_clock=True) as embedded:
        connection = await aio_pika.connect(embedded.url + "?heartbeat=0")
        channel = await connection.channel()
        queue = await channel.declare_queue("q")
        received = asyncio.Queue()
        await queue.consume(received.put)
        await channel.default_exchange.publish(aio_pika.Message(b"x"), "q")
        await asyncio.wait_for(received.get(), PATIENCE_SECONDS)
        closed = closing_of(channel)
        embedded.advance(180)
        error = await closed
        assert "delivery acknowledgement on channel 1 timed out" in str(error)
        assert embedded.queue_length("q") == 1
        await connection.close()


async def test_a_broker_in_real_time_has_no_time_to_move():
    async with EmbeddedBroker() as broker:
        with pytest.raises(RuntimeError, match="virtual_clock=True"):
            broker.advance(1)


# Fault injection


async def test_every_connection_is_dropped(embedded):
    connections = [await aio_pika.connect(embedded.url) for _ in range(3)]
    closed = [closing_of(connection) for connection in connections]
    embedded.drop_connections()
    await asyncio.gather(*closed)
    newcomer = await aio_pika.connect(embedded.url)
    await newcomer.close()


def test_a_dropped_connection_raises_in_pika(amqp_broker):
    connection = pika.BlockingConnection(pika.URLParameters(amqp_broker.url))
    channel = connection.channel()
    amqp_broker.drop_connections()
    with pytest.raises(exceptions.AMQPConnectionError):
        channel.queue_declare("q")


async def test_a_connection_breaks_after_some_frames(embedded, connection):
    channel = await connection.channel()
    await channel.declare_queue("q")
    embedded.drop_after_frames(6)
    publish = channel.default_exchange.publish
    for _ in range(2):
        await publish(aio_pika.Message(b"x"), "q")
    with pytest.raises((aio_pika.exceptions.AMQPError, ConnectionError, asyncio.CancelledError)):
        await publish(aio_pika.Message(b"x"), "q")
    assert embedded.queue_length("q") == 2


async def test_connections_that_come_later_do_not_break(embedded, connection):
    embedded.drop_after_frames(0)
    closed = closing_of(connection)
    newcomer = await aio_pika.connect(embedded.url)
    await (await newcomer.channel()).declare_queue("q")
    await newcomer.close()
    assert not connection.is_closed
    with pytest.raises((aio_pika.exceptions.AMQPError, ConnectionError, asyncio.CancelledError)):
        await connection.channel()
    await closed


async def test_confirms_are_held_and_released(embedded, connection):
    channel = await connection.channel()
    await channel.declare_queue("q")
    embedded.hold_confirms()
    publishing = asyncio.ensure_future(
        channel.default_exchange.publish(aio_pika.Message(b"x"), "q")
    )
    while not embedded.published:
        await asyncio.wait([publishing], timeout=0.01)
    assert not publishing.done()
    embedded.release_confirms()
    await asyncio.wait_for(publishing, PATIENCE_SECONDS)


async def test_a_message_whose_confirm_never_came_is_in_its_queue(embedded, connection):
    """A publisher without a confirm must publish again, which makes a duplicate."""
    channel = await connection.channel()
    await channel.declare_queue("q")
    embedded.hold_confirms()
    publish = channel.default_exchange.publish
    first = asyncio.ensure_future(publish(aio_pika.Message(b"x"), "q"))
    await embedded.wait_for(1)
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(first, 0.05)
    embedded.release_confirms()
    await asyncio.wait_for(publish(aio_pika.Message(b"x"), "q"), PATIENCE_SECONDS)
    assert embedded.queue_length("q") == 2


async def test_blocked_publishers_go_on_when_unblocked(embedded, connection):
    channel = await connection.channel()
    await channel.declare_queue("q")
    embedded.block_publishers()
    publishes = [
        asyncio.ensure_future(channel.default_exchange.publish(aio_pika.Message(b"x"), "q"))
        for _ in range(2)
    ]
    embedded.unblock_publishers()
    await asyncio.wait_for(asyncio.gather(*publishes), PATIENCE_SECONDS)
    assert embedded.queue_length("q") == 2


def test_a_blocked_publisher_is_told(amqp_broker):
    connection = pika.BlockingConnection(pika.URLParameters(amqp_broker.url))
    told = []
    connection.add_on_connection_blocked_callback(lambda _, frame: told.append(frame.method.reason))
    connection.add_on_connection_unblocked_callback(lambda *_: told.append("over"))
    channel = connection.channel()
    channel.queue_declare("q")
    amqp_broker.block_publishers()
    channel.basic_publish("", "q", b"x")
    connection.process_data_events(PATIENCE_SECONDS)
    assert told == ["low on memory"]
    amqp_broker.unblock_publishers()
    connection.process_data_events(PATIENCE_SECONDS)
    assert told == ["low on memory", "over"]
    connection.close()


# Records


async def test_what_was_published_and_delivered_is_on_record(embedded, connection):
    channel = await connection.channel()
    queue = await channel.declare_queue("q")
    message = aio_pika.Message(b"x", headers={"a": [1, {"b": "c"}]})
    await channel.default_exchange.publish(message, "q")
    await (await queue.get()).ack()
    (published,) = embedded.published
    (delivered,) = embedded.delivered
    assert (published.routing_key, published.queues, published.body) == ("q", ("q",), b"x")
    assert published.properties["headers"] == {"a": [1, {"b": "c"}]}
    assert (delivered.queues, delivered.redelivered) == (("q",), False)


async def test_records_tell_where_messages_went(embedded, connection):
    channel = await connection.channel()
    fanout = await channel.declare_exchange("all", aio_pika.ExchangeType.FANOUT)
    await fanout.publish(aio_pika.Message(b"lost"), "", mandatory=False)
    for name in ("one", "two"):
        await (await channel.declare_queue(name)).bind(fanout)
    await fanout.publish(aio_pika.Message(b"kept"), "")
    lost, kept = embedded.published
    assert (lost.body, lost.queues) == (b"lost", ())
    assert (kept.exchange, sorted(kept.queues)) == ("all", ["one", "two"])


async def test_records_tell_what_was_redelivered(embedded, connection):
    channel = await connection.channel()
    queue = await channel.declare_queue("q")
    await channel.default_exchange.publish(aio_pika.Message(b"x"), "q")
    await (await queue.get()).nack(requeue=True)
    await (await queue.get()).ack()
    assert [record.redelivered for record in embedded.delivered] == [False, True]


def test_records_stay_when_the_broker_is_gone():
    with EmbeddedBroker.in_thread() as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q")
        channel.basic_publish("", "q", b"x")
        assert broker.queue_length("q") == 1
        connection.close()
    assert [record.body for record in broker.published] == [b"x"]


# Streams


def stream_of(broker, **arguments):
    """A connection, and its channel with confirms and a stream `s`."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.url + "?heartbeat=0"))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream", **arguments})
    return connection, channel


def test_a_stream_is_read_twice_and_its_records_are_kept():
    with EmbeddedBroker.in_thread() as broker:
        connection, channel = stream_of(broker)
        channel.basic_publish("", "s", b"x")
        channel.basic_qos(prefetch_count=10)
        for _ in range(2):
            messages = channel.consume("s", arguments={"x-stream-offset": "first"})
            method, properties, body = next(messages)
            assert (properties.headers, body) == ({"x-stream-offset": 0}, b"x")
            channel.basic_ack(method.delivery_tag)
            channel.cancel()
        connection.close()
    assert [record.body for record in broker.published] == [b"x"]
    assert [record.queues for record in broker.delivered] == [("s",), ("s",)]


def test_the_virtual_clock_ages_the_messages_of_a_stream():
    with EmbeddedBroker.in_thread(virtual_clock=True) as broker:
        connection, channel = stream_of(broker, **{"x-max-age": "1m"})
        channel.basic_publish("", "s", b"x")
        broker.advance(50)
        assert broker.queue_length("s") == 1
        broker.advance(20)
        assert broker.queue_length("s") == 0
        connection.close()


def test_streams_have_a_port_of_their_own_which_clients_are_told():
    with EmbeddedBroker.in_thread(streams=True) as broker:
        assert broker.stream_port not in (0, broker.port)
        assert broker.call(lambda it: it.config.stream.advertised_host) == broker.host
