"""No turn of the loop is long, though it is not messages or methods that are many.

Here a frame is no method, a message comes back, a header is large, or time makes many queues end.
"""

import pytest
from pamqp import commands

from leveret.broker.amqp.field_table import encode_table
from leveret.broker.amqp.frames import BODY, HEARTBEAT, encode_frame
from leveret.broker.declarations.values import PutBinding, PutQueue
from leveret.broker.runtime.names import QUEUE
from leveret.broker.runtime.virtual_clock import VirtualClock
from tests.protocol.long_turns import CALLS_MAX, NO_TABLE, bodies, declare, table
from tests.protocol.raw_client import header_frame, method_bytes, publish_bytes
from tests.protocol.socketless import Node, most

DEATHS = ("A", [("F", {"queue": ("S", f"q{number}"), "count": ("l", 1)}) for number in range(300)])
DECODING_CALLS_MAX = 250_000
"""Of a turn that decodes tables: 12 ms."""


async def test_many_heartbeats():
    async with Node() as node:
        (client,) = node.clients(1)
        client.send(encode_frame(HEARTBEAT, 0, b"") * 60_000)
        client.send_method(commands.Basic.Qos)
        assert await most(node.turns(client)) < CALLS_MAX
        assert not client.socket.is_closed


async def test_a_body_of_many_small_frames():
    async with Node() as node:
        (queue,) = declare(node, "q", arguments=NO_TABLE)
        (client,) = node.clients(1)
        client.send_method(commands.Basic.Publish, routing_key="q")
        client.send(header_frame(1, b"\0\0", 60_000) + encode_frame(BODY, 1, b"x") * 60_000)
        assert await most(node.turns(client)) < CALLS_MAX
        assert bodies(queue) == [b"x" * 60_000]


async def test_many_messages_that_come_back_to_their_publisher():
    async with Node() as node:
        (client,) = node.clients(1)
        method = method_bytes(1, commands.Basic.Publish, routing_key="nobody", mandatory=True)
        client.send((method + header_frame(1, b"\0\0", 0)) * 3000)
        assert await most(node.turns(client)) < CALLS_MAX
        assert client.socket.written.count(b"NO_ROUTE") == 3000


@pytest.mark.parametrize("place", ["x-death", "other"])
async def test_messages_with_large_headers_that_die(place):
    async with Node() as node:
        arguments = table(x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
        declare(node, "q", arguments=arguments)
        (dead,) = declare(node, "dead")
        (client,) = node.clients(1)
        client.send(publish_bytes(1, routing_key="q", headers={place: DEATHS}) * 40)
        async for _ in node.turns(client):
            pass
        client.send_method(commands.Basic.Consume, queue="q", consumer_tag="c")
        async for _ in node.turns(client):
            pass
        client.send_method(commands.Basic.Nack, delivery_tag=0, multiple=True, requeue=False)
        assert await most(node.turns(client)) < DECODING_CALLS_MAX
        assert dead.backing.ready_count == 40


async def test_messages_with_large_headers_that_are_routed_by_them():
    async with Node() as node:
        (queue,) = declare(node, "q", exchange="amq.headers")
        (client,) = node.clients(1)
        for number in range(40):
            headers = {"x-death": DEATHS, "number": ("I", number)}
            client.send(publish_bytes(1, "", exchange="amq.headers", headers=headers))
        assert await most(node.turns(client)) < DECODING_CALLS_MAX
        assert queue.backing.ready_count == 40


async def test_many_queues_that_expire_together():
    async with Node(VirtualClock()) as node:
        declare(node, *map(str, range(600)), arguments=table(x_expires=1000))
        turns = node.turns(after=lambda: node.broker.services.clock.advance(2))
        assert await most(turns) < CALLS_MAX
        assert not node.vhost.queues


async def test_very_many_declarations_that_are_submitted_together():
    async with Node() as node:
        queues = [PutQueue("/", str(number), True, False, NO_TABLE) for number in range(1000)]
        bindings = [PutBinding("/", "amq.topic", it.name, "a.b", QUEUE, NO_TABLE) for it in queues]
        submit = node.broker.services.declarations.submit
        for together in (queues, bindings):
            turns = node.turns(after=lambda together=together: submit(*together))
            assert await most(turns) < CALLS_MAX
        assert len(node.vhost.queues) == len(node.vhost.exchanges["amq.topic"].bindings) == 1000


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_bindings_with_large_tables(is_deleted):
    """Few of them are made in a turn, and few are removed."""
    async with Node() as node:
        (client,) = node.clients(1)
        declare(node, "q")
        arguments = {f"k{number}": ("I", number) for number in range(400)}
        for number in range(100):
            client.send_method(
                commands.Queue.Bind, queue="q", exchange="amq.headers", routing_key=str(number),
                arguments=arguments, nowait=True,
            )  # fmt: skip
        made = await most(node.turns(client))
        assert len(node.vhost.queues["q"].bindings) == 100
        client.send_method(commands.Queue.Delete, queue="q")
        removed = await most(node.turns(client))
        assert (removed if is_deleted else made) < DECODING_CALLS_MAX
        assert not node.vhost.exchanges["amq.headers"].bindings


async def test_messages_that_are_compared_with_very_many_bindings():
    async with Node() as node:
        (queue,) = declare(node, "q")
        submit = node.broker.services.declarations.submit
        for number in range(1000):
            asked = {"x-match": ("S", "any"), "a": ("I", 1), "b": ("I", number)}
            submit(PutBinding("/", "amq.headers", "q", "", QUEUE, encode_table(asked))).result()
        (client,) = node.clients(1)
        message = publish_bytes(1, "", exchange="amq.headers", headers={"a": ("I", 1)})
        client.send(message * 100)
        assert await most(node.turns(client)) < CALLS_MAX
        assert queue.backing.ready_count == 100
