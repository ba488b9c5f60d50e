"""docs/reference/message-conversions.md: each field and each type, from and to each protocol.

AMQP 0-9-1 is between all of them: what a client publishes becomes its properties, and what other
clients get is made of these. `Sent` and `received_by_...` are what the sessions of a protocol do.
"""

import pytest

from leveret.broker.amqp.content import encode_address
from leveret.broker.amqp.content_header import header_with, read_stored
from leveret.broker.amqp10.conversion import ConversionRules
from leveret.broker.amqp10.sections import Amqp10Message, data_section, encode_message, read_message
from leveret.broker.amqp10.values import Value, encode, encode_described
from leveret.broker.protocols.amqp10.messages import Delivered, read_published
from leveret.broker.protocols.mqtt.messages import flags_and_properties, make_header_of
from leveret.broker.protocols.mqtt.properties import (
    CONTENT_TYPE,
    CORRELATION_DATA,
    MESSAGE_EXPIRY_INTERVAL,
    PAYLOAD_FORMAT_INDICATOR,
    RESPONSE_TOPIC,
    USER_PROPERTY,
    encode_each,
)
from leveret.broker.protocols.mqtt.topics import Topics
from leveret.broker.protocols.stomp.message_headers import content_header_of, message_headers
from leveret.broker.queues.dead_letters.header import DeathNotes
from leveret.cluster.streams.client.entry_reading import StoredMessageReader
from leveret.cluster.streams.client.entry_writing import EntryWriter
from leveret.storage.messages.addresses import Addresses
from leveret.storage.messages.message import Message

ADDRESSES = Addresses()
ADDRESS = ADDRESSES.find(encode_address("amq.topic", "a.b"))
TOPICS = Topics(False)
RULES = ConversionRules(is_4=True)


def text(content):
    return Value("string", content)


def symbol(content):
    return Value("symbol", content)


def published_1_0(body=None, **sections):
    """What a client of AMQP 1.0 publishes, as a queue keeps it after a restart."""
    message = Amqp10Message()
    message.body = data_section(b"body") if body is None else body
    for name, content in sections.items():
        setattr(message, name, content)
    message.has_header = bool(message.header)
    found = read_published(encode_message(message))
    return read_stored(found.header.stored), found.body


def to_1_0(header, body=b"body"):
    return read_message(Delivered(header, ADDRESS).payload(body, redelivered=False))


def to_mqtt_5(header):
    return flags_and_properties(header, TOPICS)[1]


def through_stream(header, body=b"body"):
    """The message as a client of AMQP 0-9-1, and as one of 1.0, reads it from a stream."""
    pieces = []
    EntryWriter(RULES).write([Message(ADDRESS, header, body)], pieces, [])
    entry = b"".join(pieces)[4:]
    reader = StoredMessageReader("s", ADDRESSES, RULES)
    message = reader.message(entry, 0, len(entry), 0)
    plain = dict(message.header.properties)
    headers = {key: value for key, value in plain.pop("headers").items() if "offset" not in key}
    reader.keep_sections(message, entry, 0)
    return {**plain, **({"headers": headers} if headers else {})}, to_1_0(message.header)


# The fields of AMQP 0-9-1 and 1.0

FIELDS = [
    ({"delivery_mode": 2}, ("header", "durable", Value("boolean", True))),
    ({"delivery_mode": 1}, ("header", "durable", Value("boolean", False))),
    ({"priority": 7}, ("header", "priority", Value("ubyte", 7))),
    ({"expiration": "500"}, ("header", "ttl", Value("uint", 500))),
    ({"message_id": "m"}, ("properties", "message-id", text("m"))),
    ({"message_id": "urn:uuid:00000000-0000-0000-0000-000000000001"},
     ("properties", "message-id", Value("uuid", bytes(15) + b"\1"))),
    ({"correlation_id": "c"}, ("properties", "correlation-id", text("c"))),
    ({"user_id": "guest"}, ("properties", "user-id", Value("binary", b"guest"))),
    ({"reply_to": "r"}, ("properties", "reply-to", text("r"))),
    ({"content_type": "a/b"}, ("properties", "content-type", symbol("a/b"))),
    ({"content_encoding": "gzip"}, ("properties", "content-encoding", symbol("gzip"))),
    ({"timestamp": 5}, ("properties", "creation-time", Value("timestamp", 5000))),
    ({"app_id": "a"}, ("properties", "group-id", text("a"))),
    ({"type": "t"}, ("message_annotations", symbol("x-basic-type"), text("t"))),
    ({"headers": {"x-own": ("S", "v")}}, ("message_annotations", symbol("x-own"), text("v"))),
    ({"headers": {"CC": ("A", [("S", "k")])}},
     ("message_annotations", symbol("x-cc"), Value("list", [text("k")]))),
    ({"headers": {"own": ("S", "v")}}, ("application_properties", text("own"), text("v"))),
]  # fmt: skip


