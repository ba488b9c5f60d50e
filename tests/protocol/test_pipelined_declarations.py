"""Durable declarations that a client sends without waiting for each answer share syncs.

Each answer is sent after its own sync, and the client gets everything in the order in which it
would if the channel had waited for each of them.
"""

import asyncio
import itertools
import struct

import pytest
from pamqp import commands

from leveret.broker.amqp.frames import METHOD
from leveret.broker.amqp.methods import decode_method
from leveret.broker.protocols.amqp091.connection.held import WRITTEN_WORK
from leveret.broker.protocols.amqp091.connection.incoming import METHOD_WORK
from leveret.broker.protocols.amqp091.connection.unsynced_replies import (
    GATHERED_BYTES_MAX,
    WAITING_MAX,
)
from leveret.broker.runtime.turns import WORK_MAX
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.storage.metadata.metadata import MetadataError
from tests.later_queue import DELAY_MS, LATER_QUEUES
from tests.protocol.raw_client import close_arguments, method_bytes, publish_bytes
from tests.protocol.socketless import HeldSync, Node

OPERATION_TIMEOUT_S = 15
NO_TABLE = {"ticket": 0, "arguments": {}}
DELETE_QUEUE = {"if_unused": False, "if_empty": False, "nowait": False, "ticket": 0}
CLOSE_CHANNEL = {"reply_code": 200, "reply_text": "", "class_id": 0, "method_id": 0}

_FRAME_START = struct.Struct(">BHI")


@pytest.fixture
async def node():
    clock = VirtualClock()
    async with Node(clock) as node:
        node.clock = clock
        node.sync = HeldSync(node)
        yield node
        node.sync.end()


@pytest.fixture
async def client(node):
    """A client with channels 1 and 2."""
    (client,) = node.clients(1)
    client.sent = 0
    client.send(method_bytes(2, commands.Channel.Open))
    await names(node, client)
    return client


async def methods(node, client, channel=None):
    """The methods that the client got since the last call, on all channels or on one."""
    async for _ in node.turns(client):
        pass
    data, found = bytes(client.socket.written[client.sent :]), []
    client.sent += len(data)
    while data:
        kind, number, size = _FRAME_START.unpack(data[: _FRAME_START.size])
        payload = data[_FRAME_START.size : _FRAME_START.size + size]
        data = data[_FRAME_START.size + size + 1 :]
        if kind == METHOD and channel in (None, number):
            found.append(decode_method(payload))
    return found


async def names(node, client, channel=None):
    """Their names."""
    return [method.name for method in await methods(node, client, channel)]


def declare(queue, channel=1, **flags):
    return method_bytes(
        channel, commands.Queue.Declare, queue=queue, **{"durable": True, **NO_TABLE, **flags}
    )


def delete(queue, channel=1):
    return method_bytes(channel, commands.Queue.Delete, queue=queue, **DELETE_QUEUE)


def bind(queue, channel=1, exchange="amq.direct"):
    return method_bytes(
        channel, commands.Queue.Bind, queue=queue, exchange=exchange, routing_key="key", **NO_TABLE
    )


def consume(queue, channel=1, **flags):
    return method_bytes(
        channel, commands.Basic.Consume, queue=queue, consumer_tag="tag", **NO_TABLE, **flags
    )


def get(queue, channel=1):
    return method_bytes(channel, commands.Basic.Get, queue=queue, no_ack=True)


def passive(queue, channel=1):
    return declare(queue, channel, passive=True)


async def test_declarations_are_applied_at_once_and_answered_after_their_syncs(node, client):
    client.send(declare("a") + declare("b") + declare("c"))
    assert not await names(node, client)
    assert {"a", "b", "c"} <= set(node.vhost.queues)
    node.sync.end(2)
    assert [method.queue for method in await methods(node, client)] == ["a", "b"]
    node.sync.end()
    assert [method.queue for method in await methods(node, client)] == ["c"]


