"""Deleted queues and exchanges are freed without the garbage collector, as clients are.

A node with many objects looks at few of them (broker/resources/garbage_collections.py): what is in
a cycle of references when it is deleted stays for ever.
"""

import gc

import pytest
from pamqp import commands

from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.queues.classic.figures import ClassicFigures
from leveret.broker.queues.classic.priority import PriorityQueue
from leveret.broker.queues.contract.arguments import QueueOptions
from leveret.broker.sessions.outdated_targets import DELETED_MAX
from leveret.broker.vhost.binding import Exchange
from leveret.broker.vhost.delayed_messages import DelayedMessages
from leveret.cluster.groups.group_member import GroupMember
from leveret.cluster.quorum.client.quorum_queue_client import QuorumQueueClient
from leveret.cluster.streams.client.stream_queue_client import StreamQueueClient
from leveret.cluster.streams.declared_stream import DeclaredStream
from leveret.storage.metadata.metadata import SqliteMetadata
from leveret.storage.queue.tiered_queue import TieredQueue
from leveret.storage.stream_log.stream_log import StreamLog
from tests.patience import until
from tests.protocol.raw_client import publish_bytes
from tests.protocol.socketless import Client
from tests.stored_broker import StoredBroker

KINDS = (
    ClassicFigures, ClassicQueue, DeclaredStream, DelayedMessages, Exchange, GroupMember,
    PriorityQueue, QueueOptions, QuorumQueueClient, StreamLog, StreamQueueClient, TieredQueue,
)  # fmt: skip
COUNT, FEW = 20, 5
"""Of each kind that are made, and of all kinds that may be there for something else."""
TEXT, NUMBER = "S", "I"
QUORUM = {"x-queue-type": (TEXT, "quorum")}
QUEUES = {
    "transient": {},
    "classic": {},
    "lazy": {"x-queue-mode": (TEXT, "lazy")},
    "with priorities": {"x-max-priority": (NUMBER, 3)},
    "quorum": QUORUM,
    "that keeps dead letters": {
        **QUORUM, "x-max-length": (NUMBER, 1), "x-overflow": (TEXT, "reject-publish"),
        "x-dead-letter-exchange": (TEXT, "nowhere"),
        "x-dead-letter-strategy": (TEXT, "at-least-once"),
    },
}  # fmt: skip


@pytest.fixture
async def client(tmp_path):
    async with StoredBroker(tmp_path, make_metadata=SqliteMetadata) as embedded:
        client = Client(embedded.broker)
        yield client
        client.disconnect()


def count_of_all():
    """How many there are of `KINDS`, and of what compiled functions keep for those in them."""
    types = map(type, gc.get_objects())
    return sum(one in KINDS or one.__name__.endswith("_env") for one in types)


async def done(client):
    """Wait until all that was sent is handled."""

    def is_done():
        client.be_read()
        return client.is_done and not client.waits

    await until(is_done)


async def test_the_objects_of_a_message_with_several_routing_keys_are_freed(no_collections, client):
    client.send_method(commands.Queue.Declare, queue="q")
    await done(client)
    before = count_of_all()
    headers = {"CC": ("A", [(TEXT, "q")])}
    client.send(publish_bytes(1, "nowhere", b"message", headers=headers) * COUNT)
    await done(client)
    await until(lambda: count_of_all() < before + FEW)


@pytest.mark.parametrize("is_purged", [False, True])
@pytest.mark.parametrize("kind", QUEUES)
async def test_a_deleted_queue_is_freed(no_collections, client, kind, is_purged):
    arguments, is_durable = QUEUES[kind], kind != "transient"
    await done(client)
    before = count_of_all()
    for n in range(COUNT):
        client.send_method(
            commands.Queue.Declare, queue=f"q{n}", durable=is_durable, arguments=arguments
        )
        client.send(publish_bytes(1, f"q{n}", b"message", delivery_mode=2, expiration="60000") * 3)
        client.send_method(commands.Basic.Get, queue=f"q{n}", no_ack=True)
        if is_purged:
            client.send_method(commands.Queue.Purge, queue=f"q{n}")
    await done(client)
    await until(lambda: count_of_all() >= before + COUNT)
    for n in range(COUNT):
        client.send_method(commands.Queue.Delete, queue=f"q{n}")
    await done(client)
    # The connection remembers where it has published.
    client.connection.targets.clear()
    await until(lambda: count_of_all() < before + FEW)


async def test_a_deleted_stream_is_freed(no_collections, client):
    await done(client)
    before = count_of_all()
    arguments = {"x-queue-type": (TEXT, "stream"), "x-max-age": (TEXT, "1h")}
    for n in range(COUNT):
        client.send_method(commands.Queue.Declare, queue=f"s{n}", durable=True, arguments=arguments)
        client.send(publish_bytes(1, f"s{n}", b"message") * 3)
    await done(client)
    await until(lambda: count_of_all() >= before + 5 * COUNT)
    for n in range(COUNT):
        client.send_method(commands.Queue.Delete, queue=f"s{n}")
    await done(client)
    client.connection.targets.clear()
    await until(lambda: count_of_all() < before + FEW)


async def test_a_deleted_exchange_with_delayed_messages_is_freed(no_collections, client):
    await done(client)
    before = count_of_all()
    for n in range(COUNT):
        client.send_method(
            commands.Exchange.Declare, exchange=f"x{n}", exchange_type="x-delayed-message",
            durable=True, arguments={"x-delayed-type": (TEXT, "direct")},
        )  # fmt: skip
        headers = {"x-delay": (NUMBER, 60_000)}
        client.send(publish_bytes(1, "key", b"message", f"x{n}", headers=headers, delivery_mode=2))
    await done(client)
    await until(lambda: count_of_all() >= before + COUNT)
    for n in range(COUNT):
        client.send_method(commands.Exchange.Delete, exchange=f"x{n}")
    await done(client)
    client.connection.targets.clear()
    await until(lambda: count_of_all() < before + FEW)


async def test_queues_to_which_a_connection_has_published_are_freed_while_it_stays(
    no_collections, client
):
    await done(client)
    before = count_of_all()
    for n in range(3 * DELETED_MAX):
        client.send_method(commands.Queue.Declare, queue=f"q{n}")
        client.send(publish_bytes(1, f"q{n}", b"message"))
        client.send_method(
            commands.Queue.Delete, queue=f"q{n}", if_unused=False, if_empty=False, nowait=False
        )
    await done(client)
    # A queue has four of them.
    await until(lambda: count_of_all() < before + 5 * DELETED_MAX)