@pytest.mark.parametrize(("properties", "field"), FIELDS)
def test_fields_of_amqp_0_9_1_and_1_0(properties, field):
    section, name, value = field
    header = header_with(**{"delivery_mode": 1, **properties})
    assert dict(getattr(to_1_0(header), section))[name] == value
    back, in_1_0 = through_stream(header)
    assert back == {"delivery_mode": 1, **properties}
    assert dict(getattr(in_1_0, section))[name] == value

    is_dict = section in ("header", "properties")
    sections = {section: {name: value} if is_dict else [(name, value)]}
    if section != "header" or name != "durable":
        durable = {"durable": Value("boolean", False)}
        sections["header"] = durable | sections.get("header", {})
    header, _ = published_1_0(**sections)
    assert header.properties == {"delivery_mode": 1, **properties}


ONLY_IN_1_0 = {
    "properties": {
        "to": text("/queues/q"), "subject": text("s"), "group-sequence": Value("uint", 5),
        "absolute-expiry-time": Value("timestamp", 7), "reply-to-group-id": text("g"),
    },
    "message_annotations": [(symbol("x-nested"), Value("list", [Value("map", [])]))],
    "application_properties": [(text("uuid"), Value("uuid", bytes(16)))],
    "footer": encode_described(0x78, encode(Value("map", [(symbol("x-sum"), Value("uint", 7))]))),
}  # fmt: skip


def test_what_only_1_0_has_comes_back_to_1_0_from_queues_and_streams():
    parts = {name: ONLY_IN_1_0[name] for name in ONLY_IN_1_0 if name != "footer"}
    body = data_section(b"body") + ONLY_IN_1_0["footer"]
    header, kept = published_1_0(body, **parts)
    for found in (to_1_0(header, kept), through_stream(header, kept)[1]):
        assert found.properties == parts["properties"]
        assert found.application_properties == parts["application_properties"]
        assert parts["message_annotations"][0] in found.message_annotations
        assert found.body == body


# Types

NESTED = Value("map", [(text("k"), Value("list", [Value("int", 1), Value("map", [])]))])
TYPES = [
    (Value("null", None), ("V", None)),
    (Value("boolean", True), ("t", True)),
    (Value("boolean", False), ("t", False)),
    (Value("ubyte", 255), ("B", 255)),
    (Value("ushort", 65535), ("u", 65535)),
    (Value("uint", 0), ("i", 0)),
    (Value("uint", 2**32 - 1), ("i", 2**32 - 1)),
    (Value("ulong", 7), ("l", 7)),
    (Value("byte", -128), ("b", -128)),
    (Value("short", -32768), ("s", -32768)),
    (Value("int", -1), ("I", -1)),
    (Value("int", 2**31 - 1), ("I", 2**31 - 1)),
    (Value("long", -(2**63)), ("l", -(2**63))),
    (Value("float", 1.5), ("f", 1.5)),
    (Value("double", -2.25), ("d", -2.25)),
    (Value("timestamp", 5000), ("T", 5)),
    (Value("binary", b"\xff"), ("S", "\udcff")),
    (text("ä" * 300), ("S", "ä" * 300)),
    (symbol("sym"), ("S", "sym")),
    (Value("list", [Value("int", 1), text("a")]), ("A", [("I", 1), ("S", "a")])),
    (Value("array", [Value("uint", 1), Value("uint", 2)]), ("A", [("i", 1), ("i", 2)])),
    (NESTED, ("F", {"k": ("A", [("I", 1), ("F", {})])})),
    (Value("char", 65), None),
    (Value("uuid", bytes(16)), None),
    (Value("decimal32", bytes(4)), None),
    (Value("decimal64", bytes(8)), None),
    (Value("decimal128", bytes(16)), None),
    (Value("described", (symbol("a:b"), text("c"))), None),
]