EVERYTHING = [
    declare("q"),
    method_bytes(1, commands.Exchange.Declare, exchange="e", exchange_type="topic", durable=True,
                 **NO_TABLE),
    bind("q", exchange="e"),
    method_bytes(1, commands.Exchange.Bind, destination="e", source="amq.direct", routing_key="k",
                 nowait=False, **NO_TABLE),
    method_bytes(1, commands.Confirm.Select),
    publish_bytes(1, "q", b"first"),
    method_bytes(1, commands.Basic.Publish, exchange="e", routing_key="none", mandatory=True)
    + publish_bytes(1, "")[len(method_bytes(1, commands.Basic.Publish, exchange="",
                                             routing_key="")) :],
    publish_bytes(1, "q", b"second"),
    get("q"),
    get("q"),
    get("q"),
    passive("q"),
    consume("q"),
    publish_bytes(1, "key", b"third", "e"),
    method_bytes(1, commands.Basic.Qos, prefetch_size=0, prefetch_count=1),
    method_bytes(1, commands.Queue.Unbind, queue="q", exchange="e", routing_key="key", **NO_TABLE),
    method_bytes(1, commands.Exchange.Unbind, destination="e", source="amq.direct",
                 routing_key="k", nowait=False, **NO_TABLE),
    method_bytes(1, commands.Queue.Purge, queue="q", ticket=0, nowait=False),
    delete("q"),
    delete("q"),
    method_bytes(1, commands.Exchange.Delete, exchange="e", if_unused=False, nowait=False,
                 ticket=0),
    declare("q", auto_delete=True),
    declare("passing", durable=False),
    method_bytes(1, commands.Channel.Close, **CLOSE_CHANNEL),
    method_bytes(1, commands.Channel.Open),
    passive("q"),
]  # fmt: skip
"""What one channel may ask, where the answers of some wait for the disk."""


@pytest.mark.parametrize("is_pipelined", [True, False])
async def test_the_client_gets_the_same_as_without_waiting(node, is_pipelined):
    waiting, prompt = node.clients(2)
    for client in (waiting, prompt):
        client.sent = 0
        await names(node, client)
    for data in EVERYTHING:
        waiting.send(data)
        if not is_pipelined:
            await names_until_synced(node, waiting)
    seen = await names_until_synced(node, waiting) if is_pipelined else waiting.seen
    assert seen[-2:] == ["Channel.OpenOk", "Queue.DeclareOk"]
    node.vhost.delete_queue(node.vhost.queues["q"])
    node.sync.end()
    node.sync.is_synced = True
    for data in EVERYTHING:
        prompt.send(data)
        if not is_pipelined:
            prompt.seen = getattr(prompt, "seen", []) + await names(node, prompt)
    assert seen == (await names(node, prompt) if is_pipelined else prompt.seen)


async def names_until_synced(node, client):
    """The answers that the client gets while the waiting callbacks are called one by one."""
    client.seen = getattr(client, "seen", []) + await names(node, client)
    while node.sync.waiting:
        node.sync.end(1)
        client.seen += await names(node, client)
    return client.seen


async def test_nothing_overtakes_an_answer_that_waits(node, client):
    client.send(declare("old", durable=False) + consume("old"))
    client.send(method_bytes(1, commands.Confirm.Select))
    await names(node, client)
    client.send(declare("new") + publish_bytes(1, "old", b"to the consumer"))
    client.send(method_bytes(1, commands.Basic.Qos, prefetch_size=0, prefetch_count=1))
    assert not await names(node, client)
    client.send(publish_bytes(2, "old", b"from another channel"))
    assert not await names(node, client)
    node.sync.end()
    found = await names(node, client)
    assert found[0] == "Queue.DeclareOk"
    assert sorted(found[1:]) == ["Basic.Ack", "Basic.Deliver", "Basic.Deliver", "Basic.QosOk"]


async def test_other_channels_do_not_wait(node, client):
    client.send(declare("new") + consume("new", 2) + publish_bytes(1, "new", b"body"))
    assert await names(node, client, 1) == []
    client.send(passive("new", 2))
    assert await names(node, client, 2) == ["Queue.DeclareOk"]
    node.sync.end()
    assert await names(node, client, 1) == ["Queue.DeclareOk"]


async def test_a_later_method_sees_what_was_declared(node, client):
    client.send(declare("") + bind("") + publish_bytes(1, "key", b"body", "amq.direct") + get(""))
    client.send(delete("") + passive("amq.direct"))
    assert not await names(node, client)
    node.sync.end()
    assert await names(node, client) == [
        "Queue.DeclareOk", "Queue.BindOk", "Basic.GetOk", "Queue.DeleteOk", "Channel.Close"
    ]  # fmt: skip


