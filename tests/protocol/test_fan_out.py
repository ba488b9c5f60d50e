"""A message to very many queues: some of them get it in each turn, and none misses it."""

from itertools import pairwise
from types import SimpleNamespace

import pytest
from pamqp import commands

from leveret.broker.amqp.field_table import encode_table
from leveret.broker.declarations.values import PutBinding, PutExchange, PutQueue
from leveret.broker.events.taps import TRACE_EXCHANGE
from leveret.broker.runtime.names import EXCHANGE, QUEUE
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.storage.messages.message import Address, Message
from tests.protocol.long_turns import CALLS_MAX
from tests.protocol.raw_client import method_bytes, publish_bytes
from tests.protocol.socketless import Node, most
from tests.unit.broker.queues.fakes import HEADER

QUEUES, TRACED_QUEUES = 1000, 50_000
MADE_MAX = 700
"""The most entries of a turn: a turn's work is that of 500 in queues with a time to live."""
NO_TABLE = encode_table({})
TTL = encode_table({"x-message-ttl": ("I", 60_000)})
SOURCES = ["amq.fanout", "through another", "amq.headers", "delaying"]
DELAYED = {"headers": {"x-delay": ("I", 5)}}


@pytest.fixture
async def node():
    """Its exchanges lead to many queues; a message that dies in the queue `source` does, too."""
    async with Node(VirtualClock()) as node:
        submit = node.broker.services.declarations.submit
        delayed_type = encode_table({"x-delayed-type": ("S", "fanout")})
        submit(PutExchange("/", "through another", "fanout", False, False, False, NO_TABLE))
        submit(PutExchange("/", "delaying", "x-delayed-message", False, False, False, delayed_type))
        for name in map(str, range(QUEUES)):
            submit(PutQueue("/", name, False, False, TTL))
            submit(PutBinding("/", "amq.fanout", name, "", QUEUE, NO_TABLE))
            submit(PutBinding("/", "amq.headers", name, "", QUEUE, NO_TABLE))
        for source in ("through another", "delaying"):
            submit(PutBinding("/", source, "amq.fanout", "", EXCHANGE, NO_TABLE))
        dying = {"x-message-ttl": ("I", 5), "x-dead-letter-exchange": ("S", "amq.fanout")}
        submit(PutQueue("/", "source", False, False, encode_table(dying)))
        yield node


def queues(node):
    return [node.vhost.queues[str(number)] for number in range(QUEUES)]


def bodies(queue):
    return [entry.message.body for entry in queue.backing.cursor().read(1 << 30)]


async def served(node, *clients, after=None):
    """Let turns pass; the most entries that were made in one of them."""
    made = [0]
    async for _ in node.turns(*clients, after=after):
        made.append(sum(queue.backing.ready_count for queue in queues(node)))
    return max(later - before for before, later in pairwise(made))


@pytest.mark.parametrize("source", SOURCES)
async def test_every_queue_gets_the_messages_in_the_order_of_publishing(node, source):
    (client,) = node.clients(1)
    for body in (b"one", b"two", b"three"):
        client.send(publish_bytes(1, "", body, source))
    # To one queue of them: it comes after the others of its channel.
    client.send(publish_bytes(1, str(QUEUES - 1), b"last"))
    assert 0 < await served(node, client) < MADE_MAX
    for queue in queues(node)[:-1]:
        assert bodies(queue) == [b"one", b"two", b"three"]
    assert bodies(queues(node)[-1]) == [b"one", b"two", b"three", b"last"]


async def test_a_confirm_comes_after_the_last_queue(node):
    (client,) = node.clients(1)
    client.send_method(commands.Confirm.Select)
    await served(node, client)
    client.send(publish_bytes(1, "", b"body", "amq.fanout", delivery_mode=2))
    confirmed = method_bytes(1, commands.Basic.Ack, delivery_tag=1)
    async for _ in node.turns(client):
        if confirmed in client.socket.written:
            assert queues(node)[-1].backing.ready_count == 1
    assert client.socket.written.count(confirmed) == 1


