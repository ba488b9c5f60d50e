"""A publisher that uses very many routing keys: what depends on the exchange is asked once."""

from dataclasses import replace

import pytest

from leveret.broker.declarations.values import (
    Permission,
    PutBinding,
    PutPermission,
    PutQueue,
    PutTopicPermission,
    TopicPermission,
)
from tests.protocol.raw_client import publish_bytes
from tests.protocol.socketless import Node

KEYS = 2500


class Counting:
    """Permits everything at once. resources, topics: what it was asked."""

    def __init__(self):
        self.resources, self.topics = [], []

    def may_use(self, identity, vhost, kind, name, permission):
        self.resources.append((kind, name, permission))
        return True

    def may_use_topic(self, identity, vhost, exchange, routing_key, permission):
        self.topics.append(routing_key)
        return True


def declare(node, *declarations):
    for declaration in declarations:
        node.broker.services.declarations.submit(declaration).result()


async def all_read(node, client):
    async for _ in node.turns(client):
        pass


async def published(node, client, exchange, keys):
    for key in keys:
        client.send(publish_bytes(1, key, b"x", exchange=exchange))
    await all_read(node, client)


@pytest.fixture
async def node():
    async with Node() as node:
        declare(node, PutQueue("/", "q", False, False, b"\0\0\0\0"))
        yield node


@pytest.mark.parametrize("exchange", ["", "amq.direct", "amq.topic"])
async def test_the_permission_for_an_exchange_is_asked_once_for_all_keys(node, exchange):
    (client,), backend = node.clients(1), Counting()
    client.connection.user = replace(client.connection.user, authorization=backend)
    keys = [f"key.{number}" for number in range(KEYS)]
    await published(node, client, exchange, keys * 2)
    name = exchange or "amq.default"
    assert backend.resources == [("exchange", name, "write")]
    assert set(backend.topics) == (set(keys) if exchange == "amq.topic" else set())


async def test_a_permission_that_is_taken_away_holds_for_keys_not_used_before(node):
    (client,) = node.clients(1)
    await published(node, client, "", ["q", "other"])
    declare(node, PutPermission(Permission("/", "guest", ".*", "^amq.topic$", ".*")))
    await published(node, client, "", ["new"])
    refused = b"write access to exchange 'amq.default' in vhost '/' refused"
    assert refused in bytes(client.socket.written)


async def test_each_key_of_a_topic_exchange_is_checked(node):
    (client,) = node.clients(1)
    allowed = TopicPermission("/", "guest", "amq.topic", "^mine", ".*")
    declare(node, PutTopicPermission(allowed))
    await published(node, client, "amq.topic", ["mine.1", "mine.2"])
    assert not client.channel.is_closing
    await published(node, client, "amq.topic", ["yours"])
    assert b"access to topic 'yours' in exchange 'amq.topic'" in bytes(client.socket.written)


async def test_a_new_binding_holds_for_keys_used_before(node):
    (client,) = node.clients(1)
    await published(node, client, "amq.direct", ["a"])
    declare(node, PutBinding("/", "amq.direct", "q", "a"))
    await published(node, client, "amq.direct", ["a", "b"])
    assert node.vhost.queues["q"].backing.ready_count == 1