async def test_a_channel_error_comes_after_the_answers_before_it(node, client):
    client.send(declare("new") + passive("missing") + declare("after"))
    assert not await names(node, client)
    node.sync.end()
    answer, closed = await methods(node, client)
    assert answer.queue == "new"
    assert (closed.reply_code, closed.class_id, closed.method_id) == (404, 50, 10)
    assert "after" not in node.vhost.queues


async def test_an_error_of_a_publish_comes_after_the_answers_before_it(node, client):
    client.send(declare("new") + publish_bytes(1, "key", b"body", "missing") + declare("after"))
    assert not await names(node, client)
    node.sync.end()
    assert await names(node, client) == ["Queue.DeclareOk", "Channel.Close"]
    assert "after" not in node.vhost.queues


async def test_a_connection_error_comes_after_the_answers_of_its_channel(node, client):
    client.send(declare("new") + consume("new") + consume("new") + declare("after"))
    assert not await names(node, client)
    node.sync.end()
    assert await names(node, client) == ["Queue.DeclareOk", "Basic.ConsumeOk", "Connection.Close"]
    assert "after" not in node.vhost.queues


async def test_an_error_of_another_channel_closes_the_connection_at_once(node, client):
    client.send(declare("new") + method_bytes(3, commands.Basic.Qos, prefetch_count=1))
    assert await names(node, client) == ["Connection.Close"]
    node.sync.end()
    assert not await names(node, client)


async def test_a_commit_that_fails_comes_after_the_answers_before_it(node, client):
    full = {"x-max-length": ("I", 0), "x-overflow": ("S", "reject-publish")}
    client.send(declare("full", durable=False, arguments=full))
    client.send(method_bytes(1, commands.Tx.Select) + publish_bytes(1, "full", b"refused"))
    await names(node, client)
    client.send(declare("new") + method_bytes(1, commands.Tx.Commit))
    assert not await names(node, client)
    node.sync.end()
    assert await names(node, client) == ["Queue.DeclareOk", "Channel.Close"]


async def test_a_declaration_that_cannot_be_written_fails_after_the_answers_before_it(
    node, client, caplog
):
    client.send(declare("new"))
    await names(node, client)
    node.broker.services.declaration_writer.is_disk_full = True
    client.send(declare("too much") + declare("after", durable=False))
    assert not await names(node, client)
    node.sync.end()
    answer, closed = await methods(node, client)
    assert answer.queue == "new"
    assert (closed.reply_code, closed.class_id, closed.method_id) == (506, 50, 10)
    assert set(node.vhost.queues) == {"new"}
    caplog.clear()


async def test_a_sync_that_fails_answers_nothing(node, client, caplog):
    client.send(declare("a") + declare("b") + method_bytes(1, commands.Confirm.Select))
    await names(node, client)
    node.sync.end(error=MetadataError("the disk is broken"))
    (closed,) = await methods(node, client)
    assert (closed.reply_code, closed.class_id, closed.method_id) == (541, 50, 10)
    caplog.clear()


async def test_an_answer_that_waits_too_long_closes_its_channel(node, client):
    client.send(declare("a") + bind("a"))
    await names(node, client)
    node.clock.advance(OPERATION_TIMEOUT_S)
    (closed,) = await methods(node, client)
    assert closed.reply_text == (
        "PRECONDITION_FAILED - operation queue.declare on queue 'a' in vhost '/' timed out after "
        "15000 ms"
    )
    node.sync.end()
    client.send(method_bytes(1, commands.Channel.CloseOk) + method_bytes(1, commands.Channel.Open))
    assert await names(node, client) == ["Channel.OpenOk"]


async def test_consumers_of_a_deleted_queue_are_told_after_its_answer(node, client):
    client.connection.client_properties = {
        "capabilities": ("F", {"consumer_cancel_notify": ("t", True)})
    }
    client.send(declare("q") + consume("q") + consume("q", 2))
    await names(node, client)
    node.sync.end()
    await names(node, client)
    client.send(delete("q") + declare("next"))
    assert not await names(node, client)
    node.sync.end()
    found = await names(node, client, 1)
    assert sorted(found) == ["Basic.Cancel", "Queue.DeclareOk", "Queue.DeleteOk"]
    assert found[0] == "Queue.DeleteOk"


