"""A message with very many routing keys, to patterns with very many wildcards: its route is found
in many turns of the event loop, and everything else stays as it is.

The calls that Python makes in a turn are counted, as in test_long_turns.py.
"""

import asyncio
from itertools import pairwise

import pytest
from pamqp import commands

from leveret.broker.amqp.field_table import encode_table
from leveret.broker.declarations.values import PutBinding, PutExchange, PutQueue
from leveret.broker.runtime.names import EXCHANGE, QUEUE
from leveret.broker.runtime.virtual_clock import VirtualClock
from tests.patience import PATIENCE_SECONDS
from tests.protocol.long_turns import NO_TABLE, bodies, table
from tests.protocol.raw_client import method_bytes, publish_bytes
from tests.protocol.socketless import Node, most

PATTERN = ".".join(["#"] * 127)
KEYS = [".".join([letter] * 127) for letter in "abcdefgh"]
"""The pattern has 127 nodes, each of which is compared with each of the 127 words of eight keys."""
CALLS_MAX = 150_000
"""Of a turn that compares words: each comparison is some very short calls, 100 ns together."""
FEW_CALLS_MAX = 30_000
"""Of a turn of other calls: 5 to 8 ms."""
CC = {"CC": ("A", [("S", key) for key in KEYS[1:]])}


@pytest.fixture
async def node():
    """Its exchange amq.topic leads to the queue `reached`, and `unmatched` to none."""
    async with Node(VirtualClock()) as node:
        submit = node.broker.services.declarations.submit
        submit(PutExchange("/", "unmatched", "topic", False, False, False, NO_TABLE))
        submit(PutQueue("/", "reached", False, False, NO_TABLE))
        submit(PutBinding("/", "amq.topic", "reached", PATTERN, QUEUE, NO_TABLE))
        submit(PutBinding("/", "unmatched", "reached", f"{PATTERN[:-1]}z", QUEUE, NO_TABLE))
        yield node


def message(body, exchange="amq.topic", **headers):
    return publish_bytes(1, KEYS[0], body, exchange, headers=CC | headers)


def reached(node):
    return bodies(node.vhost.queues["reached"])


async def test_what_follows_on_the_channel_comes_after_it(node):
    (client,) = node.clients(1)
    client.send(message(b"one") + message(b"two"))
    client.send(publish_bytes(1, "reached", b"three"))
    client.send_method(commands.Queue.Declare, queue="reached", passive=True)
    assert await most(node.turns(client)) < CALLS_MAX
    assert reached(node) == [b"one", b"two", b"three"]
    declared = method_bytes(
        1, commands.Queue.DeclareOk, queue="reached", message_count=3, consumer_count=0
    )
    assert client.socket.written.endswith(declared)


async def test_other_clients_are_served_meanwhile(node):
    slow, quick = node.clients(2)
    slow.send(message(b"slow", CC=("A", CC["CC"][1] * 4)))
    quick.send(publish_bytes(1, "reached", b"quick"))
    async for _ in node.turns(slow, quick):
        pass
    assert reached(node) == [b"quick", b"slow"]


async def test_it_is_confirmed_when_its_queues_have_it(node):
    (client,) = node.clients(1)
    client.send_method(commands.Confirm.Select)
    client.send(message(b"body"))
    confirmed = method_bytes(1, commands.Basic.Ack, delivery_tag=1)
    async for _ in node.turns(client):
        assert (confirmed in client.socket.written) <= (reached(node) == [b"body"])
    assert client.socket.written.count(confirmed) == 1


async def test_it_is_returned_before_it_is_confirmed_if_it_reaches_no_queue(node):
    (client,) = node.clients(1)
    client.send_method(commands.Confirm.Select)
    mandatory = method_bytes(
        1, commands.Basic.Publish, exchange="unmatched", routing_key=KEYS[0], mandatory=True
    )
    content = message(b"body").partition(b"\xce")[2]
    client.send(mandatory + content)
    assert await most(node.turns(client)) < CALLS_MAX
    written = bytes(client.socket.written)
    returned = written.index(b"\x01\x38NO_ROUTE".replace(b"\x38", b"\x38\x08"))
    assert returned < written.index(method_bytes(1, commands.Basic.Ack, delivery_tag=1))


