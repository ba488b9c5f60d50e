"""STOMP: destinations, acknowledgements, transactions, receipts and errors."""

import gc
import weakref

import pytest

from leveret.broker.protocols.stomp.queue_headers import durable_queue_name
from tests.protocol.stomp_peer import StompNode, bodies, frame


@pytest.fixture
async def node():
    async with StompNode() as node:
        yield node


@pytest.fixture
async def client(node):
    return await node.client()


async def test_many_messages_of_one_read(node, client):
    await client.subscribe("/queue/q")
    data = b"".join(frame("SEND", str(number), destination="/queue/q") for number in range(500))
    client.send_bytes(data)
    assert bodies(await client.frames()) == [str(number) for number in range(500)]
    session = client.connection.session
    assert session.counts.published == 500


async def test_messages_to_alternating_destinations(node, client):
    for name in ("a", "b"):
        await client.subscribe(f"/queue/{name}", name)
    data = b"".join(
        frame("SEND", str(number), destination=f"/queue/{'ab'[number % 2]}") for number in range(20)
    )
    client.send_bytes(data)
    found = await client.frames()
    assert [one.body for one in found if one.headers["subscription"] == "a"] == [
        str(number) for number in range(0, 20, 2)
    ]


async def test_receipts_have_the_order_of_their_messages(client):
    frames = [
        frame("SEND", "m", destination="/queue/q", receipt=number)
        if number % 3
        else frame("SEND", "m", destination="/queue/q")
        for number in range(12)
    ]
    client.send_bytes(b"".join(frames))
    receipts = [one.headers["receipt-id"] for one in await client.frames()]
    assert receipts == [str(number) for number in range(12) if number % 3]


async def test_messages_that_differ_in_their_receipts(node, client):
    first = frame("SEND", "first", destination="/queue/q", persistent="true", receipt="r")
    client.send_bytes(first)
    await client.frames()
    client.send_bytes(b"".join(
        frame("SEND", "m" * number, destination="/queue/q", persistent="true", receipt=number)
        for number in range(1, 6)
    ))  # fmt: skip
    client.send_bytes(frame("SEND", "other", destination="/queue/q", receipt=6))
    receipts = [one.headers["receipt-id"] for one in await client.frames()]
    assert receipts == ["1", "2", "3", "4", "5", "6"]
    found = await client.subscribe("/queue/q")
    assert bodies(found) == ["first", "m", "mm", "mmm", "mmmm", "mmmmm", "other"]
    assert [one.headers["receipt"] for one in found] == ["r", "1", "2", "3", "4", "5", "6"]
    assert ["persistent" in one.headers for one in found] == [True] * 6 + [False]


async def test_a_message_that_a_queue_refuses(node, client):
    await client.subscribe("/queue/full", x_max_length=0, x_overflow="reject-publish", ack="client",
                           prefetch_count=1)  # fmt: skip
    for body in "ab":
        await client.call("SEND", body, destination="/queue/full")
    (answer,) = await client.call("SEND", "c", destination="/queue/full", receipt="r")
    assert answer.command == "ERROR"
    assert answer.headers["receipt-id"] == "r"
    assert not client.is_closed


async def test_headers_with_a_meaning_and_others(client):
    await client.subscribe("/queue/q")
    sent = {
        "content_type": "text/plain", "priority": "5", "timestamp": "1700000000", "persistent":
        "true", "x_own": "a\\cb", "correlation_id": "c", "reply_to": "/queue/x", "type": "kind",
        "expiration": "60000", "amqp_message_id": "id", "app_id": "app",
        "content_encoding": "utf-8",
    }  # fmt: skip
    (got,) = await client.call("SEND", "m", destination="/queue/q", **sent)
    assert (
        got.headers.items()
        >= {name.replace("_", "-"): value for name, value in sent.items()}.items()
    )


