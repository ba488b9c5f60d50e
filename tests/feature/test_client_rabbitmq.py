"""The node's AMQP client against a real RabbitMQ, where one is installed."""

import asyncio
from dataclasses import replace

import pytest
from pamqp import commands

from leveret.broker.moving.client.address import ServerAddress
from leveret.broker.moving.client.connection import ClientConnection
from leveret.broker.moving.client.ended import ChannelClosed, ConnectionFailed
from tests.bench.brokers import rabbitmq
from tests.feature.client_parts import EVERYTHING, PERSISTENT, Confirmed, Taken
from tests.interop import INTEROP
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_port

pytestmark = INTEROP
MESSAGES = 20_000


@pytest.fixture(scope="module")
def address():
    with rabbitmq(choose_port=lambda preferred: free_port()) as broker:
        yield ServerAddress(broker.host, broker.port)


@pytest.fixture
async def connection(address):
    connection = await ClientConnection.open(address, {"product": ("S", "a test")})
    yield connection
    await connection.close()
    assert connection.closed.result().reply_code == 200


async def declare(connection, queue, **arguments):
    channel = await connection.open_channel()
    await channel.call(commands.Queue.Declare, queue=queue, exclusive=True, **arguments)
    return channel


async def test_messages_go_there_and_back_unchanged(connection):
    channel = await declare(connection, "there and back")
    await channel.confirm()
    confirmed = Confirmed(channel)
    for number in range(MESSAGES):
        tag = channel.publish("", "there and back", EVERYTHING, b"message %d" % number)
    await confirmed.until(tag)
    assert not confirmed.nacked

    consuming = await connection.open_channel()
    await consuming.call(commands.Basic.Qos, prefetch_count=500)
    taken = Taken()

    def take(deliveries):
        taken(deliveries)
        consuming.ack(deliveries[-1].tag, multiple=True)

    await consuming.consume("there and back", take, arguments={"x-priority": ("I", 1)})
    deliveries = await taken.until(MESSAGES)
    assert [one.body for one in deliveries] == [b"message %d" % n for n in range(MESSAGES)]
    assert {one.properties for one in deliveries} == {EVERYTHING}
    assert [one.tag for one in deliveries] == list(range(1, MESSAGES + 1))


@pytest.mark.parametrize("size", [0, 131_064, 131_065, 3_000_000])
async def test_bodies_of_any_size(connection, size):
    queue = f"bodies of {size} octets"
    channel = await declare(connection, queue)
    taken = Taken()
    await channel.consume(queue, taken, no_ack=True)
    body = (bytes(range(256)) * (size // 256 + 1))[:size]
    channel.publish("", queue, PERSISTENT, body)
    channel.publish("", queue, b"\0\0", b"small")
    deliveries = await taken.until(2)
    assert [one.body for one in deliveries] == [body, b"small"]
    assert [one.properties for one in deliveries] == [PERSISTENT, b"\0\0"]


async def test_returns_nacks_and_cancellations(connection):
    arguments = {"x-max-length": ("l", 0), "x-overflow": ("S", "reject-publish")}
    channel = await declare(connection, "full", arguments=arguments)
    await channel.confirm()
    confirmed, told = Confirmed(channel), asyncio.get_running_loop().create_future()
    returned = []
    channel.on_returned = returned.append
    channel.on_cancelled = told.set_result
    await confirmed.until(channel.publish("", "full", b"\0\0", b"refused"))
    await confirmed.until(channel.publish("", "nobody", EVERYTHING, b"lost", mandatory=True))
    assert confirmed.nacked == [1]
    (message,) = returned
    assert (message.reply_code, message.properties, message.body) == (312, EVERYTHING, b"lost")
    tag = await channel.consume("full", Taken())
    await channel.call(commands.Queue.Delete, queue="full")
    assert await asyncio.wait_for(told, PATIENCE_SECONDS) == tag


async def test_a_channel_that_the_server_closes(connection):
    channel = await connection.open_channel()
    with pytest.raises(ChannelClosed, match="404, NOT_FOUND - no queue 'missing' in vhost '/'"):
        await channel.call(commands.Queue.Declare, queue="missing", passive=True)
    other = await connection.open_channel()
    assert other.number == channel.number
    await other.close()


async def test_a_refused_login_and_a_refused_vhost(address):
    with pytest.raises(ConnectionFailed, match="refuses the login of user 'ann': 403"):
        await ClientConnection.open(replace(address, user="ann"), {})
    with pytest.raises(ConnectionFailed, match="refuses vhost 'burrow' to user 'guest': 530"):
        await ClientConnection.open(replace(address, vhost="burrow"), {})
