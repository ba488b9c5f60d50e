"""aio-pika in its usual ways: robust connections, confirms, and remote procedure calls."""

import asyncio

import aio_pika
import pytest
from aio_pika.patterns import RPC

from tests.patience import PATIENCE_SECONDS


@pytest.fixture
async def connection(embedded):
    connection = await aio_pika.connect(embedded.url)
    yield connection
    await connection.close()


async def test_publish_and_consume(connection):
    channel = await connection.channel()
    await channel.set_qos(prefetch_count=10)
    queue = await channel.declare_queue("q", durable=True)
    for number in range(100):
        message = aio_pika.Message(str(number).encode(), headers={"n": number})
        await channel.default_exchange.publish(message, "q")
    bodies = []
    async with queue.iterator() as messages:
        async for message in messages:
            async with message.process():
                bodies.append(int(message.body))
            if len(bodies) == 100:
                break
    assert bodies == list(range(100))


async def test_an_unroutable_mandatory_message_comes_back(connection):
    channel = await connection.channel(on_return_raises=True)
    with pytest.raises(aio_pika.exceptions.DeliveryError):
        await channel.default_exchange.publish(aio_pika.Message(b"x"), "nowhere")


async def test_remote_procedure_calls(connection):
    channel = await connection.channel()
    rpc = await RPC.create(channel)

    async def multiply(*, x, y):
        return x * y

    await rpc.register("multiply", multiply, auto_delete=True)
    answers = await asyncio.gather(
        *(rpc.call("multiply", kwargs={"x": number, "y": 2}) for number in range(20))
    )
    assert answers == [number * 2 for number in range(20)]


async def test_a_robust_connection_survives_being_cut_off(embedded):
    connection = await aio_pika.connect_robust(embedded.url, reconnect_interval=0.05)
    channel = await connection.channel()
    queue = await channel.declare_queue("q", durable=True)
    received = asyncio.Queue()
    await queue.consume(received.put, no_ack=True)
    reconnected = asyncio.Event()
    connection.reconnect_callbacks.add(lambda *_: reconnected.set())
    embedded.drop_connections()
    await asyncio.wait_for(reconnected.wait(), PATIENCE_SECONDS)
    await channel.default_exchange.publish(aio_pika.Message(b"after"), "q")
    message = await asyncio.wait_for(received.get(), PATIENCE_SECONDS)
    assert message.body == b"after"
    await connection.close()


async def test_a_transaction_is_rolled_back(connection):
    channel = await connection.channel(publisher_confirms=False)
    queue = await channel.declare_queue("q", auto_delete=True)
    transaction = channel.transaction()
    await transaction.select()
    await channel.default_exchange.publish(aio_pika.Message(b"x"), "q")
    await transaction.rollback()
    assert await queue.get(fail=False) is None


async def test_direct_reply_to(connection):
    channel = await connection.channel(publisher_confirms=False)
    replies = asyncio.Queue()
    pseudo_queue = await channel.get_queue("amq.rabbitmq.reply-to", ensure=False)
    await pseudo_queue.consume(replies.put, no_ack=True)
    server = await channel.declare_queue("server", exclusive=True)
    request = aio_pika.Message(b"ping", reply_to="amq.rabbitmq.reply-to")
    await channel.default_exchange.publish(request, "server")
    received = await server.get(no_ack=True, timeout=PATIENCE_SECONDS)
    await channel.default_exchange.publish(aio_pika.Message(b"pong"), received.reply_to)
    reply = await asyncio.wait_for(replies.get(), PATIENCE_SECONDS)
    assert reply.body == b"pong"


async def test_a_robust_consumer_gets_its_unacknowledged_message_again(embedded):
    connection = await aio_pika.connect_robust(embedded.url, reconnect_interval=0.05)
    channel = await connection.channel()
    queue = await channel.declare_queue("q", durable=True)
    received = asyncio.Queue()
    await queue.consume(received.put)
    await channel.default_exchange.publish(aio_pika.Message(b"x"), "q")
    first = await asyncio.wait_for(received.get(), PATIENCE_SECONDS)
    embedded.drop_connections()
    second = await asyncio.wait_for(received.get(), PATIENCE_SECONDS)
    assert (first.redelivered, second.redelivered, second.body) == (False, True, b"x")
    await second.ack()
    await connection.close()


async def test_topics(connection):
    channel = await connection.channel()
    exchange = await channel.declare_exchange("weather", aio_pika.ExchangeType.TOPIC)
    queue = await channel.declare_queue("q")
    await queue.bind(exchange, "*.rain")
    await queue.bind(exchange, "storm.#")
    for routing_key in ("fair", "light.rain", "very.light.rain", "storm", "storm.of.rain"):
        await exchange.publish(aio_pika.Message(b"", type=routing_key), routing_key)
    types = [(await queue.get(no_ack=True)).type for _ in range(3)]
    assert types == ["light.rain", "storm", "storm.of.rain"]
    assert await queue.get(fail=False) is None


@pytest.mark.parametrize(
    ("match", "bodies"), [("all", [b"both"]), ("any", [b"both", b"kind", b"size"])]
)
async def test_headers(connection, match, bodies):
    channel = await connection.channel()
    exchange = await channel.declare_exchange("parcels", aio_pika.ExchangeType.HEADERS)
    queue = await channel.declare_queue("q")
    await queue.bind(exchange, arguments={"x-match": match, "kind": "book", "size": 3})
    sent = {
        b"both": {"kind": "book", "size": 3},
        b"kind": {"kind": "book", "size": 4},
        b"size": {"size": 3},
        b"none": {"kind": "hat"},
    }
    for body, headers in sent.items():
        await exchange.publish(aio_pika.Message(body, headers=headers), "")
    received = [(await queue.get(no_ack=True)).body for _ in bodies]
    assert received == bodies
    assert await queue.get(fail=False) is None


async def test_a_prefetch_count_shares_work_between_consumers(connection):
    channels = [await connection.channel() for _ in range(2)]
    received = [asyncio.Queue() for _ in channels]
    for channel, messages in zip(channels, received, strict=True):
        await channel.set_qos(prefetch_count=1)
        queue = await channel.declare_queue("q")
        await queue.consume(messages.put)
    for number in range(2):
        message = aio_pika.Message(b"%d" % number)
        await channels[0].default_exchange.publish(message, "q")
    for messages in received:
        message = await asyncio.wait_for(messages.get(), PATIENCE_SECONDS)
        await message.ack()


async def test_a_rejected_message_goes_to_the_dead_letter_exchange(connection):
    channel = await connection.channel()
    failed = await channel.declare_exchange("failed", aio_pika.ExchangeType.FANOUT)
    dead = await channel.declare_queue("dead")
    await dead.bind(failed)
    queue = await channel.declare_queue("q", arguments={"x-dead-letter-exchange": "failed"})
    await channel.default_exchange.publish(aio_pika.Message(b"bad"), "q")
    with pytest.raises(ValueError, match="cannot"):
        async with (await queue.get()).process():
            raise ValueError("cannot work on this")
    async with dead.iterator(no_ack=True, timeout=PATIENCE_SECONDS) as letters:
        message = await anext(letters)
    (death,) = message.headers["x-death"]
    assert (death["queue"], death["reason"], death["count"]) == ("q", "rejected", 1)


async def test_a_committed_transaction(connection):
    channel = await connection.channel(publisher_confirms=False)
    queue = await channel.declare_queue("q")
    async with channel.transaction():
        await channel.default_exchange.publish(aio_pika.Message(b"x"), "q")
        assert await queue.get(fail=False) is None
    assert (await queue.get(no_ack=True)).body == b"x"
