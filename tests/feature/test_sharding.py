"""Sharded exchanges of one node, as clients use them."""

import aio_pika
import pytest
from aio_pika.exceptions import ChannelPreconditionFailed

from leveret.broker.declarations.values import DeletePolicy, Policy, PutPolicy
from tests.patience import until

NAME = "orders"


@pytest.fixture
async def connection(embedded):
    connection = await aio_pika.connect(embedded.url)
    yield connection
    await connection.close()


@pytest.fixture
async def channel(connection):
    channel = await connection.channel()
    await channel.declare_exchange(NAME, "x-modulus-hash", durable=True)
    return channel


def set_policy(embedded, **keys):
    definition = {key.replace("_", "-"): value for key, value in keys.items()}
    policy = Policy("/", "shards", f"^{NAME}$", "exchanges", definition, 0)
    embedded.broker.services.declarations.submit(PutPolicy("policy", policy))


def vhost_of(embedded):
    return embedded.broker.services.vhosts["/"]


def shard(embedded, number):
    return f"sharding: {NAME} - {embedded.broker.config.node_name} - {number}"


async def wait_for_bindings(embedded, *expected):
    """Wait until the exchange is bound to these shards and no others: (number, routing key)."""
    wanted = sorted((shard(embedded, number), key) for number, key in expected)

    def are_bound():
        bindings = vhost_of(embedded).exchanges[NAME].bindings.values()
        return sorted((it.destination.name, it.routing_key) for it in bindings) == wanted

    await until(are_bound)


async def test_messages_to_the_exchange_come_to_consumers_of_its_name(embedded, channel):
    set_policy(embedded, shards_per_node=2, routing_key="1")
    await wait_for_bindings(embedded, (0, "1"), (1, "1"))
    received = []

    async def receive(message):
        received.append(message.body)

    queue = await channel.get_queue(NAME, ensure=False)
    for _ in range(4):
        await queue.consume(receive, no_ack=True)
    queues = vhost_of(embedded).queues
    for number in (0, 1):
        assert queues[shard(embedded, number)].figures.counts().consumers == 2
    exchange = await channel.get_exchange(NAME)
    sent = [b"%d" % number for number in range(50)]
    for body in sent:
        await exchange.publish(aio_pika.Message(body), body.decode())
    await until(lambda: len(received) >= len(sent))
    assert sorted(received) == sorted(sent)


async def test_an_exchange_that_is_declared_after_the_policy_has_shards(embedded, connection):
    set_policy(embedded, shards_per_node=1)
    channel = await connection.channel()
    await channel.declare_exchange(NAME, "x-modulus-hash")
    await wait_for_bindings(embedded, (0, ""))
    assert not vhost_of(embedded).queues[shard(embedded, 0)].durable


@pytest.mark.usefixtures("channel")
async def test_shards_are_added_and_never_deleted(embedded):
    set_policy(embedded, shards_per_node=1, routing_key="1")
    await wait_for_bindings(embedded, (0, "1"))
    set_policy(embedded, shards_per_node=2, routing_key="1")
    await wait_for_bindings(embedded, (0, "1"), (1, "1"))
    set_policy(embedded, shards_per_node=1, routing_key="2")
    await wait_for_bindings(embedded, (0, "2"))
    embedded.broker.services.declarations.submit(DeletePolicy("policy", "/", "shards"))
    await wait_for_bindings(embedded)
    assert set(vhost_of(embedded).queues) == {
        shard(embedded, 0),
        shard(embedded, 1),
    }


async def test_the_name_is_declared_as_a_shard_and_got_from(embedded, channel):
    set_policy(embedded, shards_per_node=1)
    await wait_for_bindings(embedded, (0, ""))
    declared = await channel.declare_queue(NAME, durable=True)
    assert declared.name == shard(embedded, 0)
    exchange = await channel.get_exchange(NAME)
    await exchange.publish(aio_pika.Message(b"one"), "any")
    queue = await channel.get_queue(NAME, ensure=False)
    got = await queue.get(no_ack=True)
    assert got.body == b"one"


@pytest.mark.parametrize("act", ["delete", "purge", "bind", "unbind"])
async def test_what_cannot_be_done_to_all_shards_is_refused(embedded, connection, channel, act):
    set_policy(embedded, shards_per_node=1)
    await wait_for_bindings(embedded, (0, ""))
    queue = await channel.get_queue(NAME, ensure=False)
    arguments = ["amq.direct", "key"] if act.endswith("bind") else []
    with pytest.raises(ChannelPreconditionFailed) as refused:
        await getattr(queue, act)(*arguments)
    assert str(refused.value).endswith(f'Can\'t {act} sharded queue: <<"{NAME}">>')


async def test_consuming_is_refused_while_there_is_no_shard(embedded, channel):
    set_policy(embedded, shards_per_node=0)
    queue = await channel.get_queue(NAME, ensure=False)
    with pytest.raises(ChannelPreconditionFailed) as refused:
        await queue.consume(print)
    assert str(refused.value).endswith(f'Error finding sharded queue for: <<"{NAME}">>')