@pytest.mark.parametrize("name", ["priority", "timestamp"])
async def test_a_header_that_is_no_number(client, name):
    (answer,) = await client.call("SEND", "m", destination="/queue/q", **{name: "x"})
    assert answer.headers["message"] == "Processing error"
    assert not client.is_closed


async def test_client_mode_is_cumulative(node, client):
    await client.subscribe("/queue/q", ack="client")
    for body in "abc":
        client.send("SEND", body, destination="/queue/q")
    got = await client.frames()
    await client.call("ACK", id=got[1].headers["ack"])
    client.disconnect()
    again = await node.client()
    assert bodies(await again.subscribe("/queue/q")) == ["c"]


async def test_individual_mode_and_nack_without_requeue(node, client):
    await client.subscribe("/queue/q", ack="client-individual", prefetch_count=5)
    for body in "abc":
        client.send("SEND", body, destination="/queue/q")
    got = await client.frames()
    await client.call("ACK", id=got[1].headers["ack"])
    await client.call("NACK", id=got[2].headers["ack"], requeue="false")
    client.disconnect()
    again = await node.client()
    (left,) = await again.subscribe("/queue/q")
    assert (left.body, left.headers["redelivered"]) == ("a", "true")


async def test_a_second_ack_ends_the_connection_after_its_receipt(client):
    await client.subscribe("/queue/q", ack="client")
    (got,) = await client.call("SEND", "m", destination="/queue/q")
    await client.call("ACK", id=got.headers["ack"])
    receipt, error = await client.call("ACK", id=got.headers["ack"], receipt="r")
    assert receipt.command == "RECEIPT"
    assert error.body == "PRECONDITION_FAILED - unknown delivery tag 1"
    assert client.is_closed


async def test_an_ack_of_a_message_that_outlived_its_subscription(node, client):
    await client.subscribe("/queue/q", ack="client")
    (got,) = await client.call("SEND", "m", destination="/queue/q")
    await client.call("UNSUBSCRIBE", id="0")
    assert (await client.call("ACK", id=got.headers["ack"], receipt="r"))[0].command == "RECEIPT"
    assert not client.connection.session.unacked


async def test_a_transaction_has_no_effect_before_its_commit(client):
    await client.subscribe("/queue/q")
    client.send("BEGIN", transaction="t")
    client.send("SEND", "a", destination="/queue/q", transaction="t", receipt="a")
    client.send("SEND", "b", destination="/queue/q", transaction="t")
    assert await client.frames() == []
    got = await client.call("COMMIT", transaction="t", receipt="c")
    assert bodies(got) == ["a", "b"]
    assert {one.headers["receipt-id"] for one in got if one.command == "RECEIPT"} == {"a", "c"}


async def test_two_transactions_and_an_aborted_one(client):
    await client.subscribe("/queue/q")
    for name in "abc":
        client.send("BEGIN", transaction=name)
        client.send("SEND", name, destination="/queue/q", transaction=name)
    client.send("ABORT", transaction="b")
    client.send("COMMIT", transaction="c")
    client.send("COMMIT", transaction="a")
    assert bodies(await client.frames()) == ["c", "a"]


async def test_a_frame_that_fails_in_a_commit_does_not_stop_the_others(client):
    await client.subscribe("/queue/q")
    client.send("BEGIN", transaction="t")
    client.send("SEND", "a", destination="/nowhere/x", transaction="t")
    client.send("SEND", "b", destination="/queue/q", transaction="t")
    got = await client.call("COMMIT", transaction="t")
    assert [one.command for one in got] == ["ERROR", "MESSAGE"]


async def test_acks_in_a_transaction(client):
    await client.subscribe("/queue/q", ack="client-individual", prefetch_count=1)
    for body in "ab":
        client.send("SEND", body, destination="/queue/q")
    (got,) = await client.frames()
    client.send("BEGIN", transaction="t")
    client.send("ACK", id=got.headers["ack"], transaction="t")
    assert await client.frames() == []
    assert bodies(await client.call("COMMIT", transaction="t")) == ["b"]


