"""Cycles of what clients have: connections, channels, consumers, transactions, confirms.

Each is a coroutine function of the node, the number of the first cycle, and how many to do.
"""

import asyncio

from pamqp import commands

from tests.churn.of_queues import DELETING, method
from tests.protocol.raw_client import RawClient, close_arguments, method_bytes, publish_bytes
from tests.protocol.socketless import Client

CHANNEL_OPEN = method_bytes(2, commands.Channel.Open)
CHANNEL_CLOSE = method_bytes(2, commands.Channel.Close, **close_arguments())
CHANNEL_CLOSE_OK = method_bytes(2, commands.Channel.CloseOk)
CONNECTION_CLOSE = method_bytes(0, commands.Connection.Close, **close_arguments())
REPLY_TO = "amq.rabbitmq.reply-to"


async def connections(node, first, count):
    """Closed by the client."""
    for _ in range(count):
        client = Client(node.broker)
        client.send(method(commands.Confirm.Select) + publish_bytes(1, "nowhere", b"message"))
        client.send(CONNECTION_CLOSE)
        await node.done(client)
        client.disconnect()


async def lost_connections(node, first, count):
    """Ended by the socket, with a consumer, an unsettled delivery, and a message cut off."""
    for n in range(first, first + count):
        client = Client(node.broker)
        client.send(method(commands.Queue.Declare, queue=f"q{n}", exclusive=True))
        client.send(method(commands.Basic.Consume, queue=f"q{n}", consumer_tag="c"))
        client.send(publish_bytes(1, f"q{n}", b"message") * 2)
        client.send(publish_bytes(1, f"q{n}", b"message")[:-4])
        await node.done(client)
        client.disconnect()


async def refused_connections(node, first, count):
    """No protocol at all, and a wrong password."""
    for _ in range(count):
        client = Client(node.broker)
        client.send(b"no frame at all")
        await node.done(client)
        client.disconnect()


async def connections_with_sockets(node, first, count):
    """Over TCP."""

    def connect():
        with RawClient(node) as client:
            client.open().open_channel().declare("", exclusive=True)
            client.call(
                0, commands.Connection.Close, commands.Connection.CloseOk, **close_arguments()
            )

    for _ in range(count):
        await asyncio.to_thread(connect)


async def channels(node, first, count):
    """With an unsettled delivery."""
    used = publish_bytes(2, "kept", b"message") + method_bytes(2, commands.Basic.Get, queue="kept")
    await node.used(
        method(commands.Queue.Declare, queue="kept"),
        *[CHANNEL_OPEN + used + CHANNEL_CLOSE] * count,
        method(commands.Queue.Delete, queue="kept", **DELETING),
    )


async def failed_channels(node, first, count):
    """Closed by the node."""
    failing = method_bytes(2, commands.Basic.Ack, delivery_tag=999)
    await node.used(*[CHANNEL_OPEN + failing + CHANNEL_CLOSE_OK] * count)


async def consumers(node, first, count):
    """With deliveries."""
    await node.used(
        method(commands.Queue.Declare, queue="consumed"),
        *[
            method(commands.Basic.Consume, queue="consumed", consumer_tag=f"c{n}", no_ack=True)
            + publish_bytes(1, "consumed", b"message")
            + method(commands.Basic.Cancel, consumer_tag=f"c{n}", nowait=False)
            for n in range(first, first + count)
        ],
    )


async def confirms(node, first, count):
    """Of persistent messages in a durable queue."""
    publish = publish_bytes(1, "confirmed", b"message", delivery_mode=2)
    get = method(commands.Basic.Get, queue="confirmed", no_ack=True)
    await node.used(
        method(commands.Queue.Declare, queue="confirmed", durable=True),
        method(commands.Confirm.Select),
        *[publish + get] * count,
    )


async def transactions(node, first, count):
    """Committed with a publish and an ack, and rolled back."""
    publish = publish_bytes(1, "in tx", b"message")
    get = method(commands.Basic.Get, queue="in tx")
    await node.used(
        method(commands.Queue.Declare, queue="in tx"),
        method(commands.Tx.Select),
        *[
            publish + method(commands.Tx.Commit) + get
            + method(commands.Basic.Ack, delivery_tag=1 + n) + method(commands.Tx.Commit)
            + publish + method(commands.Tx.Rollback)
            for n in range(count)
        ],
    )  # fmt: skip


async def transactional_channels(node, first, count):
    """That end with an open transaction."""
    used = (
        method_bytes(2, commands.Tx.Select)
        + publish_bytes(2, "in tx", b"message")
        + method_bytes(2, commands.Tx.Commit)
        + publish_bytes(2, "in tx", b"message")
        + method_bytes(2, commands.Basic.Get, queue="in tx", no_ack=True)
    )
    declared = method(commands.Queue.Declare, queue="in tx")
    await node.used(declared, *[CHANNEL_OPEN + used + CHANNEL_CLOSE] * count)


async def reply_consumers(node, first, count):
    """Of direct replies, with a request whose reply reaches no client."""
    used = (
        method_bytes(2, commands.Basic.Consume, queue=REPLY_TO, consumer_tag="r", no_ack=True)
        + publish_bytes(2, "nowhere", b"request", reply_to=REPLY_TO)
    )  # fmt: skip
    await node.used(*[CHANNEL_OPEN + used + CHANNEL_CLOSE] * count)


KINDS = {
    "connections": connections,
    "connections that are lost": lost_connections,
    "connections that are refused": refused_connections,
    "connections over TCP": connections_with_sockets,
    "channels": channels,
    "channels that fail": failed_channels,
    "consumers": consumers,
    "confirms": confirms,
    "transactions": transactions,
    "transactional channels": transactional_channels,
    "consumers of direct replies": reply_consumers,
}
