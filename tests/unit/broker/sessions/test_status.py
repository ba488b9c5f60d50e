"""The status of connections and channels of a running broker."""

import aio_pika
import msgspec
import pytest

from leveret.broker.sessions.status import (
    ChannelStatus,
    ConnectionStatus,
    channel_status,
    consumers_of,
    unsettled_deliveries,
)
from leveret.testing import EmbeddedBroker


@pytest.fixture
async def embedded():
    async with EmbeddedBroker(virtual_clock=True) as broker:
        yield broker


@pytest.fixture
async def client(embedded):
    client = await aio_pika.connect(embedded.url, client_properties={"connection_name": "shop"})
    yield client
    await client.close()


def only_connection(embedded):
    (connection,) = embedded.broker.connections
    return connection


def only_channel(embedded):
    (channel,) = only_connection(embedded).channels.values()
    return channel


async def ignore(message):
    """Leave a message unsettled."""


async def publish(channel, count):
    for _ in range(count):
        await channel.default_exchange.publish(aio_pika.Message(b"x"), "q")


async def test_the_status_of_a_connection(embedded, client):
    await client.channel()
    connection = only_connection(embedded)
    status = connection.status()
    assert status.name == connection.name
    assert (status.user, status.vhost, status.state) == ("guest", "/", "running")
    assert (status.port, status.channels, status.tls) == (embedded.port, 1, {})
    assert status.client_properties["connection_name"] == "shop"
    assert status.bytes_in > 0 < status.bytes_out


async def test_the_status_of_a_channel(embedded, client):
    channel = await client.channel()
    await channel.set_qos(prefetch_count=7)
    queue = await channel.declare_queue("q")
    await publish(channel, 2)
    await queue.get()
    status = channel_status(only_channel(embedded), "running")
    assert status.name == f"{status.connection.name} (1)"
    assert (status.user, status.vhost, status.state) == ("guest", "/", "running")
    assert (status.is_confirming, status.is_transactional) == (True, False)
    assert (status.unacked, status.unconfirmed, status.prefetch_count) == (1, 0, 7)


async def test_a_transaction_is_counted(embedded, client):
    channel = await client.channel(publisher_confirms=False)
    await channel.declare_queue("q")
    async with channel.transaction():
        await publish(channel, 3)
        await channel.declare_queue("q", passive=True)
        status = channel_status(only_channel(embedded), "running")
        assert (status.is_transactional, status.uncommitted) == (True, 3)


@pytest.mark.parametrize("kind", [ConnectionStatus, ChannelStatus])
async def test_it_survives_messagepack(embedded, client, kind):
    await client.channel()
    connection = only_connection(embedded)
    status = {
        ConnectionStatus: connection.status(),
        ChannelStatus: channel_status(only_channel(embedded), "running"),
    }[kind]
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(status), type=kind) == status


async def test_consumers_of_a_channel_with_their_queues(embedded, client):
    channel = await client.channel()
    arguments = {"x-single-active-consumer": True}
    first = await channel.declare_queue("first", arguments=arguments)
    second = await channel.declare_queue("second")
    for tag, queue in (("a", first), ("b", second), ("c", first)):
        await queue.consume(ignore, consumer_tag=tag)
    found = [
        (queue.name, figures.tag, figures.activity)
        for queue, figures in consumers_of(only_channel(embedded))
    ]
    assert found == [
        ("first", "a", "single_active"), ("second", "b", "up"), ("first", "c", "waiting"),
    ]  # fmt: skip


async def test_unsettled_deliveries_oldest_first(embedded, client):
    channel = await client.channel()
    queue = await channel.declare_queue("q")
    await publish(channel, 3)
    for _ in range(3):
        await queue.get()
        embedded.advance(1)
    known = embedded.broker.services.vhosts["/"].queues["q"]
    found = unsettled_deliveries(only_channel(embedded), 2)
    assert [one.queue for one in found] == [known, known]
    assert found[1].delivered_at_ms - found[0].delivered_at_ms == pytest.approx(1000, abs=2)
