"""No turn of the event loop is long, whatever one client, many of them, or a policy asks for.

The calls that Python makes in a turn are counted: 20,000 take 2 to 6 ms on any path of the broker.
Unlike time, they do not depend on the machine.
"""

import itertools

import pytest
from pamqp import commands

from leveret.broker.declarations import PutBinding, PutQueue
from leveret.broker.names import QUEUE
from leveret.broker.turns import WORK_MAX
from tests.protocol.raw_client import publish_bytes
from tests.protocol.socketless import READ_BYTES, Node, most

CALLS_MAX = 50_000
"""Of a turn: 5 to 10 ms."""
NO_TABLE = b"\0\0\0\0"


def declare(node, *names, arguments=NO_TABLE, exchange=None):
    """Declare queues, and bind them to an exchange."""
    submit = node.broker.services.declarations.submit
    for name in names:
        submit(PutQueue("/", name, False, False, arguments)).result()
        if exchange is not None:
            submit(PutBinding("/", exchange, name, "", QUEUE, NO_TABLE)).result()
    return [node.vhost.queues[name] for name in names]


def bodies(queue):
    return [entry.message.body for entry in queue.backing.cursor().read(1 << 30)]


def numbered(count, **where):
    """Messages that differ in their bodies only, which the broker takes as runs."""
    return b"".join(publish_bytes(1, body=b"%06d" % number, **where) for number in range(count))


def irregular(count, **where):
    """Messages of growing size, each of which is a run of its own."""
    return b"".join(publish_bytes(1, body=bytes(number), **where) for number in range(count))


async def test_a_publisher_to_many_queues():
    async with Node() as node:
        queues = declare(node, *map(str, range(300)), exchange="amq.fanout")
        (client,) = node.clients(1)
        client.send(numbered(2000, routing_key="", exchange="amq.fanout"))
        assert await most(node.turns(client)) < CALLS_MAX
        for queue in (queues[0], queues[-1]):
            assert bodies(queue) == [b"%06d" % number for number in range(2000)]


async def test_the_entries_that_are_made_in_a_turn():
    async with Node() as node:
        queues = declare(node, *map(str, range(200)), exchange="amq.fanout")
        clients = node.clients(3)
        for client in clients:
            client.send(numbered(500, routing_key="", exchange="amq.fanout"))
        made = [0]
        async for _ in node.turns(*clients):
            made.append(sum(queue.backing.ready_count for queue in queues))
        in_turns = [after - before for before, after in itertools.pairwise(made)]
        assert max(in_turns) <= 2 * WORK_MAX
        assert made[-1] == 3 * 500 * len(queues)


@pytest.mark.parametrize("make", [numbered, irregular])
async def test_many_publishers_at_full_speed(make):
    async with Node() as node:
        queues = declare(node, *map(str, range(20)))
        clients = node.clients(20)
        for number, client in enumerate(clients):
            client.send(make(1000, routing_key=str(number)))
        assert await most(node.turns(*clients)) < CALLS_MAX
        assert [queue.backing.ready_count for queue in queues] == [1000] * 20


async def test_all_publishers_have_their_turn():
    async with Node() as node:
        queues = declare(node, *map(str, range(10)), exchange="amq.fanout")
        clients = node.clients(5)
        for number, client in enumerate(clients):
            client.send(numbered(4000, routing_key="", exchange="amq.fanout", app_id=str(number)))
        async for _ in node.turns(*clients):
            published = [client.channel.counts.published for client in clients]
            if max(published) == 4000:
                break
        assert min(published) > 1000
        async for _ in node.turns(*clients):
            pass
        assert queues[0].backing.ready_count == 5 * 4000


async def test_messages_that_are_routed_one_by_one():
    async with Node() as node:
        queues = declare(node, *map(str, range(100)), exchange="amq.headers")
        (client,) = node.clients(1)
        client.send(
            numbered(500, routing_key="", exchange="amq.headers", headers={"a": ("S", "b")})
        )
        assert await most(node.turns(client)) < CALLS_MAX
        assert queues[0].backing.ready_count == 500


async def test_methods_that_are_sent_without_waiting_for_an_answer():
    async with Node() as node:
        (client,) = node.clients(1)
        for number in range(2000):
            client.send_method(commands.Queue.Declare, queue=str(number), nowait=True)
        assert await most(node.turns(client)) < CALLS_MAX
        assert len(node.vhost.queues) == 2000


async def test_what_follows_a_run_that_was_interrupted_comes_after_it():
    async with Node() as node:
        declare(node, *map(str, range(50)), exchange="amq.fanout")
        (client,) = node.clients(1)
        client.send_method(commands.Confirm.Select)
        client.send(numbered(1000, routing_key="", exchange="amq.fanout"))
        client.send_method(commands.Queue.Declare, queue="0", passive=True)
        client.send(numbered(1000, routing_key="", exchange="amq.fanout"))
        client.send_method(commands.Channel.Close, reply_code=200)
        async for _ in node.turns(client):
            pass
        written = bytes(client.socket.written)
        declared = written.index(b"\0\x32\0\x0b\x010")
        assert written[declared + 6 :].startswith((1000).to_bytes(4, "big"))
        assert node.vhost.queues["49"].backing.ready_count == 2000
        assert 1 not in client.connection.channels


async def test_a_client_that_is_cut_off_leaves_nothing_behind():
    async with Node() as node:
        (queue,) = declare(node, "q")
        clients = node.clients(2)
        for client in clients:
            client.send(numbered(READ_BYTES // 70, routing_key="q"))
            client.send(numbered(READ_BYTES // 70, routing_key="q"))
        turns = node.turns(*clients)
        await anext(turns)
        clients[1].disconnect()
        async for _ in node.turns(clients[0]):
            pass
        assert queue.backing.ready_count >= 2 * (READ_BYTES // 70)
        assert not clients[1].connection.incoming.steps.waiting
