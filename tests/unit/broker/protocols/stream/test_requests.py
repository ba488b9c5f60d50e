"""What clients of the stream protocol send."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.broker.protocols.stream import codes
from leveret.broker.protocols.stream.requests import (
    ClientRequest,
    FrameError,
    decode_request,
)
from leveret.broker.queues.contract.offset_specification import (
    FIRST,
    LAST,
    NEXT,
    OffsetSpecification,
)


def string(text):
    return struct.pack(">h", len(text)) + text.encode()


def texts(*items):
    return struct.pack(">i", len(items)) + b"".join(map(string, items))


def pairs(**table):
    body = b"".join(string(key) + string(value) for key, value in table.items())
    return struct.pack(">i", len(table)) + body


def command(key, body=b"", correlation=9, version=1):
    numbers = struct.pack(">HH", key, version)
    return numbers + (b"" if correlation is None else struct.pack(">I", correlation)) + body


ANSWER = codes.RESPONSE
EXAMPLES = {
    "declare publisher": (
        codes.DECLARE_PUBLISHER, b"\7" + string("ref") + string("s"), (7, "ref", "s"),
    ),
    "query sequence": (codes.QUERY_PUBLISHER_SEQUENCE, string("ref") + string("s"), ("ref", "s")),
    "delete publisher": (codes.DELETE_PUBLISHER, b"\7", (7,)),
    "subscribe": (codes.SUBSCRIBE, b"\1" + string("s") + b"\0\1\0\x0a", (1, "s", FIRST, 10, {})),
    "subscribe with properties": (
        codes.SUBSCRIBE, b"\1" + string("s") + b"\0\3\0\1" + pairs(name="n"),
        (1, "s", NEXT, 1, {"name": "n"}),
    ),
    "query offset": (codes.QUERY_OFFSET, string("ref") + string("s"), ("ref", "s")),
    "unsubscribe": (codes.UNSUBSCRIBE, b"\1", (1,)),
    "create": (codes.CREATE, string("s") + pairs(a="b"), ("s", {"a": "b"})),
    "delete": (codes.DELETE, string("s"), ("s",)),
    "metadata": (codes.METADATA, texts("a", "b"), (["a", "b"],)),
    "properties": (codes.PEER_PROPERTIES, pairs(product="p"), ({"product": "p"},)),
    "handshake": (codes.SASL_HANDSHAKE, b"", ()),
    "authenticate": (
        codes.SASL_AUTHENTICATE, string("PLAIN") + b"\0\0\0\4\0u\0p", ("PLAIN", b"\0u\0p"),
    ),
    "authenticate with null": (
        codes.SASL_AUTHENTICATE, string("EXTERNAL") + b"\xff" * 4, ("EXTERNAL", b""),
    ),
    "authenticate without data": (codes.SASL_AUTHENTICATE, string("EXTERNAL"), ("EXTERNAL", b"")),
    "open": (codes.OPEN, string("/"), ("/",)),
    "close": (codes.CLOSE, b"\0\1" + string("bye"), (1, "bye")),
    "close answer": (codes.CLOSE | ANSWER, b"\0\1", (1,)),
    "route": (codes.ROUTE, string("k") + string("s"), ("k", "s")),
    "partitions": (codes.PARTITIONS, string("s"), ("s",)),
    "update answer": (codes.CONSUMER_UPDATE | ANSWER, b"\0\1\0\2", (1, LAST)),
    "update answer without offset": (codes.CONSUMER_UPDATE | ANSWER, b"\0\1\0\0", (1, None)),
    "versions": (codes.EXCHANGE_COMMAND_VERSIONS, b"\0\0\0\1\0\2\0\1\0\2", ([(2, 1, 2)],)),
    "statistics": (codes.STREAM_STATS, string("s"), ("s",)),
    "create super stream": (
        codes.CREATE_SUPER_STREAM, string("s") + texts("s-0") + texts("0") + pairs(a="b"),
        ("s", ["s-0"], ["0"], {"a": "b"}),
    ),
    "delete super stream": (codes.DELETE_SUPER_STREAM, string("s"), ("s",)),
    "resolve offset": (codes.RESOLVE_OFFSET, string("s") + b"\0\1", ("s", FIRST, {})),
}  # fmt: skip
WITHOUT_CORRELATION = {
    "publish": (codes.PUBLISH, b"\7\0\0\0\2", (7, 2)),
    "credit": (codes.CREDIT, b"\1\0\5", (1, 5)),
    "store offset": (
        codes.STORE_OFFSET, string("ref") + string("s") + b"\0" * 7 + b"\5", ("ref", "s", 5),
    ),
    "heartbeat": (codes.HEARTBEAT, b"", ()),
    "tune": (codes.TUNE, b"\0\1\0\0\0\0\0\x3c", (65_536, 60)),
    "tune answer": (codes.TUNE | ANSWER, b"\0\1\0\0\0\0\0\x3c", (65_536, 60)),
}  # fmt: skip


@pytest.mark.parametrize(("key", "body", "fields"), EXAMPLES.values(), ids=EXAMPLES)
def test_requests(key, body, fields):
    assert decode_request(command(key, body)) == ClientRequest(key, 1, 9, fields)


@pytest.mark.parametrize(
    ("key", "body", "fields"), WITHOUT_CORRELATION.values(), ids=WITHOUT_CORRELATION
)
def test_commands_without_a_response(key, body, fields):
    assert decode_request(command(key, body, None)) == ClientRequest(key, 1, None, fields)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (4, 2**64 - 1, OffsetSpecification("offset", 2**64 - 1)),
        (5, 1_000, OffsetSpecification("timestamp", 1_000)),
        (5, 2**64 - 1, OffsetSpecification("timestamp", 0)),
    ],
)
def test_offsets_with_a_value(kind, value, expected):
    body = b"\1" + string("s") + struct.pack(">HQ", kind, value) + b"\0\1"
    assert decode_request(command(codes.SUBSCRIBE, body)).fields[2] == expected


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "ends in the middle"),
        (b"\0\x17", "ends in the middle"),
        (command(99), "no command 0x0063 of version 1"),
        (command(codes.DELIVER), "no command 0x0008"),
        (command(codes.OPEN | ANSWER), "no command 0x8015"),
        (command(codes.OPEN, string("/"), version=2), "no command 0x0015 of version 2"),
        (command(codes.OPEN, b"\0\5ab"), "ends in the middle"),
        (command(codes.OPEN, b"\xff\xff"), "a text is null"),
        (command(codes.METADATA, b"\x7f\xff\xff\xff"), "a list has 2147483647 items"),
        (command(codes.SUBSCRIBE, b"\1" + string("s") + b"\0\x09\0\1"), "no type 9 of an offset"),
    ],
)
def test_commands_that_cannot_be_read(data, problem):
    with pytest.raises(FrameError, match=problem):
        decode_request(data)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_command_or_refused(data):
    try:
        decode_request(data)
    except FrameError:
        return
