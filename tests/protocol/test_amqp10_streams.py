"""AMQP 1.0 and streams: messages are stored and delivered as their publishers have encoded them."""

import pytest

from leveret.broker.amqp10.sections import encode_message, read_message
from leveret.broker.amqp10.values import Value, encode, encode_described
from leveret.broker.config.interceptor_settings import InterceptorSettings
from leveret.broker.protocols.amqp10.performatives import RECEIVER, Attach, Source, Target, Transfer
from leveret.broker.queues.contract.stream import StreamEntries
from tests.protocol.amqp10_peer import Amqp10Node, encoded, text

FIRST = Value("map", [
    (Value("symbol", "o"),
     Value("described", (Value("symbol", "rabbitmq:stream-offset-spec"), text("first")))),
])  # fmt: skip
BODIES = {
    "data": encode_described(0x75, encode(Value("binary", b"\0\1"))),
    "several data": encode_described(0x75, encode(Value("binary", b"a")))
    + encode_described(0x75, encode(Value("binary", b"b"))),
    "value": encode_described(0x77, encode(Value("map", [(text("k"), Value("ushort", 5))]))),
    "sequence": encode_described(0x76, encode(Value("list", [Value("char", 65), text("x")]))),
    "footer": encode_described(0x75, encode(Value("binary", b"a")))
    + encode_described(0x78, encode(Value("map", [(Value("symbol", "x-sum"), Value("uint", 7))]))),
}
SECTIONS = {
    "header": {"durable": Value("boolean", True), "priority": Value("ubyte", 3)},
    "message_annotations": [(Value("symbol", "x-opt-own"), Value("list", [text("l")]))],
    "properties": {
        "message-id": Value("uuid", bytes(16)), "to": text("/queues/s"), "subject": text("s"),
        "absolute-expiry-time": Value("timestamp", 5), "group-sequence": Value("uint", 9),
        "reply-to-group-id": text("r"),
    },
    "application_properties": [
        (text("decimal"), Value("decimal64", bytes(8))), (text("char"), Value("char", 66)),
    ],
}  # fmt: skip


@pytest.fixture
async def client():
    """A client, which publishes to the stream `s` on handle 9."""
    async with Amqp10Node(compat="4.0", is_lone=True) as node:
        await node.declare("s", queue_type="stream")
        client = await node.client()
        await client.publisher("/queues/s", 9)
        yield client


async def delivered(client):
    source = Source("/queues/s", filter=FIRST)
    client.send(Attach("l", 0, RECEIVER, source=source, target=Target()))
    client.credit(0, 10)
    found = []
    while not found:
        found = [one.payload for one in await client.frames() if one.payload]
    return found[0]


@pytest.mark.parametrize("kind", BODIES)
async def test_what_a_client_published_comes_back_unchanged(client, kind):
    message = read_message(encoded("", **SECTIONS))
    message.body = BODIES[kind]
    client.send(Transfer(9, 0, b"t", 0, True), payload=encode_message(message))
    found = read_message(await delivered(client))
    assert found.body == BODIES[kind]
    assert found.properties == SECTIONS["properties"]
    assert found.application_properties == SECTIONS["application_properties"]
    assert found.header == {
        **SECTIONS["header"], "first-acquirer": Value("boolean", True),
        "delivery-count": Value("uint", 0),
    }  # fmt: skip
    assert dict(found.message_annotations) == {
        Value("symbol", "x-exchange"): text(""),
        Value("symbol", "x-routing-key"): text("s"),
        Value("symbol", "x-stream-offset"): Value("long", 0),
        Value("symbol", "x-opt-own"): Value("list", [text("l")]),
    }


async def test_bytes_of_stream_clients_are_the_data_of_a_message(client):
    stream = client.broker.services.vhosts["/"].queues["s"]
    stream.append(StreamEntries(b"", (), (), 1, [b"\0\0\0\5plain"]), lambda _: None)
    found = read_message(await delivered(client))
    assert found.data == b"plain"
    assert found.annotation("x-stream-offset") == Value("long", 0)
    assert found.annotation("x-routing-key") == text("s")


async def test_a_stored_message_without_annotations_gets_its_address_and_offset(client):
    stream = client.broker.services.vhosts["/"].queues["s"]
    data = encoded("body", properties={"subject": text("x")})
    stream.append(
        StreamEntries(b"", (), (), 1, [len(data).to_bytes(4, "big") + data]), lambda _: None
    )
    found = read_message(await delivered(client))
    assert (found.data, found.properties["subject"]) == (b"body", text("x"))
    assert found.header["durable"] == Value("boolean", True)
    assert found.annotation("x-exchange") == text("")
    assert found.annotation("x-routing-key") == text("s")


async def test_an_interceptor_adds_annotations_to_stored_sections():
    interceptors = InterceptorSettings(sets_sent_time=True)
    async with Amqp10Node(is_lone=True, interceptors=interceptors) as node:
        await node.declare("s", queue_type="stream")
        client = await node.client()
        await client.publisher("/queues/s", 9)
        await client.publish("body", 9, properties={"subject": text("x")})
        found = read_message(await delivered(client))
    assert (found.data, found.properties) == (b"body", {"subject": text("x")})
    assert found.annotation("x-opt-rabbitmq-sent-time").kind == "long"
    assert found.annotation("x-stream-offset") == Value("long", 0)
