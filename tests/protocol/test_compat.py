"""`compat = 4.x`: behaviour in which RabbitMQ 4 differs from 3.12."""

import aio_pika
import pytest

from leveret.broker.amqp.field_table import encode_table
from leveret.broker.config import Config
from leveret.broker.declarations.values import PutExchange
from leveret.testing import EmbeddedBroker
from tests.patience import PATIENCE_SECONDS


@pytest.fixture(params=["3.12", "4.0", "4.x"])
async def node(request):
    async with EmbeddedBroker(config=Config(compat=request.param)) as embedded:
        embedded.is_4 = request.param != "3.12"
        yield embedded


@pytest.fixture
async def channel(node):
    connection = await aio_pika.connect(node.url)
    async with connection:
        yield await connection.channel()


async def dead_letter(channel, message):
    """Return the message as it arrives after it was rejected in the queue `first`."""
    target = await channel.declare_queue("dead")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    first = await channel.declare_queue("first", arguments=arguments)
    await channel.default_exchange.publish(message, "first")
    await (await first.get(timeout=PATIENCE_SECONDS)).reject()
    arrived = await target.get(timeout=PATIENCE_SECONDS)
    await arrived.ack()
    return arrived


async def test_the_version(node, channel):
    properties = channel._connection.transport.connection.server_properties
    assert properties["version"].startswith("4." if node.is_4 else "3.12.")


async def test_the_last_death_is_told(node, channel):
    headers = (await dead_letter(channel, aio_pika.Message(b"m"))).headers
    assert headers["x-first-death-queue"] == "first"
    last = {name: value for name, value in headers.items() if name.startswith("x-last-death")}
    expected = {
        "x-last-death-reason": "rejected", "x-last-death-queue": "first",
        "x-last-death-exchange": "",
    }  # fmt: skip
    assert last == (expected if node.is_4 else {})


async def test_deaths_that_a_client_tells_of(node, channel):
    """Before 4, a message that is published again keeps its count; since 4 the count restarts."""
    once = await dead_letter(channel, aio_pika.Message(b"m"))
    again = await dead_letter(channel, aio_pika.Message(b"m", headers=once.headers))
    assert again.headers["x-death"][0]["count"] == (1 if node.is_4 else 2)


@pytest.mark.parametrize(("compat", "first"), [("3.12", b"2"), ("4.x", b"1")])
async def test_basic_reject_says_that_a_delivery_has_failed_since_4_3(compat, first):
    """It goes to the front of a quorum queue; before, what is returned goes to the end."""
    async with EmbeddedBroker(config=Config(compat=compat)) as embedded:
        async with await aio_pika.connect(embedded.url) as connection:
            channel = await connection.channel()
            arguments = {"x-queue-type": "quorum"}
            queue = await channel.declare_queue("q", durable=True, arguments=arguments)
            for body in (b"1", b"2"):
                await channel.default_exchange.publish(aio_pika.Message(body), "q")
            await (await queue.get()).reject(requeue=True)
            assert (await queue.get()).body == first


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@pytest.mark.parametrize(("retries", "waits"), [("failed", True), ("returned", False)])
async def test_basic_reject_says_so_to_a_queue_that_delays_retries(
    node, channel, kind, retries, waits
):
    arguments = {"x-queue-type": kind, "x-delayed-retry-type": retries,
                 "x-delayed-retry-min": 86_400_000}  # fmt: skip
    queue = await channel.declare_queue("q", durable=True, arguments=arguments)
    await channel.default_exchange.publish(aio_pika.Message(b"1"), "q")
    await (await queue.get()).reject(requeue=True)
    assert (await queue.get(fail=False) is None) is waits


async def test_another_type_of_a_queue_is_named(node, channel):
    arguments = {"x-queue-type": "quorum"}
    await channel.declare_queue("q", durable=True, arguments=arguments)
    given = "'classic' but current is 'quorum'"
    if not node.is_4:
        given = "none but current is the value 'quorum' of type 'longstr'"
    with pytest.raises(aio_pika.exceptions.ChannelPreconditionFailed, match=f"received {given}"):
        await channel.declare_queue("q", durable=True)


@pytest.mark.parametrize("compat", ["3.12", "4.x"])
async def test_a_quorum_queue_is_declared_again_as_a_classic_one(compat):
    config = Config(compat=compat, relaxes_redeclaration=True)
    async with (
        EmbeddedBroker(config=config) as embedded,
        await aio_pika.connect(embedded.url) as connection,
    ):
        channel = await connection.channel()
        quorum = {"x-queue-type": "quorum", "x-max-length": 5}
        await channel.declare_queue("q", durable=True, arguments=quorum)
        for again in ({}, {"x-queue-type": "classic"}):
            await channel.declare_queue("q", durable=True, arguments={**again, "x-max-length": 5})
        with pytest.raises(aio_pika.exceptions.ChannelPreconditionFailed, match="x-max-length"):
            await channel.declare_queue("q", durable=True)


async def test_local_random_exchanges(node, channel):
    if not node.is_4:
        with pytest.raises(aio_pika.exceptions.AMQPError, match="unknown exchange type"):
            await channel.declare_exchange("nearest", "x-local-random")
        return
    nearest = await channel.declare_exchange("nearest", "x-local-random", durable=True)
    queue = await channel.declare_queue("q")
    await queue.bind(nearest, "")
    await nearest.publish(aio_pika.Message(b"m"), "any key")
    assert (await queue.get()).body == b"m"
    stream = await channel.declare_queue("s", durable=True, arguments={"x-queue-type": "stream"})
    refusal = "PRECONDITION_FAILED - Queue type rabbit_stream_queue not valid for this exchange"
    with pytest.raises(aio_pika.exceptions.ChannelPreconditionFailed, match=refusal):
        await stream.bind(nearest, "")


async def test_local_random_exchanges_may_be_disabled():
    disabled = Config(compat="4.x", declares_local_random=False)
    async with EmbeddedBroker(config=disabled) as embedded:
        vhost = embedded.broker.services.vhosts["/"]
        put = PutExchange("/", "old", "x-local-random", True, False, False, encode_table({}))
        embedded.broker.services.declarations.submit(put).result()
        assert "old" in vhost.exchanges
        async with await aio_pika.connect(embedded.url) as connection:
            channel = await connection.channel()
            await channel.declare_exchange("old", "x-local-random", durable=True)
            refusal = "PRECONDITION_FAILED - x-local-random exchange is disabled by configuration"
            with pytest.raises(aio_pika.exceptions.ChannelPreconditionFailed, match=refusal):
                await channel.declare_exchange("new", "x-local-random", durable=True)
