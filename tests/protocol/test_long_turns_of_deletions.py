"""No turn of the event loop is long, though what is deleted has very many bindings.

Meanwhile it is gone for all clients, and other declarations wait until the last binding is gone.
The calls that Python makes in a turn are counted, as in test_long_turns.py.
"""

import pytest
from pamqp import commands

from leveret.broker.declarations.values import (
    DeleteExchange,
    DeleteQueue,
    DeleteVhost,
    PutBinding,
    PutExchange,
    PutQueue,
)
from leveret.broker.runtime.names import EXCHANGE, QUEUE
from tests.protocol.long_turns import NO_TABLE
from tests.protocol.raw_client import header_frame, method_bytes, publish_bytes
from tests.protocol.socketless import Node, most

BINDINGS, CALLS_MAX = 2500, 40_000
"""A turn of this many calls takes 5 to 10 ms."""
DELETIONS = [DeleteQueue("/", "q"), DeleteExchange("/", "x"), DeleteVhost("/")]


def bound(node, kind="direct", auto_delete=False, **arguments):
    """An exchange and a queue with very many bindings between them."""
    submit = node.broker.services.declarations.submit
    submit(PutExchange("/", "x", kind, False, auto_delete, False, NO_TABLE)).result()
    submit(PutQueue("/", "q", False, False, NO_TABLE, **arguments)).result()
    for number in range(BINDINGS):
        submit(PutBinding("/", "x", "q", f"{number}", QUEUE, NO_TABLE)).result()
    return node.vhost


def listen(node):
    """The names of all events from now on, and what they are about."""
    heard = []
    node.broker.services.events.listen(
        lambda event: heard.append((event["event"], event.get("routing_key")))
    )
    return heard


@pytest.mark.parametrize("deletion", DELETIONS)
async def test_the_turns_of_a_deletion(deletion):
    async with Node() as node:
        vhost = bound(node)
        queue, exchange, heard = vhost.queues["q"], vhost.exchanges["x"], listen(node)
        submit = node.broker.services.declarations.submit
        assert await most(node.turns(after=lambda: submit(deletion))) < CALLS_MAX
        assert not queue.bindings
        assert not exchange.bindings
        keys = [key for name, key in heard if name == "binding.deleted"]
        assert keys == [str(number) for number in range(BINDINGS)]
        assert heard.index(("binding.deleted", keys[-1])) < len(heard) - 1


async def test_a_client_that_ends_with_an_exclusive_queue_of_many_bindings():
    async with Node() as node:
        (client,) = node.clients(1)
        client.send_method(commands.Queue.Declare, queue="q", exclusive=True)
        for number in range(BINDINGS):
            client.send_method(
                commands.Queue.Bind,
                queue="q", exchange="amq.direct", routing_key=f"{number}", nowait=True,
            )  # fmt: skip
        async for _ in node.turns(client):
            pass
        assert len(node.vhost.exchanges["amq.direct"].bindings) == BINDINGS
        assert await most(node.turns(after=client.disconnect)) < CALLS_MAX
        assert not node.vhost.queues
        assert not node.vhost.exchanges["amq.direct"].bindings


async def test_the_auto_delete_exchanges_that_lose_their_last_binding():
    async with Node() as node:
        vhost = bound(node, auto_delete=True)
        submit = node.broker.services.declarations.submit
        for number in range(BINDINGS):
            submit(PutBinding("/", "amq.direct", "x", f"{number}", EXCHANGE, NO_TABLE)).result()
        heard = listen(node)
        turns = node.turns(after=lambda: submit(DeleteQueue("/", "q")))
        assert await most(turns) < CALLS_MAX
        assert "x" not in vhost.exchanges
        assert not vhost.exchanges["amq.direct"].bindings
        names = [name for name, _ in heard if name != "binding.deleted"]
        assert names == ["exchange.deleted", "queue.deleted"]


async def test_meanwhile_it_is_gone_for_all_clients_and_others_are_served():
    async with Node() as node:
        vhost = bound(node)
        client, other = node.clients(2)
        client.send_method(commands.Basic.Consume, queue="q", consumer_tag="c", no_ack=True)
        async for _ in node.turns(client):
            pass
        client.send_method(commands.Queue.Delete, queue="q")
        turns = node.turns(client, other)
        await anext(turns)
        assert vhost.exchanges["x"].bindings
        last = f"{BINDINGS - 1}"
        publish = method_bytes(
            1, commands.Basic.Publish, exchange="x", routing_key=last, mandatory=True
        )
        other.send(publish + header_frame(1, b"\0\0", 0))
        other.send_method(commands.Queue.Declare, queue="q", passive=True)
        await anext(turns)
        assert vhost.exchanges["x"].bindings
        assert b"NO_ROUTE" in other.socket.written
        assert b"NOT_FOUND" in other.socket.written
        deleted = method_bytes(1, commands.Queue.DeleteOk, message_count=0)
        assert deleted not in client.socket.written
        async for _ in turns:
            pass
        assert client.socket.written.endswith(deleted)


async def test_objects_that_are_declared_meanwhile_are_declared_after_it():
    async with Node() as node:
        vhost = bound(node)
        client, other = node.clients(2)
        client.send_method(commands.Queue.Delete, queue="q")
        turns = node.turns(client, other)
        await anext(turns)
        old = vhost.exchanges["x"].bindings[("x", QUEUE, "q", f"{BINDINGS - 1}", NO_TABLE)]
        other.send_method(commands.Queue.Declare, queue="q")
        other.send_method(
            commands.Queue.Bind, queue="q", exchange="x", routing_key=f"{BINDINGS - 1}"
        )
        other.send(publish_bytes(1, f"{BINDINGS - 1}", b"kept", "x"))
        async for _ in turns:
            pass
        (binding,) = vhost.exchanges["x"].bindings.values()
        assert binding is not old
        assert vhost.queues["q"].backing.ready_count == 1


async def test_a_fault_in_a_declaration_that_comes_meanwhile():
    async with Node() as node:
        bound(node)
        client, other = node.clients(2)
        client.send_method(commands.Queue.Delete, queue="q")
        other.send_method(commands.Exchange.Declare, exchange="y", exchange_type="fanout")
        other.send_method(
            commands.Exchange.Declare,
            exchange="z", exchange_type="x-consistent-hash",
            arguments={"hash-header": ("S", "a"), "hash-property": ("S", "message_id")},
        )  # fmt: skip
        async for _ in node.turns(client, other):
            pass
        assert b"mutually exclusive" in other.socket.written
        assert "y" in node.vhost.exchanges
        assert "z" not in node.vhost.exchanges
