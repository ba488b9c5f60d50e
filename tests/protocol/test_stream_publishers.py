"""The stream protocol: publishers, confirms, errors, deduplication."""

import struct

import pytest

from leveret.broker.config import StreamSettings
from leveret.broker.protocols.stream import codes, publishers
from leveret.mgmt.metrics.families import STREAM_ERRORS
from leveret.storage.stream_log.chunks import check_chunk
from tests.protocol.stream_peer import (
    StreamNode,
    confirmed,
    frame,
    octets,
    published,
    refused,
    string,
)


@pytest.fixture
async def node():
    async with StreamNode(
        stream=StreamSettings(initial_credits=10, credits_for_unblocking=5)
    ) as node:
        yield node


@pytest.fixture
async def client(node):
    client = await node.client()
    assert await client.create("s") == codes.OK
    return client


async def stored(client):
    assert await client.subscribe(9, "s", credit=100) == codes.OK
    return (await client.delivered()).get(9, [])


async def test_what_is_published_in_a_turn_is_a_chunk_and_confirmed_at_once(node, client):
    await client.declare_publisher(1, "s")
    first, second = published(1, (1, "a"), (2, "b")), published(1, (3, "c"))
    client.send_bytes(frame(codes.PUBLISH, first) + frame(codes.PUBLISH, second))
    found = await client.frames()
    assert (len(found), confirmed(found)) == (1, {1: [1, 2, 3]})
    ((head, chunk),) = node.queue("s").chunks
    assert (head.message_count, head.offset) == (3, 0)
    assert check_chunk(chunk) == head


async def test_confirms_come_when_the_stream_gives_them(node, client):
    await client.declare_publisher(1, "s")
    stream = node.queue("s")
    stream.is_held = True
    client.publish(1, (1, "a"))
    assert await client.frames() == []
    stream.commit()
    assert confirmed(await client.frames()) == {1: [1]}


@pytest.mark.parametrize("is_freed_first", [True, False])
async def test_confirms_of_a_client_that_has_gone_while_it_had_to_wait(
    node, client, caplog, is_freed_first
):
    await client.declare_publisher(1, "s")
    other = await node.client()
    await other.declare_publisher(1, "s")
    node.queue("s").is_held = True
    client.publish(1, *[(number, "a") for number in range(20)])
    other.publish(1, (1, "b"))
    if is_freed_first:
        client.disconnect()
        del client.connection
        await other.frames()
        node.queue("s").commit()
    else:
        node.queue("s").commit()
        client.disconnect()
        del client.connection
    assert confirmed(await other.frames()) == {1: [1]}
    assert not [one for one in caplog.records if one.exc_info]


async def test_publishers_of_two_streams(client):
    await client.create("t")
    await client.declare_publisher(1, "s")
    await client.declare_publisher(2, "t")
    data = frame(codes.PUBLISH, published(2, (5, "x"))) + frame(
        codes.PUBLISH, published(1, (6, "y"))
    )
    client.send_bytes(data)
    assert confirmed(await client.frames()) == {1: [6], 2: [5]}


async def test_a_publisher_that_is_not_declared(client):
    client.publish(7, (1, "a"), (2, "b"))
    code = codes.PUBLISHER_DOES_NOT_EXIST
    assert refused(await client.frames()) == [(1, code), (2, code)]


async def test_refusals_are_counted(node, client):
    client.publish(7, (1, "a"), (2, "b"))
    await client.declare_publisher(1, "none")
    await client.subscribe(1, "none")
    client.credit(9, 1)
    assert node.broker.services.counts.stream_errors == {
        "publisher_does_not_exist": 1, "stream_does_not_exist": 2,
        "subscription_id_does_not_exist": 1,
    }  # fmt: skip
    assert set(STREAM_ERRORS) == set(codes.ERRORS.values())


async def test_declaring(client):
    assert await client.declare_publisher(1, "s", "ref") == codes.OK
    assert await client.declare_publisher(1, "s") == codes.PRECONDITION_FAILED
    assert await client.declare_publisher(2, "s", "ref") == codes.PRECONDITION_FAILED
    assert await client.declare_publisher(2, "none") == codes.STREAM_DOES_NOT_EXIST
    assert await client.declare_publisher(2, "s", "r" * 256) == codes.PRECONDITION_FAILED
    assert await client.code(codes.DELETE_PUBLISHER, b"\1") == codes.OK
    assert await client.code(codes.DELETE_PUBLISHER, b"\1") == codes.PUBLISHER_DOES_NOT_EXIST
    assert await client.declare_publisher(2, "s", "ref") == codes.OK


