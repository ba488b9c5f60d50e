"""No turn of the event loop is long, whatever one client, many of them, or a policy asks for.

The calls that Python makes in a turn are counted: 20,000 take 2 to 6 ms on any path of the broker.
Unlike time, they do not depend on the machine.
"""

import gc
import itertools

import pytest
from pamqp import commands

from leveret.broker.declarations.values import DeleteVhost, Policy, PutPolicy
from leveret.broker.policies.parameters import POLICY
from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.queues.contract.publication import publication_of
from leveret.broker.runtime.turns import WORK_MAX
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.storage.messages.message import Message
from tests.protocol.long_turns import (
    CALLS_MAX,
    NO_TABLE,
    bodies,
    declare,
    irregular,
    numbered,
    table,
)
from tests.protocol.raw_client import method_bytes
from tests.protocol.socketless import READ_BYTES, Node, most
from tests.unit.broker.queues.fakes import ADDRESS, HEADER


async def test_a_publisher_to_many_queues():
    async with Node() as node:
        queues = declare(node, *map(str, range(150)), exchange="amq.fanout")
        (client,) = node.clients(1)
        client.send(numbered(1000, routing_key="", exchange="amq.fanout"))
        assert await most(node.turns(client)) < CALLS_MAX
        for queue in (queues[0], queues[-1]):
            assert bodies(queue) == [b"%06d" % number for number in range(1000)]


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
            client.send(make(400, routing_key=str(number)))
        assert await most(node.turns(*clients)) < CALLS_MAX
        assert [queue.backing.ready_count for queue in queues] == [400] * 20


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
            numbered(300, routing_key="", exchange="amq.headers", headers={"a": ("S", "b")})
        )
        assert await most(node.turns(client)) < CALLS_MAX
        assert queues[0].backing.ready_count == 300


async def test_methods_that_are_sent_without_waiting_for_an_answer():
    async with Node() as node:
        (client,) = node.clients(1)
        for number in range(500):
            client.send_method(commands.Queue.Declare, queue=str(number), nowait=True)
        assert await most(node.turns(client)) < CALLS_MAX
        assert len(node.vhost.queues) == 500


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


# Messages that die