async def test_a_durable_subscription_keeps_its_queue(node, client):
    durable = {"durable": "true", "auto_delete": "false"}
    await client.subscribe("/topic/a.b", "s", **durable)
    name = durable_queue_name("a.b", "s")
    assert node.queue(name).durable
    client.disconnect()
    other = await node.client()
    await other.call("SEND", "meanwhile", destination="/topic/a.b")
    assert bodies(await other.subscribe("/topic/a.b", "s", **durable)) == ["meanwhile"]
    await other.call("UNSUBSCRIBE", id="s", durable="true")
    assert node.queues() == []


async def test_a_subscription_that_fails_leaves_no_queue(node, client):
    (answer,) = await client.subscribe("/topic/a", x_stream_offset="first", x_priority="x")
    assert answer.command == "ERROR"
    (answer,) = await client.subscribe("/exchange/missing/key")
    assert answer.body == "NOT_FOUND - no exchange 'missing' in vhost '/'"
    assert node.queues() == []


async def test_the_temporary_queue_of_a_reply(node, client):
    service = await node.client()
    await service.subscribe("/queue/service")
    for _ in range(2):
        client.send("SEND", "question", destination="/queue/service", reply_to="/temp-queue/a")
    await client.frames()
    question, second = await service.frames()
    assert question.headers["reply-to"].startswith("/reply-queue/amq.gen-")
    assert second.headers["reply-to"] == question.headers["reply-to"]
    service.send("SEND", "answer", destination=question.headers["reply-to"])
    await service.frames()
    (answer,) = await client.frames()
    assert (answer.body, answer.headers["subscription"]) == ("answer", "/temp-queue/a")


async def test_direct_replies(node, client):
    await client.subscribe("/amq/queue/amq.rabbitmq.reply-to", "r")
    service = await node.client()
    await service.subscribe("/queue/service")
    client.send("SEND", "q", destination="/queue/service", reply_to="amq.rabbitmq.reply-to")
    await client.frames()
    (question,) = await service.frames()
    await service.call("SEND", "a", destination=question.headers["reply-to"])
    (answer,) = await client.frames()
    assert (answer.body, answer.headers["subscription"]) == ("a", "r")


async def test_a_queue_that_is_deleted_under_a_subscription(node, client):
    await client.subscribe("/queue/q")
    vhost = node.broker.services.vhosts["/"]
    vhost.delete_queue(node.queue("q"), client.connection.requester)
    (error,) = await client.frames()
    assert error.headers["message"] == "Server cancelled subscription"
    assert error.headers["subscription"] == "0"
    assert not client.is_closed


async def test_a_client_that_reads_slowly_gets_nothing_more(node, client):
    await client.subscribe("/queue/q")
    client.connection.pause_writing()
    publisher = await node.client()
    for body in "ab":
        await publisher.call("SEND", body, destination="/queue/q")
    assert await client.frames() == []
    client.connection.resume_writing()
    assert bodies(await client.frames()) == ["a", "b"]


async def test_a_closed_connection_is_freed_at_once(node, client):
    await client.subscribe("/queue/q", ack="client")
    await client.call("SEND", "m", destination="/queue/q", receipt="r")
    gc.collect()
    gc.disable()
    try:
        seen = weakref.ref(client.connection)
        client.disconnect()
        await client.frames()
        del client.connection
        assert seen() is None
    finally:
        gc.enable()


async def test_version_1_0_trims_values_and_needs_no_id(node):
    client = await node.client("1.0")
    client.send_bytes(b"SUBSCRIBE\ndestination: /queue/q\n\n\0")
    client.send_bytes(b"SEND\ndestination: /queue/q\n\nm\0")
    (got,) = await client.frames()
    assert got.headers["message-id"].startswith("Q_/queue/q@@")
    assert "subscription" not in got.headers