async def test_duplicates_of_a_named_publisher_are_confirmed_and_not_stored(client):
    await client.declare_publisher(1, "s", "ref")
    client.publish(1, (1, "a"), (2, "b"), (10, "c"))
    assert confirmed(await client.frames()) == {1: [1, 2, 10]}
    client.publish(1, (2, "b again"), (11, "d"), (11, "d again"), (5, "between"), (12, "e"))
    assert sorted(confirmed(await client.frames())[1]) == [2, 5, 11, 11, 12]
    answer = await client.request(codes.QUERY_PUBLISHER_SEQUENCE, string("ref") + string("s"))
    assert answer.fields == struct.pack(">Q", 12)
    assert await stored(client) == ["a", "b", "c", "d", "e"]


async def test_a_publisher_without_a_name_is_not_deduplicated(client):
    await client.declare_publisher(1, "s")
    client.publish(1, (5, "a"), (5, "b"), (4, "c"))
    assert confirmed(await client.frames()) == {1: [5, 5, 4]}
    assert await stored(client) == ["a", "b", "c"]


async def test_batches_are_stored_as_they_are(node, client):
    await client.declare_publisher(1, "s")
    batch = struct.pack(">BHII", 0xA0, 3, 15, 7) + b"unknown"
    body = struct.pack(">BIQ", 1, 2, 1) + batch + struct.pack(">Q", 2) + octets(b"x")
    client.send(codes.PUBLISH, body)
    assert confirmed(await client.frames()) == {1: [1, 2]}
    ((head, chunk),) = node.queue("s").chunks
    assert (head.entry_count, head.message_count) == (2, 4)
    assert batch + octets(b"x") in chunk


async def test_filter_values_are_in_the_filter_of_the_chunk(node, client):
    await client.declare_publisher(1, "s")
    body = struct.pack(">BI", 1, 2)
    for number, value in ((1, string("red")), (2, b"\xff\xff")):
        body += struct.pack(">Q", number) + value + octets(b"m")
    client.send(codes.PUBLISH, body, version=2)
    assert confirmed(await client.frames()) == {1: [1, 2]}
    ((head, _),) = node.queue("s").chunks
    assert head.filter_bytes > 0


async def test_input_waits_while_too_much_is_not_confirmed(node, client):
    await client.declare_publisher(1, "s")
    stream = node.queue("s")
    stream.is_held = True
    for number in range(12):
        client.publish(1, (number, "m"))
    assert not client.socket.is_read
    assert client.connection.incoming.publishers.unconfirmed == 11
    stream.commit()
    stream.is_held = False
    assert confirmed(await client.frames()) == {1: list(range(12))}
    assert client.socket.is_read


async def test_publishes_without_entries_hold_nothing_up(client, monkeypatch):
    monkeypatch.setattr(publishers, "UNCONFIRMED_BYTES_MAX", 100)
    await client.declare_publisher(1, "s")
    for _ in range(20):
        client.publish(1)
    assert client.socket.is_read
    client.publish(1, (1, "a"))
    assert confirmed(await client.frames()) == {1: [1]}


async def test_a_deleted_stream_has_no_publishers(node, client):
    other = await node.client()
    await client.declare_publisher(1, "s")
    node.queue("s").is_held = True
    client.publish(1, (1, "a"))
    assert await other.code(codes.DELETE, string("s")) == codes.OK
    found = await client.frames()
    told = [one for one in found if one.key == codes.METADATA_UPDATE]
    assert [one.body for one in told] == [
        struct.pack(">H", codes.STREAM_NOT_AVAILABLE) + string("s")
    ]
    client.publish(1, (2, "b"))
    assert refused(await client.frames()) == [(2, codes.PUBLISHER_DOES_NOT_EXIST)]
    assert client.connection.incoming.publishers.unconfirmed == 0


async def test_a_closed_connection_is_no_user_of_its_stream(node, client):
    await client.declare_publisher(1, "s")
    stream = node.queue("s")
    assert len(stream.users) == 1
    client.disconnect()
    assert stream.users == []
    stream.commit()