@pytest.fixture(params=["a dead-letter exchange", "none"])
def dying(request):
    """Arguments of a queue in which messages die."""
    if request.param == "none":
        return {}
    return {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": "dead"}


async def filled(node, client, count, **arguments):
    """A queue with messages, and the one that gets its dead letters."""
    queue, dead = (*declare(node, "q", arguments=table(**arguments)), *declare(node, "dead"))
    client.send(numbered(count, routing_key="q"))
    async for _ in node.turns(client):
        pass
    assert queue.backing.ready_count == count
    return queue, dead


def died(dead, numbers, arguments):
    """Whether these messages died in order."""
    wanted = [b"%06d" % number for number in numbers] if arguments else []
    return bodies(dead) == wanted


async def test_a_policy_that_makes_many_messages_die(dying):
    async with Node() as node:
        (client,) = node.clients(1)
        queue, dead = await filled(node, client, 1000, **dying)
        policy = Policy("/", "short", "^q$", "queues", {"max-length": 10}, 0)
        put = PutPolicy(POLICY, policy)
        turns = node.turns(after=lambda: node.broker.services.declarations.submit(put).result())
        assert await most(turns) < CALLS_MAX
        assert queue.backing.ready_count == 10
        assert died(dead, range(990), dying)


async def test_many_messages_that_expire_together(dying):
    async with Node(VirtualClock()) as node:
        (client,) = node.clients(1)
        queue, dead = await filled(node, client, 1000, x_message_ttl=1000, **dying)
        turns = node.turns(after=lambda: node.broker.services.clock.advance(1))
        assert await most(turns) < CALLS_MAX
        assert queue.backing.ready_count == 0
        assert died(dead, range(1000), dying)


async def test_a_client_that_rejects_many_messages_at_once(dying):
    async with Node() as node:
        (client,) = node.clients(1)
        queue, dead = await filled(node, client, 1000, **dying)
        client.send_method(commands.Basic.Consume, queue="q", consumer_tag="c")
        async for _ in node.turns(client):
            pass
        client.send_method(commands.Basic.Nack, delivery_tag=0, multiple=True, requeue=False)
        assert await most(node.turns(client)) < CALLS_MAX
        assert (queue.backing.unacked_count, queue.backing.ready_count) == (0, 0)
        assert died(dead, range(1000), dying)


async def test_a_publisher_to_a_queue_that_is_full(dying):
    async with Node() as node:
        (client,) = node.clients(1)
        queue, dead = await filled(node, client, 10, x_max_length=10, **dying)
        client.send(numbered(1000, routing_key="q"))
        assert await most(node.turns(client)) < CALLS_MAX
        assert len(bodies(queue)) == 10
        assert dead.backing.ready_count == (1000 if dying else 0)


async def test_get_waits_until_what_has_expired_is_gone():
    async with Node(VirtualClock()) as node:
        (client,) = node.clients(1)
        arguments = {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": "dead"}
        await filled(node, client, 1000, x_message_ttl=1000, **arguments)
        node.broker.services.clock.advance(1)
        client.send_method(commands.Basic.Get, queue="q")
        async for _ in node.turns(client):
            pass
        assert client.socket.written.endswith(method_bytes(1, commands.Basic.GetEmpty))


# Many messages that are dropped at once


class Body(bytes):
    """A body that counts those that were freed."""

    freed = 0

    def __del__(self):
        Body.freed += 1


@pytest.mark.parametrize(
    "dropping",
    [
        (commands.Queue.Purge, commands.Queue.PurgeOk),
        (commands.Queue.Delete, commands.Queue.DeleteOk),
    ],
)
@pytest.mark.parametrize("is_requeued", [False, True])
@pytest.mark.parametrize("priorities", [0, 3])
async def test_the_messages_that_are_freed_in_a_turn(dropping, is_requeued, priorities):
    async with Node() as node:
        arguments = table(x_max_priority=priorities) if priorities else NO_TABLE
        (queue,) = declare(node, "q", arguments=arguments)
        queue.publish(
            publication_of([Message(ADDRESS, HEADER, Body()) for _ in range(3 * WORK_MAX)])
        )
        if is_requeued:
            queue.backing.requeue(queue.backing.fetch(3 * WORK_MAX, True))
        (client,) = node.clients(1)
        method, answer = dropping
        client.send_method(method, queue="q")
        Body.freed = 0
        freed = [0]
        async for _ in node.turns(client):
            freed.append(Body.freed)
        in_turns = [after - before for before, after in itertools.pairwise(freed)]
        assert max(in_turns) <= 2 * WORK_MAX
        assert freed[-1] == 3 * WORK_MAX
        assert client.socket.written.endswith(method_bytes(1, answer, message_count=3 * WORK_MAX))


# Many queues


async def test_a_client_that_ends_with_many_exclusive_queues():
    async with Node() as node:
        (client,) = node.clients(1)
        for number in range(600):
            client.send_method(
                commands.Queue.Declare, queue=str(number), exclusive=True, nowait=True
            )
        async for _ in node.turns(client):
            pass
        assert len(node.vhost.queues) == 600
        assert await most(node.turns(after=client.disconnect)) < CALLS_MAX
        assert not node.vhost.queues


async def test_a_client_that_ends_with_many_auto_delete_queues():
    async with Node() as node:
        (client,) = node.clients(1)
        for name in map(str, range(600)):
            client.send_method(commands.Queue.Declare, queue=name, auto_delete=True, nowait=True)
            client.send_method(commands.Basic.Consume, queue=name, consumer_tag=name, nowait=True)
        async for _ in node.turns(client):
            pass
        assert len(client.channel.consumers) == 600
        assert await most(node.turns(after=client.disconnect)) < CALLS_MAX
        assert not node.vhost.queues


async def test_a_vhost_with_many_queues_is_deleted():
    async with Node() as node:
        queues = declare(node, *map(str, range(2000)))
        submit = node.broker.services.declarations.submit
        turns = node.turns(after=lambda: submit(DeleteVhost("/")))
        assert await most(turns) < CALLS_MAX
        assert all(queue.is_deleted for queue in queues)


async def test_a_deleted_queue_is_freed_without_the_garbage_collector(dying):
    async with Node() as node:
        client, publisher = node.clients(2)
        arguments = table(x_message_ttl=1000, x_expires=60_000, **dying)
        client.send_method(commands.Basic.Qos, prefetch_count=1)
        gc.collect()
        gc.disable()
        try:
            for name in map(str, range(10)):
                declare(node, name, arguments=arguments, exchange="amq.fanout")
                client.send_method(commands.Basic.Consume, queue=name, consumer_tag=name)
            publisher.send(numbered(10, routing_key="", exchange="amq.fanout"))
            async for _ in node.turns(client, publisher):
                pass
            publisher.disconnect()
            for name in map(str, range(10)):
                client.send_method(commands.Queue.Delete, queue=name)
            client.send_method(commands.Basic.Recover, requeue=True)
            async for _ in node.turns(client):
                pass
            queues = [one for one in gc.get_objects() if type(one) is ClassicQueue]
            assert not {queue.name for queue in queues} & set(map(str, range(10)))
        finally:
            gc.enable()
