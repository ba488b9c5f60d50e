"""Clients of STOMP that want the memory of a node: what they may have it keep is limited."""

import logging
import tracemalloc

import pytest

from leveret.broker.protocols.stomp import transactions
from leveret.broker.protocols.stomp.frames import HEAD_BYTES_MAX, HEADERS_MAX
from leveret.broker.protocols.stomp.transactions import TRANSACTIONS_MAX
from tests.patience import until
from tests.protocol.stomp_peer import StompNode

KEPT_BYTES_MAX = 1024 * 1024
MEMORY_BYTES_MAX = 2 * KEPT_BYTES_MAX
SUBSCRIPTIONS = 10_000
A_READ = 1_000


@pytest.fixture
async def node():
    async with StompNode() as node:
        yield node


@pytest.fixture
async def client(node):
    return await node.client()


async def test_a_head_without_end(client):
    client.send_bytes(b"SEND\na:")
    sent = 0
    while not client.is_closed:
        assert sent <= HEAD_BYTES_MAX + A_READ
        client.send_bytes(A_READ * b"x")
        sent += A_READ


async def test_headers_without_end(client):
    client.send_bytes(b"SEND\n" + (HEADERS_MAX + 1) * b"a:1\n")
    client.send_bytes(b"\n\0")
    assert client.is_closed


async def test_transactions_without_end(client):
    for number in range(TRANSACTIONS_MAX):
        client.send("BEGIN", transaction=number)
    assert await client.frames() == []
    (error,) = await client.call("BEGIN", transaction="one more")
    assert error.headers["message"] == "Transaction limit exceeded"


@pytest.mark.parametrize("part", ["body", "headers"])
async def test_a_transaction_without_end(client, part, monkeypatch, caplog):
    # Errors that are kept refer to the frame that was refused.
    caplog.set_level(logging.CRITICAL, logger="leveret")
    monkeypatch.setattr(transactions, "KEPT_BYTES_MAX", KEPT_BYTES_MAX)
    client.send("BEGIN", transaction="t")
    headers = {f"h{number}": 50 * "x" for number in range(900 if part == "headers" else 1)}
    body = 50_000 * "x" if part == "body" else ""
    tracemalloc.start()
    try:
        for number in range(2 * KEPT_BYTES_MAX // 50_000):
            own = {**headers, "number": number}
            client.send("SEND", body, destination="/queue/q", transaction="t", **own)
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept < MEMORY_BYTES_MAX
    errors = {one.headers["message"] for one in await client.frames()}
    assert errors == {"Transaction too large"}


async def test_ten_thousand_subscriptions_of_a_client(node, client):
    for number in range(SUBSCRIPTIONS):
        client.send("SUBSCRIBE", destination="/queue/q", id=number)
    session = client.connection.session
    await until(lambda: len(session.consumers) == SUBSCRIPTIONS)
    (message,) = await client.call("SEND", "m", destination="/queue/q")
    assert message.body == "m"
    client.disconnect()
    await client.frames()
    assert not node.broker.connections