async def test_a_message_that_one_of_the_queues_refuses_is_refused_once(node):
    full = encode_table({"x-max-length": ("I", 0), "x-overflow": ("S", "reject-publish")})
    submit = node.broker.services.declarations.submit
    submit(PutQueue("/", "full", False, False, full))
    submit(PutBinding("/", "amq.fanout", "full", "", QUEUE, NO_TABLE))
    (client,) = node.clients(1)
    client.send_method(commands.Confirm.Select)
    client.send(publish_bytes(1, "", b"body", "amq.fanout"))
    await served(node, client)
    refused = method_bytes(1, commands.Basic.Nack, delivery_tag=1, multiple=True, requeue=True)
    assert client.socket.written.endswith(refused)
    assert all(queue.backing.ready_count == 1 for queue in queues(node))


async def test_a_transaction(node):
    (client,) = node.clients(1)
    client.send_method(commands.Tx.Select)
    client.send(publish_bytes(1, "", b"one", "amq.fanout"))
    client.send(publish_bytes(1, str(QUEUES - 1), b"two"))
    client.send_method(commands.Tx.Commit)
    assert 0 < await served(node, client) < MADE_MAX
    assert client.socket.written.endswith(method_bytes(1, commands.Tx.CommitOk))
    assert bodies(queues(node)[-1]) == [b"one", b"two"]


async def test_a_client_that_ends_meanwhile(node):
    (client,) = node.clients(1)
    await served(node, client)
    client.send(publish_bytes(1, "", b"body", "amq.fanout"))
    client.be_read()
    client.disconnect()
    assert 0 < await served(node) < MADE_MAX
    assert all(bodies(queue) == [b"body"] for queue in queues(node))


async def test_dead_letters(node):
    (client,) = node.clients(1)
    for body in (b"one", b"two"):
        client.send(publish_bytes(1, "source", body))
    await served(node, client)
    made = await served(node, after=lambda: node.broker.services.clock.advance(0.01))
    assert 0 < made < MADE_MAX
    assert all(bodies(queue) == [b"one", b"two"] for queue in queues(node))


async def test_messages_whose_delay_is_over(node):
    (client,) = node.clients(1)
    for body in (b"one", b"two"):
        client.send(publish_bytes(1, "", body, "delaying", **DELAYED))
    await served(node, client)
    made = await served(node, after=lambda: node.broker.services.clock.advance(0.01))
    assert 0 < made < MADE_MAX
    assert all(bodies(queue) == [b"one", b"two"] for queue in queues(node))


async def test_a_copy_of_the_firehose_names_the_queues_of_a_message(node):
    submit = node.broker.services.declarations.submit
    submit(PutQueue("/", "copies", False, False, NO_TABLE))
    submit(PutBinding("/", TRACE_EXCHANGE, "copies", "publish.#", QUEUE, NO_TABLE))
    node.broker.tracing.set_firehose(node.vhost, True)
    (client,) = node.clients(1)
    await served(node, client)
    names = [f"queue {number}" for number in range(TRACED_QUEUES)]
    reached = [SimpleNamespace(name=name) for name in names]
    message = Message(Address("x", "k", b"\x01x\x01k"), HEADER, b"body")

    def publish():
        for _ in range(2):
            node.vhost.tracer.published(client.channel, [message], ["k"], reached)

    assert await most(node.turns(after=publish)) < CALLS_MAX
    copies = node.vhost.queues["copies"].backing.cursor().read(1 << 30)
    assert [copy.message.body for copy in copies] == [b"body"] * 2
    for copy in copies:
        headers = copy.message.header.headers
        assert headers["routed_queues"] == ("A", [("S", name) for name in names])
        assert list(headers)[-2:] == ["user", "routed_queues"]
