"""The stream protocol: subscriptions, credit, offsets, single active consumers."""

import struct

import pytest

from leveret.broker.net.socket_output import OUTPUT_BYTES_MAX
from leveret.broker.protocols.stream import codes
from leveret.broker.protocols.stream.subscriptions import (
    BYTES_AT_ONCE,
    CREDIT_MAX,
    UPDATE_TIMEOUT_MS,
)
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.broker.vhost.binding import Binding
from tests.protocol.stream_peer import StreamNode, string

FIRST, LAST, NEXT = b"\0\1", b"\0\2", b"\0\3"


def at_offset(number):
    return struct.pack(">HQ", 4, number)


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
async def node(clock):
    async with StreamNode(clock) as node:
        yield node


async def filled(node, *chunks):
    """A client with a stream of these chunks: lists of messages."""
    client = await node.client()
    assert await client.create("s") == codes.OK
    await client.declare_publisher(200, "s")
    for chunk in chunks:
        client.publish(200, *enumerate(chunk))
        await client.frames()
    return client


@pytest.mark.parametrize(
    ("offset", "messages"),
    [
        (FIRST, ["a", "b", "c", "d"]),
        (LAST, ["d"]),
        (NEXT, []),
        (at_offset(1), ["a", "b", "c", "d"]),
        (at_offset(2), ["c", "d"]),
        (at_offset(100), []),
        (struct.pack(">Hq", 5, -1), ["a", "b", "c", "d"]),
        (struct.pack(">Hq", 5, 2**62), []),
    ],
)
async def test_where_a_subscription_begins(node, offset, messages):
    client = await filled(node, ["a", "b"], ["c"], ["d"])
    assert await client.subscribe(1, "s", offset) == codes.OK
    assert (await client.delivered()).get(1, []) == messages


async def test_new_chunks_come_at_once(node):
    client = await filled(node)
    await client.subscribe(1, "s", NEXT)
    client.publish(200, (1, "a"))
    assert await client.delivered() == {1: ["a"]}
    client.publish(200, (2, "b"), (3, "c"))
    assert await client.delivered() == {1: ["b", "c"]}


async def test_a_client_that_has_gone_when_it_gets_a_chunk(node, caplog):
    client = await filled(node, ["a"])
    await client.subscribe(1, "s", credit=0)
    client.credit(1, 1)
    client.disconnect()
    del client.connection
    await client.frames()
    assert not [one for one in caplog.records if one.exc_info]


async def test_a_credit_is_a_chunk(node):
    client = await filled(node, *[[f"m{number}"] for number in range(6)])
    await client.subscribe(1, "s", credit=0)
    assert await client.delivered() == {}
    for credit, messages in ((1, ["m0"]), (2, ["m1", "m2"]), (10, ["m3", "m4", "m5"])):
        client.credit(1, credit)
        assert await client.delivered() == {1: messages}
    client.publish(200, (9, "m6"))
    assert await client.delivered() == {1: ["m6"]}
    client.credit(9, 1)
    (error,) = await client.frames()
    assert error.body == struct.pack(">HB", codes.SUBSCRIPTION_ID_DOES_NOT_EXIST, 9)


async def test_credit_has_a_limit_and_no_debt(node):
    client = await filled(node, ["a"])
    await client.subscribe(1, "s", credit=0)
    client.credit(1, -5)
    client.credit(1, 32_767)
    assert await client.delivered() == {1: ["a"]}
    one = client.connection.incoming.subscriptions.by_number[1]
    one.credit = CREDIT_MAX - 1
    client.credit(1, 32_767)
    assert one.credit == CREDIT_MAX


async def test_refused_subscriptions(node):
    client = await filled(node, ["a"])
    assert await client.subscribe(1, "s") == codes.OK
    assert await client.subscribe(1, "s") == codes.SUBSCRIPTION_ID_ALREADY_EXISTS
    assert await client.subscribe(2, "none") == codes.STREAM_DOES_NOT_EXIST
    assert await client.subscribe(2, "s", name="n" * 256) == codes.PRECONDITION_FAILED
    assert (
        await client.subscribe(2, "s", single_active_consumer="true") == codes.PRECONDITION_FAILED
    )
    assert await client.code(codes.UNSUBSCRIBE, b"\1") == codes.OK
    assert await client.code(codes.UNSUBSCRIBE, b"\1") == codes.SUBSCRIPTION_ID_DOES_NOT_EXIST