@pytest.mark.parametrize(("value", "field"), TYPES)
def test_values_of_1_0(value, field):
    """As an annotation: application properties have no lists, maps and arrays."""
    header, _ = published_1_0(message_annotations=[(symbol("x-v"), value)])
    assert header.headers.get("x-v") == field
    assert to_1_0(header).annotation("x-v") == value
    back, in_1_0 = through_stream(header)
    assert back.get("headers", {}).get("x-v") == field
    assert in_1_0.annotation("x-v") == value


FIELD_TYPES = [
    (("t", True), Value("boolean", True)),
    (("b", -1), Value("byte", -1)),
    (("B", 1), Value("ubyte", 1)),
    (("s", -1), Value("short", -1)),
    (("u", 1), Value("ushort", 1)),
    (("I", -1), Value("int", -1)),
    (("i", 1), Value("uint", 1)),
    (("l", -1), Value("long", -1)),
    (("f", 1.5), Value("float", 1.5)),
    (("d", 1.5), Value("double", 1.5)),
    (("T", 5), Value("timestamp", 5000)),
    (("V", None), Value("null", None)),
    (("S", "x"), text("x")),
    (("x", b"\xff"), Value("binary", b"\xff")),
    (("D", (1, 15)), Value("null", None)),
    (("A", [("I", 1), ("S", "a")]), Value("list", [Value("int", 1), text("a")])),
    (("F", {"a": ("F", {})}), Value("map", [(symbol("a"), Value("map", []))])),
]


@pytest.mark.parametrize(("field", "value"), FIELD_TYPES)
def test_fields_of_tables(field, value):
    header = header_with(headers={"x-v": field, "v": field})
    message = to_1_0(header)
    assert message.annotation("x-v") == value
    # Application properties have simple types.
    expected = None if field[0] in "AFD" else value
    assert dict(message.application_properties).get(text("v")) == expected


BODIES = {
    "data": data_section(b"body"),
    "several data": data_section(b"a") + data_section(b"") + data_section(b"b"),
    "sequences": encode_described(0x76, encode(Value("list", [NESTED])))
    + encode_described(0x76, encode(Value("list", []))),
    **{
        f"value {value.kind} {number}": encode_described(0x77, encode(value))
        for number, (value, _) in enumerate(TYPES)
    },
}


@pytest.mark.parametrize("kind", BODIES)
def test_bodies_of_1_0(kind):
    body = BODIES[kind]
    header, kept = published_1_0(body)
    is_data = "data" in kind
    plain = {"data": b"body", "several data": b"ab"}.get(kind, body)
    assert (kept, header.properties.get("type")) == (plain, None if is_data else "amqp-1.0")
    assert to_1_0(header, kept).body == body
    assert through_stream(header, kept)[1].body == body
    assert (b"message/vnd.rabbitmq.amqp" in to_mqtt_5(header)) is not is_data


# MQTT

MQTT = {
    PAYLOAD_FORMAT_INDICATOR: 1, CONTENT_TYPE: "a/b", RESPONSE_TOPIC: "answers/x",
    CORRELATION_DATA: b"c", USER_PROPERTY: [("k", "v"), ("k", "w")],
}  # fmt: skip


def test_what_mqtt_5_0_has():
    header = make_header_of({**MQTT, MESSAGE_EXPIRY_INTERVAL: 3}, 1, False, TOPICS)
    assert to_mqtt_5(header) == encode_each(MQTT)
    assert header.properties == {
        "delivery_mode": 2, "content_type": "a/b", "correlation_id": "c", "expiration": "3000",
        "headers": {"k": ("S", "w"), "x-reply-to-topic": ("S", "answers.x")},
    }  # fmt: skip
    message = to_1_0(header)
    assert message.header["durable"] == Value("boolean", True)
    assert message.properties == {
        "content-type": symbol("a/b"), "correlation-id": Value("binary", b"c"),
        "reply-to": text("/exchanges/amq.topic/answers.x"),
    }  # fmt: skip
    assert message.application_properties == [(text("k"), text("w"))]
    stomp = message_headers(header.properties)
    assert (stomp["content-type"], stomp["k"], stomp["persistent"]) == ("a/b", "w", "true")


@pytest.mark.parametrize("qos", [0, 1])
def test_mqtt_3_1_1_has_a_quality_of_service_only(qos):
    header = make_header_of({}, qos, False, TOPICS)
    assert header.properties == {"delivery_mode": 1 + qos}
    assert to_mqtt_5(header) == b""
    assert to_1_0(header).header["durable"] == Value("boolean", bool(qos))