async def test_the_end_of_a_connection_drops_the_answers_that_wait(node, client):
    client.send(declare("new") + consume("new") + publish_bytes(1, "new", b"body"))
    client.send(method_bytes(0, commands.Connection.Close, **close_arguments()))
    assert await names(node, client) == ["Connection.CloseOk"]
    node.sync.end()
    assert not await names(node, client)
    assert node.vhost.queues["new"].backing.ready_count == 1


async def test_a_lost_connection_gives_back_what_was_delivered_behind_an_answer(node, client):
    client.send(declare("new") + consume("new") + publish_bytes(1, "new", b"body"))
    await names(node, client)
    queue = node.vhost.queues["new"]
    assert queue.backing.ready_count == 0
    client.disconnect()
    await names(node, client)
    node.sync.end()
    assert queue.backing.ready_count == 1


async def test_a_method_that_waited_for_something_else_does_not_hold_its_channel_for_a_sync(
    node, client
):
    node.broker.services.queue_kinds.add(LATER_QUEUES)
    client.send(declare("a") + declare("b") + method_bytes(1, commands.Confirm.Select))
    for queue in ("a", "b"):
        assert not await names(node, client)
        assert queue in node.vhost.queues
        node.clock.advance(DELAY_MS / 1000)
    assert client.channel.confirms is not None
    assert not await names(node, client)
    node.sync.end()
    assert await names(node, client) == ["Queue.DeclareOk", "Queue.DeclareOk", "Confirm.SelectOk"]


async def test_a_channel_waits_when_very_many_of_its_answers_do(node, client):
    client.send(b"".join(declare(str(number)) for number in range(WAITING_MAX + 5)))
    assert not await names(node, client)
    assert len(node.vhost.queues) == WAITING_MAX + 1
    node.sync.end()
    assert len(await names(node, client)) >= WAITING_MAX
    node.sync.end()
    await names(node, client)
    assert len(node.vhost.queues) == WAITING_MAX + 5


async def test_declarations_are_written_a_turn_at_a_time(node, client):
    client.send(b"".join(declare(str(number)) for number in range(200)))
    declared = [0]
    async for _ in node.turns(client):
        declared.append(len(node.vhost.queues))
    assert declared[-1] == 200
    in_turns = [after - before for before, after in itertools.pairwise(declared)]
    # What is read in a turn of the loop, and a step of the input that waits.
    assert max(in_turns) <= 2 * (WORK_MAX // (METHOD_WORK + WRITTEN_WORK) + 1)


async def test_little_is_gathered_behind_an_answer(node, client):
    size = GATHERED_BYTES_MAX // 4
    client.send(declare("q", durable=False) + consume("q", no_ack=True) + declare("new"))
    await names(node, client)
    (publisher,) = node.clients(1)
    for _ in range(10):
        publisher.send(publish_bytes(1, "q", bytes(size)))
        async for _ in node.turns(publisher):
            pass
    queue = node.vhost.queues["q"]
    assert queue.backing.ready_count == 6
    node.sync.end()
    found = await names(node, client)
    assert found.count("Basic.Deliver") == 10
    assert queue.backing.ready_count == 0


async def test_a_client_is_not_read_while_much_of_what_it_asked_for_waits(node, client):
    client.send(declare("new"))
    await names(node, client)
    size = GATHERED_BYTES_MAX // 4
    returned = method_bytes(1, commands.Basic.Publish, exchange="", routing_key="none",
                            mandatory=True)  # fmt: skip
    plain = method_bytes(1, commands.Basic.Publish, exchange="", routing_key="none")
    content = publish_bytes(1, "none", bytes(size), frame_bytes_max=131_072)[len(plain) :]
    client.send((returned + content) * 10)
    for _ in range(20):
        client.be_read()
        await asyncio.sleep(0)
    assert not client.is_done
    assert client.connection.reading.is_held_back
    node.sync.end()
    assert not client.connection.reading.is_held_back
    assert (await names(node, client)).count("Basic.Return") == 10
