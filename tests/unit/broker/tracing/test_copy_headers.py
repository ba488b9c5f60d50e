"""The headers of the firehose's copies are made of the bytes of the messages' properties."""

from leveret.broker.amqp.content_header import read_header
from leveret.broker.amqp.properties import encode_properties
from leveret.broker.tracing.copy_headers import CopyHeaders

OF_ALL_TYPES = {
    "content_type": "text/plain", "content_encoding": "é", "headers": {"a": ("s", 1)},
    "delivery_mode": 2, "priority": 200, "correlation_id": "", "reply_to": "r", "expiration": "9",
    "message_id": "m", "timestamp": 2**40 + 2**31 + 5, "type": "t", "user_id": "u", "app_id": "a",
    "cluster_id": "c",
}  # fmt: skip
COPY_HEADERS = CopyHeaders({"before": ("I", 1)}, {"after": ("I", 2)})


def properties_of(copy):
    letter, table = copy.headers["properties"]
    assert letter == "F"
    return table


def test_each_property_has_its_type_and_the_last_comes_first():
    copy = COPY_HEADERS.of(read_header(encode_properties(OF_ALL_TYPES)))
    assert list(copy.headers) == ["before", "properties", "after"]
    wanted = {name: ("S", value) for name, value in reversed(OF_ALL_TYPES.items())}
    wanted |= {
        "headers": ("F", {"a": ("s", 1)}), "delivery_mode": ("I", 2), "priority": ("I", 200),
        "timestamp": ("I", 5 - 2**31),
    }  # fmt: skip
    assert list(properties_of(copy).items()) == list(wanted.items())


def test_a_message_without_properties_has_an_empty_table():
    assert properties_of(COPY_HEADERS.of(read_header(b"\0\0"))) == {}


def test_messages_that_share_their_header_share_that_of_the_copy():
    one, other = (read_header(encode_properties({"type": text})) for text in "ab")
    copy = COPY_HEADERS.of(one)
    assert COPY_HEADERS.of(one) is copy
    assert properties_of(COPY_HEADERS.of(other)) == {"type": ("S", "b")}
    assert copy.kind == read_header(copy.raw).kind