def test_amqp_for_mqtt_5_0():
    expected = {
        CONTENT_TYPE: "a/b", CORRELATION_DATA: b"c",
        USER_PROPERTY: [("text", "v"), ("number", "7"), ("flag", "true"), ("float", "1.5")],
    }  # fmt: skip
    headers = {
        "text": ("S", "v"), "number": ("I", 7), "flag": ("t", True), "float": ("d", 1.5),
        "void": ("V", None), "table": ("F", {}), "array": ("A", []), "decimal": ("D", (1, 15)),
    }  # fmt: skip
    header = header_with(content_type="a/b", correlation_id="c", headers=headers)
    assert to_mqtt_5(header) == encode_each(expected)
    header, _ = published_1_0(
        properties={
            "content-type": symbol("a/b"), "correlation-id": text("c"),
            "reply-to": text("/exchanges/amq.topic/answers.x"),
        },
        application_properties=[
            (text("text"), text("v")), (text("number"), Value("int", 7)),
            (text("flag"), Value("boolean", True)), (text("float"), Value("double", 1.5)),
        ],
    )  # fmt: skip
    with_topic = {CONTENT_TYPE: "a/b", RESPONSE_TOPIC: "answers/x", **expected}
    assert to_mqtt_5(header) == encode_each(with_topic)


# STOMP

STOMP = {
    "content-type": "a/b", "content-encoding": "gzip", "correlation-id": "c",
    "expiration": "500", "amqp-message-id": "m", "type": "t", "user-id": "guest", "app-id": "a",
    "priority": "7", "timestamp": "5", "persistent": "true", "own": "v",
}  # fmt: skip
IN_0_9_1 = {
    "content_type": "a/b", "content_encoding": "gzip", "correlation_id": "c", "expiration": "500",
    "message_id": "m", "type": "t", "user_id": "guest", "app_id": "a", "priority": 7,
    "timestamp": 5, "delivery_mode": 2, "headers": {"own": ("S", "v")},
}  # fmt: skip


def test_headers_of_stomp():
    header = content_header_of(STOMP)
    assert header.properties == IN_0_9_1
    assert message_headers(header.properties) == STOMP
    message = to_1_0(header)
    assert message.properties["message-id"] == text("m")
    assert message.application_properties == [(text("own"), text("v"))]
    back, in_1_0 = through_stream(header)
    assert message_headers(back) == STOMP
    assert in_1_0.properties == message.properties


def test_headers_that_stomp_can_show():
    shown = {"text": ("S", "v"), "number": ("l", 7), "time": ("T", 5)}
    left_out = {
        "flag": ("t", True), "float": ("d", 1.5), "void": ("V", None), "table": ("F", {}),
        "array": ("A", []), "bytes": ("x", b"x"),
    }  # fmt: skip
    headers = message_headers({"headers": {**shown, **left_out}})
    assert headers == {"text": "v", "number": "7", "time": "5"}


# Dead letters


@pytest.mark.parametrize("is_of_1_0", [False, True])
def test_the_deaths_of_a_message(is_of_1_0):
    header = header_with(expiration="500", headers={"own": ("S", "v")})
    if is_of_1_0:
        header, _ = published_1_0(
            header={"ttl": Value("uint", 500)}, application_properties=[(text("own"), text("v"))]
        )
    notes = DeathNotes("q", "expired", 1_700_000_000, drop_cc=False, tells_last=True)
    dead, _ = notes.add(header, ADDRESS)
    message = to_1_0(dead)
    assert message.application_properties == [(text("own"), text("v"))]
    assert message.header["first-acquirer"] == Value("boolean", False)
    assert message.annotation("x-death").kind == "null"
    assert message.annotation("x-first-death-queue") == text("q")
    assert message.annotation("x-last-death-reason") == text("expired")
    time = Value("timestamp", 1_700_000_000_000)
    assert message.annotation("x-opt-deaths") == Value("array", [Value("map", [
        (symbol("ttl"), Value("uint", 500)), (symbol("queue"), text("q")),
        (symbol("reason"), symbol("expired")), (symbol("count"), Value("ulong", 1)),
        (symbol("first-time"), time), (symbol("last-time"), time),
        (symbol("exchange"), text("amq.topic")),
        (symbol("routing-keys"), Value("array", [text("a.b")])),
    ])])  # fmt: skip
