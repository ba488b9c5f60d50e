"""Messages that are read and delivered from their bytes are as if they were decoded."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from leveret.broker.amqp.content_header import header_with, read_stored
from leveret.broker.amqp10.sections import Amqp10Message, data_section, encode_message, read_message
from leveret.broker.amqp10.values import Amqp10Error, Value, encode_described
from leveret.broker.protocols.amqp10.delivery_writing import DeliveryWriter
from leveret.broker.protocols.amqp10.message_reading import MessageReader
from leveret.broker.protocols.amqp10.messages import (
    SECTIONS_BYTES_MAX,
    AnnotationRefused,
    Delivered,
    SectionsTooLarge,
    read_published,
)
from leveret.broker.protocols.amqp10.performatives import (
    FRAME_HEADER_BYTES,
    Transfer,
    read_performative,
)
from leveret.storage.messages.message import Address, Message

ADDRESS = Address("amq.topic", "a.b", b"\x09amq.topic\x03a.b")


def text(content):
    return Value("string", content)


TEXTS = st.text(max_size=300).map(text)
IDS = st.one_of(
    TEXTS, st.binary(max_size=20).map(lambda data: Value("binary", data)),
    st.binary(min_size=16, max_size=16).map(lambda data: Value("uuid", data)),
    st.integers(0, 2**64 - 1).map(lambda number: Value("ulong", number)),
)  # fmt: skip
VALUES = st.one_of(
    TEXTS,
    st.booleans().map(lambda value: Value("boolean", value)),
    st.integers(-(2**31), 2**31 - 1).map(lambda number: Value("int", number)),
    st.integers(-(2**63), 2**63 - 1).map(lambda number: Value("long", number)),
    st.integers(0, 2**32 - 1).map(lambda number: Value("uint", number)),
    st.just(Value("list", [Value("int", 1)])), st.just(Value("null", None)),
    st.floats(allow_nan=False).map(lambda number: Value("double", number)),
)  # fmt: skip
PROPERTIES = st.fixed_dictionaries(
    {},
    optional={
        "message-id": IDS, "correlation-id": IDS, "to": TEXTS, "subject": TEXTS, "reply-to": TEXTS,
        "user-id": st.binary(max_size=9).map(lambda data: Value("binary", data)),
        "content-type": st.just(Value("symbol", "text/plain")),
        "creation-time": st.integers(-5, 2**40).map(lambda time: Value("timestamp", time)),
        "group-id": TEXTS, "group-sequence": st.just(Value("uint", 7)),
    },
)  # fmt: skip
NAMES = st.text(max_size=20) | st.sampled_from(["x-basic-type", "CC", "x-own", "x-delivery-count"])
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "durable": st.booleans().map(lambda value: Value("boolean", value)),
        "priority": st.integers(0, 255).map(lambda number: Value("ubyte", number)),
        "ttl": st.integers(0, 2**32 - 1).map(lambda number: Value("uint", number)),
    },
)


@st.composite
def messages(draw):
    message = Amqp10Message()
    message.header = draw(HEADERS)
    message.has_header = bool(message.header)
    message.properties = draw(PROPERTIES)
    names = draw(st.dictionaries(NAMES, VALUES, max_size=4))
    message.application_properties = [(text(name), value) for name, value in names.items()]
    if draw(st.booleans()):
        message.message_annotations = [(Value("symbol", "x-own"), draw(TEXTS))]
    message.body = draw(
        st.sampled_from(
            [
                data_section(b"body"), data_section(b""), data_section(b"x" * 300),
                data_section(b"one") + data_section(b"two"),
                encode_described(0x77, b"\xa1\x04text"),
                data_section(b"x") + encode_described(0x78, b"\xc1\x01\x00"),
            ]
        )
    )  # fmt: skip
    return encode_message(message)


def read(payload, is_durable=True):
    reader = MessageReader(is_durable)
    header = reader.read(b"before" + payload + b"after", 6, 6 + len(payload))
    return reader, header


@given(messages(), st.booleans())
def test_a_message_is_read_as_if_it_was_decoded(payload, is_durable):
    reader, header = read(payload, is_durable)
    expected = read_published(payload, is_durable)
    assert (reader.body, reader.to, reader.subject, reader.user) == (
        expected.body, expected.to, expected.subject, expected.user,
    )  # fmt: skip
    assert header.properties == expected.header.properties
    assert header.kind == expected.header.kind
    assert header.form == expected.header.form
    stored = read_stored(header.stored)
    assert (stored.properties, stored.form) == (header.properties, header.form)


@pytest.mark.parametrize(("is_durable", "mode"), [(True, 2), (False, 1)])
@pytest.mark.parametrize("body", [data_section(b"m"), encode_described(0x77, b"\x41")])
def test_a_message_without_a_header_section(body, is_durable, mode):
    _, header = read(body, is_durable)
    assert header.delivery_mode == mode


@given(messages(), st.booleans())
def test_a_delivery_is_as_if_it_was_made_of_values(payload, redelivered):
    reader, header = read(payload)
    written = BytesWriter()
    deliveries = DeliveryWriter(5, 300, False, 1 << 16)
    assert deliveries.write(written, Message(ADDRESS, header, reader.body), redelivered, 2**32 + 7)
    frame = written.getvalue()
    assert (int.from_bytes(frame[:4], "big"), frame[4:8]) == (len(frame), b"\2\0\0\5")
    transfer, at = read_performative(frame, FRAME_HEADER_BYTES)
    assert transfer == Transfer(300, 7, b"\0\0\0\7", 0, False)
    found = read_message(frame[at:])
    expected = read_message(Delivered(header, ADDRESS).payload(reader.body, redelivered))
    for name in Amqp10Message.__slots__:
        assert getattr(found, name) == getattr(expected, name)
    assert found.body == read_message(payload).body


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"delivery_mode": 2, "priority": 9, "expiration": "1000", "headers": {"a": ("S", "b")}},
        {"headers": {"x-delivery-count": ("l", 3)}},
        {"headers": {"timestamp_in_ms": ("l", 3), "x-routed-by": ("S", "node")}},
        {"type": "amqp-1.0"},
        {"type": "other"},
    ],
)
@pytest.mark.parametrize("redelivered", [False, True])
def test_a_message_of_another_protocol(properties, redelivered):
    header = header_with(**properties)
    body = data_section(b"body") if properties.get("type") == "amqp-1.0" else b"body"
    written = BytesWriter()
    deliveries = DeliveryWriter(0, 0, True, 1 << 16)
    assert deliveries.write(written, Message(ADDRESS, header, body), redelivered, 0)
    _, at = read_performative(written.getvalue(), FRAME_HEADER_BYTES)
    found = read_message(written.getvalue()[at:])
    expected = read_message(Delivered(header, ADDRESS).payload(body, redelivered))
    for name in Amqp10Message.__slots__:
        assert getattr(found, name) == getattr(expected, name)


def test_a_message_that_is_larger_than_a_frame_is_written_in_pieces():
    _, header = read(encode_message(Amqp10Message()) + data_section(b""))
    message = Message(ADDRESS, header, b"x" * 1000)
    written = BytesWriter()
    deliveries = DeliveryWriter(0, 0, False, 512)
    assert not deliveries.write(written, message, False, 0)
    assert len(written) == 0
    frames = deliveries.pieces(message, False, 0)
    assert [len(frame) <= 512 for frame in frames] == [True, True, True]
    transfers = [read_performative(frame, FRAME_HEADER_BYTES) for frame in frames]
    assert [bool(transfer.more) for transfer, _ in transfers] == [True, True, False]
    payload = b"".join(frame[at:] for frame, (_, at) in zip(frames, transfers, strict=True))
    assert read_message(payload).data == b"x" * 1000


@pytest.mark.parametrize(
    "payload",
    [
        b"", b"\0\x53\x75\xa0\x05abc", b"\0\x53\x73\xc0\xff\x01",
        b"\0\x53\x74\xc1\x03\x00\xa1\x00" + data_section(b"count 0"),
        b"\0\x53\x73\xc0\x03\x00\xa1\x00" + data_section(b"count 0"),
    ],
)  # fmt: skip
def test_bytes_that_are_no_message(payload):
    if payload:
        with pytest.raises(Amqp10Error):
            read(payload)
    else:
        assert read(payload)[0].body == b""


def test_annotations_need_names_with_x():
    message = Amqp10Message()
    message.message_annotations = [(Value("symbol", "own"), text("v"))]
    message.body = data_section(b"")
    with pytest.raises(AnnotationRefused):
        read(encode_message(message))


@pytest.mark.parametrize("section", ["message_annotations", "application_properties"])
def test_sections_besides_the_body_have_a_limited_size(section):
    kind = "symbol" if section == "message_annotations" else "string"
    message = Amqp10Message()
    message.body = data_section(b"")
    count = SECTIONS_BYTES_MAX // 100
    pairs = [(Value(kind, f"x-opt-{number}"), text("v" * 70)) for number in range(count)]
    setattr(message, section, pairs)
    read(encode_message(message))
    setattr(message, section, [*pairs, (Value(kind, "x-opt"), text("v" * SECTIONS_BYTES_MAX))])
    with pytest.raises(
        SectionsTooLarge, match=r"besides its body have \d+ bytes, more than 131072"
    ):
        read(encode_message(message))


def test_large_annotations_are_not_kept():
    reader = MessageReader(is_durable=True)
    message = Amqp10Message()
    message.body = data_section(b"")
    tracemalloc.start()
    for number in range(100):
        value = f"{number}" + "v" * 100_000
        message.message_annotations = [(Value("symbol", "x-opt-a"), text(value))]
        data = encode_message(message)
        reader.read(data, 0, len(data))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 2_000_000