async def test_version_2_of_deliveries_tells_what_is_committed(node):
    client = await filled(node, ["a", "b"], ["c"])
    await client.request(
        codes.EXCHANGE_COMMAND_VERSIONS, struct.pack(">iHHH", 1, codes.DELIVER, 1, 2)
    )
    await client.subscribe(1, "s")
    deliveries = [one for one in await client.frames() if one.key == codes.DELIVER]
    assert [one.version for one in deliveries] == [2, 2]
    assert [one.body[1:9] for one in deliveries] == [struct.pack(">Q", 2)] * 2


async def test_filters(node):
    client = await filled(node)
    for number, value in enumerate(("red", "blue")):
        body = struct.pack(">BIQ", 200, 1, number) + string(value)
        client.send(codes.PUBLISH, body + b"\0\0\0\4" + value.ljust(4).encode(), version=2)
        await client.frames()
    client.publish(200, (9, "none"))
    await client.subscribe(1, "s", **{"filter.1": "red"})
    await client.subscribe(2, "s", **{"filter.1": "red", "match_unfiltered": "true"})
    assert await client.delivered() == {1: ["red "], 2: ["red ", "none"]}


async def test_a_client_that_reads_nothing_holds_one_turn_of_chunks(node):
    large = "x" * BYTES_AT_ONCE
    client = await filled(node, *[[large] for _ in range(3 * OUTPUT_BYTES_MAX // BYTES_AT_ONCE)])
    client.connection.pause_writing()
    for number in range(1, 5):
        await client.subscribe(number, "s", credit=10_000)
    await client.frames()
    output = client.connection.output
    assert output.bytes_out < OUTPUT_BYTES_MAX
    client.connection.resume_writing()
    found = await client.delivered()
    assert {number: len(messages) for number, messages in found.items()} == dict.fromkeys(
        range(1, 5), 3 * OUTPUT_BYTES_MAX // BYTES_AT_ONCE
    )


async def test_subscriptions_of_one_connection_take_turns(node):
    client = await filled(node, *[["x" * BYTES_AT_ONCE] for _ in range(4)])
    client.connection.pause_writing()
    await client.subscribe(1, "s")
    await client.subscribe(2, "s")
    client.connection.resume_writing()
    numbers = [one.body[0] for one in await client.frames() if one.key == codes.DELIVER]
    assert numbers == [1, 2] * 4


async def test_many_subscriptions(node):
    client = await filled(node, ["a"])
    others = [await node.client() for _ in range(40)]
    for other in others:
        for number in range(250):
            body = bytes([number]) + string("s") + NEXT + b"\0\1"
            other.send(codes.SUBSCRIBE, struct.pack(">I", number) + body)
    assert len(node.queue("s").readers) == 10_000
    client.publish(200, (1, "b"))
    for other in others:
        found = await other.delivered()
        assert len(found) == 250
        other.disconnect()
    assert node.queue("s").readers == []


async def test_a_deleted_stream_has_no_subscriptions(node):
    client, reader = await filled(node, ["a"]), await node.client()
    await reader.subscribe(1, "s")
    await reader.subscribe(2, "s")
    await reader.frames()
    assert await client.code(codes.DELETE, string("s")) == codes.OK
    (told,) = await reader.frames()
    assert told.body == struct.pack(">H", codes.STREAM_NOT_AVAILABLE) + string("s")
    reader.credit(1, 1)
    (error,) = await reader.frames()
    assert error.body == struct.pack(">HB", codes.SUBSCRIPTION_ID_DOES_NOT_EXIST, 1)


async def test_a_reader_that_fails_ends_all_use_of_the_stream(node, caplog):
    client, reader = await filled(node, ["a"]), await node.client()
    await reader.subscribe(1, "s")
    await reader.frames()
    (one,) = node.queue("s").readers
    one._user.failed(ValueError("a chunk is damaged"))
    (told,) = await reader.frames()
    assert told.key == codes.METADATA_UPDATE
    assert "reading stream 's' has failed: a chunk is damaged" in caplog.text
    assert node.queue("s").readers == []
    assert client.connection.is_open


# Offsets


async def query(client, name):
    answer = await client.request(codes.QUERY_OFFSET, string(name) + string("s"))
    return answer.code, int.from_bytes(answer.fields, "big")


async def test_stored_offsets(node):
    client = await filled(node, ["a"])
    assert await query(client, "ref") == (codes.NO_OFFSET, 0)
    for offset in (2, 1, 10**6):
        body = string("ref") + string("s") + struct.pack(">Q", offset)
        client.send(codes.STORE_OFFSET, body)
        assert await query(client, "ref") == (codes.OK, offset)
    client.send(codes.STORE_OFFSET, string("ref") + string("none") + struct.pack(">Q", 1))
    assert await client.frames() == []


async def test_offsets_of_a_stream(node):
    client = await filled(node, ["a", "b"], ["c"])
    answer = await client.request(codes.STREAM_STATS, string("s"))
    assert struct.pack(">q", 2) in answer.fields
    answer = await client.request(codes.RESOLVE_OFFSET, string("s") + LAST + struct.pack(">i", 0))
    assert answer.fields == struct.pack(">HQ", 4, 2)
    answer = await client.request(codes.STREAM_STATS, string("none"))
    assert (answer.code, answer.fields) == (codes.STREAM_DOES_NOT_EXIST, bytes(4))


# Single active consumers


def updates(frames):
    """Correlation, subscription, and whether it becomes active."""
    return [struct.unpack(">IBB", one.body) for one in frames if one.key == codes.CONSUMER_UPDATE]


def answer_update(client, correlation, offset, code=codes.OK):
    body = struct.pack(">IH", correlation, code) + offset
    client.send(codes.CONSUMER_UPDATE | codes.RESPONSE, body)


async def test_the_next_consumer_begins_when_the_active_one_ends(node):
    await filled(node, ["a"], ["b"], ["c"])
    one, two = await node.client(), await node.client()
    one.send(codes.SUBSCRIBE, subscribing(1))
    found = await one.frames()
    assert updates(found) == [(1, 1, 1)]
    answer_update(one, 1, at_offset(1))
    assert await one.delivered() == {1: ["b", "c"]}
    two.send(codes.SUBSCRIBE, subscribing(1))
    assert updates(await two.frames()) == []
    two.credit(1, 1)
    (error,) = await two.frames()
    assert error.body == struct.pack(">HB", codes.PRECONDITION_FAILED, 1)
    one.disconnect()
    assert updates(await two.frames()) == [(1, 1, 1)]
    answer_update(two, 1, LAST)
    assert await two.delivered() == {1: ["c"]}


def subscribing(number, **more):
    properties = {"single-active-consumer": "true", "name": "app", **more}
    table = b"".join(string(key) + string(value) for key, value in properties.items())
    body = bytes([number]) + string("s") + FIRST + b"\0\x0a"
    return struct.pack(">I", 77) + body + struct.pack(">i", len(properties)) + table


async def test_a_consumer_that_has_to_stop_gets_no_more_and_answers(node):
    client = await filled(node, ["a"])
    await client.create("t")
    exchange_with_partitions(node, "sales", ["t", "s"])
    one, two = await node.client(), await node.client()
    of_super_stream = {"super-stream": "sales"}
    one.send(codes.SUBSCRIBE, subscribing(1, **of_super_stream))
    assert updates(await one.frames()) == [(1, 1, 1)]
    answer_update(one, 1, FIRST)
    assert await one.delivered() == {1: ["a"]}
    two.send(codes.SUBSCRIBE, subscribing(1, **of_super_stream))
    assert updates(await two.frames()) == []
    assert updates(await one.frames()) == [(2, 1, 0)]
    client.publish(200, (5, "b"))
    assert await one.delivered() == {}
    answer_update(one, 2, b"\0\0")
    assert updates(await two.frames()) == [(1, 1, 1)]
    answer_update(two, 1, b"\0\0")
    assert await two.delivered() == {1: ["a", "b"]}


async def test_a_client_that_does_not_answer_is_closed(node, clock):
    await filled(node, ["a"])
    one, two = await node.client(), await node.client()
    one.send(codes.SUBSCRIBE, subscribing(1))
    two.send(codes.SUBSCRIBE, subscribing(1))
    assert updates(await one.frames()) == [(1, 1, 1)]
    clock.advance(UPDATE_TIMEOUT_MS / 1000)
    assert [one.key for one in await one.frames()] == [codes.CLOSE]
    assert updates(await two.frames()) == [(1, 1, 1)]


def exchange_with_partitions(node, name, streams):
    vhost = node.broker.services.vhosts["/"]
    exchange = vhost.add_exchange(name, "direct", True, False, False, {})
    for order, stream in enumerate(streams):
        arguments = {"x-stream-partition-order": ("I", order)}
        Binding(exchange, vhost.queues[stream], str(order), arguments).attach()