async def test_a_client_that_ends_meanwhile_is_returned_nothing(node):
    (client,) = node.clients(1)
    client.send(message(b"body"))
    client.be_read()
    client.disconnect()
    async for _ in node.turns():
        pass
    assert reached(node) == [b"body"]


async def test_a_transaction(node):
    (client,) = node.clients(1)
    client.send_method(commands.Tx.Select)
    client.send(message(b"one"))
    client.send(publish_bytes(1, "reached", b"two"))
    client.send_method(commands.Tx.Commit)
    assert await most(node.turns(client)) < CALLS_MAX
    assert client.socket.written.endswith(method_bytes(1, commands.Tx.CommitOk))
    assert reached(node) == [b"one", b"two"]


@pytest.mark.parametrize("kind", ["classic", "quorum"])
async def test_dead_letters(node, kind):
    arguments = {"x_message_ttl": 5, "x_dead_letter_exchange": "amq.topic"}
    if kind == "quorum":
        arguments |= {
            "x_queue_type": "quorum", "x_dead_letter_strategy": "at-least-once",
            "x_overflow": "reject-publish",
        }  # fmt: skip
    submit = node.broker.services.declarations.submit
    submit(PutQueue("/", "dying", kind == "quorum", False, table(**arguments)))
    submit(PutBinding("/", "amq.headers", "dying", "", QUEUE, NO_TABLE))
    (client,) = node.clients(1)
    client.send(message(b"one", "amq.headers") + message(b"two", "amq.headers"))
    async for _ in node.turns(client):
        pass
    async with asyncio.timeout(PATIENCE_SECONDS):
        while reached(node) != [b"one", b"two"]:
            turns = node.turns(after=lambda: node.broker.services.clock.advance(0.01))
            assert await most(turns) < CALLS_MAX
    dying = node.vhost.queues["dying"].figures.counts()
    assert (dying.ready, dying.unacked) == (0, 0)


async def test_messages_whose_delay_is_over(node):
    submit = node.broker.services.declarations.submit
    delayed_type = encode_table({"x-delayed-type": ("S", "fanout")})
    submit(PutExchange("/", "delaying", "x-delayed-message", False, False, False, delayed_type))
    submit(PutBinding("/", "delaying", "amq.topic", "", EXCHANGE, NO_TABLE))
    (client,) = node.clients(1)
    for body in (b"one", b"two"):
        client.send(message(body, "delaying", **{"x-delay": ("I", 5)}))
    async for _ in node.turns(client):
        pass
    turns = node.turns(after=lambda: node.broker.services.clock.advance(0.01))
    assert await most(turns) < CALLS_MAX
    assert reached(node) == [b"one", b"two"]


async def test_messages_that_are_cheap_to_route_and_then_are_not(node):
    """What was learned of a message does not hold for the others of its run."""
    (client,) = node.clients(1)
    submit = node.broker.services.declarations.submit
    for number in range(400):
        any_of = encode_table({"x-match": ("S", "any"), "a": ("I", 1), "b": ("I", number)})
        submit(PutBinding("/", "amq.headers", "reached", "", QUEUE, any_of))
    cheap = publish_bytes(1, "", b"c", "amq.headers", headers={"a": ("I", 2)})
    dear = publish_bytes(1, "", b"d", "amq.headers", headers={"a": ("I", 1)})
    client.send(cheap * 300 + dear * 300)
    ready = [0]
    async for _ in node.turns(client):
        ready.append(node.vhost.queues["reached"].backing.ready_count)
    # The work of a turn is 16,000 comparisons.
    assert max(later - before for before, later in pairwise(ready)) < 50
    assert reached(node) == [b"d"] * 300


async def test_a_long_history_that_is_given_to_a_new_binding(node):
    submit = node.broker.services.declarations.submit
    length = encode_table({"x-recent-history-length": ("I", 5000)})
    submit(PutExchange("/", "history", "x-recent-history", False, False, False, length))
    (client,) = node.clients(1)
    client.send(publish_bytes(1, "", b"body", "history") * 5000)
    async for _ in node.turns(client):
        pass
    client.send_method(
        commands.Queue.Bind, queue="reached", exchange="history", routing_key="", nowait=False
    )
    assert await most(node.turns(client)) < FEW_CALLS_MAX
    assert len(reached(node)) == 5000
