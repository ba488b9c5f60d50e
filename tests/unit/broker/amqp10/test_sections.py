"""The sections of a message of AMQP 1.0."""

import pytest

from leveret.broker.amqp10.sections import (
    SECTIONS_MAX,
    Amqp10Message,
    data_section,
    encode_message,
    read_message,
    size_without_body,
)
from leveret.broker.amqp10.values import Amqp10Error, Value, encode_described, encode_list
from tests.call_counts import calls_of


def whole():
    message = Amqp10Message()
    message.has_header = True
    message.header = {"durable": Value("boolean", True), "ttl": Value("uint", 60_000)}
    message.message_annotations = [(Value("symbol", "x-exchange"), Value("string", "e"))]
    message.properties = {
        "message-id": Value("string", "m1"), "creation-time": Value("timestamp", 1_700),
    }  # fmt: skip
    message.application_properties = [(Value("string", "own"), Value("int", 5))]
    message.body = data_section(b"body")
    message.data = b"body"
    return message


def parts(message):
    return [getattr(message, name) for name in sorted(Amqp10Message.__slots__)]


def test_a_message_is_what_was_encoded():
    assert parts(read_message(encode_message(whole()))) == parts(whole())


def test_a_body_alone():
    message = read_message(data_section(b"body"))
    assert (message.has_header, message.data) == (False, b"body")
    assert encode_message(message) == b"\x00\x53\x75\xa0\x04body"


def test_data_sections_are_joined():
    message = read_message(data_section(b"one ") + data_section(b"two"))
    assert message.data == b"one two"
    assert message.body == data_section(b"one ") + data_section(b"two")


@pytest.mark.parametrize("body", ["0053764500537645", "005377a10161", "00537740005378c10100"])
def test_other_bodies_stay_as_they_are(body):
    data = bytes.fromhex(body)
    message = read_message(data)
    assert (message.data, message.body) == (None, data)


def test_a_body_is_not_decoded():
    """A list of a million nulls, which would take a second and a hundred megabytes."""
    size = 1_000_000
    counts = (size + 4).to_bytes(4, "big") + size.to_bytes(4, "big")
    body = b"\x00\x53\x77\xd0" + counts + b"\x40" * size
    assert calls_of(lambda: read_message(body)) < 100


def test_the_size_without_the_body():
    before = encode_message(whole()).removesuffix(data_section(b"body"))
    footer = b"\x00\x53\x78\xc1\x01\x00"
    assert size_without_body(before + data_section(b"one") * 2 + footer) == len(before + footer)


def test_a_message_has_a_limited_number_of_sections():
    data = data_section(b"") * SECTIONS_MAX
    assert size_without_body(data) == 0
    with pytest.raises(Amqp10Error, match="more than 4096 sections"):
        size_without_body(data + data_section(b""))


def test_a_message_without_a_body():
    assert read_message(b"").body == b""


def test_descriptors_that_are_names():
    message = read_message(b"\x00\xa3\x10amqp:data:binary\xa0\x01a")
    assert message.data == b"a"


def test_annotations_are_found_by_name():
    assert whole().annotation("x-exchange") == Value("string", "e")
    assert whole().annotation("x-other").value is None


HEADER = encode_described(0x70, encode_list([]))
DATA, VALUE = data_section(b""), b"\x00\x53\x77\x40"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (DATA + HEADER, "amqp:header:list cannot come after amqp:data:binary"),
        (HEADER + HEADER, "amqp:header:list cannot come after amqp:header:list"),
        (DATA + VALUE, r"amqp:amqp-value:\* cannot come after amqp:data:binary"),
        (VALUE + VALUE, "cannot come after"),
        (b"\x40", "the code 0x40 is where a section of a message begins"),
        (b"\x00\x53\x79\x40", "a message has no section 121"),
        (b"\x00\x45\x40", "a section has a descriptor of the type 0x45"),
        (b"\x00\x53\x75\x40", "a section has a null instead of a binary"),
        (b"\x00\x53\x70\xc0\x07\x06" + b"\x40" * 6, "a section of at most 5 fields has 6"),
        (b"\x00\x53\x72\x45", "a section has a list instead of a map"),
    ],
)
def test_bytes_that_are_no_message(data, problem):
    with pytest.raises(Amqp10Error, match=problem):
        read_message(data)
