"""A client at full speed beside others: one that publishes little does not wait long for it."""

import pytest
from pamqp import commands

from leveret.broker.amqp.field_table import encode_table
from leveret.broker.declarations.values import PutQueue
from leveret.broker.runtime.turns import SMALL_PUBLISHER_ROUNDS
from tests.protocol.raw_client import method_bytes, publish_bytes
from tests.protocol.socketless import Node

ONE = publish_bytes(1, "queue", b"one")
MANY = publish_bytes(1, "queue", bytes(1024)) * 1000


@pytest.fixture
async def node():
    async with Node() as node:
        node.broker.services.declarations.submit(
            PutQueue("/", "queue", False, False, encode_table({}))
        )
        yield node


async def pass_rounds(node, count):
    turns = node.broker.services.turns
    for _ in range(count):
        rounds = turns.rounds
        turns.after_round(lambda: None)
        async for _ in node.turns():
            if turns.rounds > rounds:
                break


async def sent(node, client, data):
    """Have the client send something, and the broker handle it."""
    client.send(data)
    async for _ in node.turns(client):
        pass


def goes_on_reading(client):
    """Whether the broker reads more of a client that sends very much, within one round."""
    client.send(MANY)
    client.be_read()
    return client.socket.is_read


async def test_a_client_alone_is_read_again_in_the_same_round_whatever_it_sent_before(node):
    (busy,) = node.clients(1)
    await sent(node, busy, ONE)
    assert goes_on_reading(busy)


async def test_a_client_waits_for_one_that_publishes_little(node):
    busy, quiet = node.clients(2)
    await sent(node, busy, ONE)
    await sent(node, quiet, ONE)
    assert not goes_on_reading(busy)
    await pass_rounds(node, 1)
    assert busy.socket.is_read


async def test_it_does_not_wait_for_one_that_published_long_ago(node):
    busy, quiet = node.clients(2)
    await sent(node, busy, ONE)
    await sent(node, quiet, ONE)
    await pass_rounds(node, SMALL_PUBLISHER_ROUNDS)
    assert goes_on_reading(busy)


async def test_acks_are_nothing_to_wait_for(node):
    busy, consumer = node.clients(2)
    await sent(node, busy, ONE)
    await sent(node, consumer, method_bytes(1, commands.Basic.Recover, requeue=True))
    assert goes_on_reading(busy)
