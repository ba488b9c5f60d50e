"""What belongs to a client is freed when it ends, without the garbage collector.

A collection takes long on a node with many objects, so it looks at few of them
(broker/resources/garbage_collections.py).
"""

import asyncio
import gc

import pytest
from pamqp import commands

from leveret.broker.protocols.amqp091.channel.channel import Channel
from leveret.broker.protocols.amqp091.channel.frame_consumer import FrameConsumer
from leveret.broker.protocols.amqp091.connection.connection import Connection
from leveret.broker.protocols.amqp091.connection.incoming import Incoming
from leveret.broker.protocols.amqp091.connection.login import Login
from leveret.broker.runtime.loop_watch import CHECK_SECONDS
from leveret.broker.sessions.transaction import Transaction
from tests.patience import PATIENCE_SECONDS
from tests.protocol.raw_client import close_arguments, method_bytes, publish_bytes
from tests.protocol.socketless import HeldSync, Node, Socket

KINDS = (Channel, Connection, FrameConsumer, Incoming, Login, Transaction)


def of_clients():
    """The objects that clients have."""
    return sorted(type(one).__name__ for one in gc.get_objects() if type(one) in KINDS)


async def freed(before):
    """Wait until clients have no more objects than before. The watch remembers slow turns."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while of_clients() != before:
            await asyncio.sleep(CHECK_SECONDS)


async def use(node):
    """A client with a consumer, with confirms, and with a transaction that is open."""
    (client,) = node.clients(1)
    client.send_method(commands.Queue.Declare, queue="q")
    client.send_method(commands.Queue.Declare, queue="own", exclusive=True)
    client.send_method(commands.Basic.Qos, prefetch_count=2)
    client.send_method(commands.Basic.Consume, queue="q", consumer_tag="c")
    client.send_method(commands.Confirm.Select)
    client.send(publish_bytes(1, "q", b"body") * 5)
    client.send(method_bytes(2, commands.Channel.Open) + method_bytes(2, commands.Tx.Select))
    client.send(publish_bytes(2, "q", b"committed") + method_bytes(2, commands.Tx.Commit))
    client.send(publish_bytes(2, "q", b"body") + method_bytes(2, commands.Basic.Get, queue="q"))
    client.send(method_bytes(2, commands.Basic.Ack, delivery_tag=1))
    await served(node, client)
    return client


async def served(node, *clients):
    async for _ in node.turns(*clients):
        pass


ENDS = {
    "the socket is closed": b"",
    "a channel is closed": method_bytes(1, commands.Channel.Close, **close_arguments()),
    "a channel fails": method_bytes(1, commands.Basic.Ack, delivery_tag=999),
    "the connection is closed": method_bytes(0, commands.Connection.Close, **close_arguments()),
    "the connection fails": b"no frame at all",
    "a message is cut off": publish_bytes(1, "q", b"body")[:-4],
}


@pytest.mark.parametrize("end", ENDS)
async def test_a_client_that_has_ended_is_freed_at_once(no_collections, end):
    async with Node() as node:
        before = of_clients()
        client = await use(node)
        client.send(ENDS[end])
        await served(node, client)
        client.disconnect()
        del client
        await served(node)
        await freed(before)


@pytest.mark.parametrize("end", ENDS)
async def test_a_client_whose_answers_wait_for_the_disk_is_freed_when_it_ends(no_collections, end):
    async with Node() as node:
        before = of_clients()
        client = await use(node)
        sync = HeldSync(node)
        client.send_method(commands.Queue.Declare, queue="durable", durable=True)
        client.send(publish_bytes(1, "q", b"body"))
        client.send(ENDS[end])
        await served(node, client)
        client.disconnect()
        del client
        await served(node)
        await freed(before)
        assert sync.waiting


@pytest.mark.parametrize("method", ["PLAIN", "nonsense"])
async def test_a_client_that_never_logged_in_is_freed_at_once(no_collections, method):
    async with Node() as node:
        before = of_clients()
        connection = node.broker._accept()
        connection.connection_made(Socket())
        connection.data_received(b"AMQP\0\0\x09\x01")
        start_ok = {"client_properties": {}, "mechanism": method, "response": "\0guest\0wrong"}
        connection.data_received(
            method_bytes(0, commands.Connection.StartOk, locale="en_US", **start_ok)
        )
        await asyncio.sleep(0)
        connection.connection_lost(None)
        del connection
        await served(node)
        await freed(before)
