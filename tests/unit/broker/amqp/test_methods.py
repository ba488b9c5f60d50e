"""Encoding and decoding of every AMQP method, and the errors for invalid ones."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp import commands

from leveret.broker.amqp.errors import ConnectionFault
from leveret.broker.amqp.frames import METHOD, FrameScanner, FrameSink
from leveret.broker.amqp.methods import (
    METHODS,
    SECRET_METHODS,
    AccessRequest,
    AccessRequestOk,
    UnknownMethod,
    UnreadableMethod,
    decode_method,
    encode_method,
    long_string_argument,
    method_frame,
    method_name,
    table_argument,
)
from leveret.broker.erlang.terms import format_binary

RUN = settings(max_examples=15, deadline=None, database=None, derandomize=True)

TEXTS = st.binary(max_size=60).map(lambda data: data.decode("utf-8", "surrogateescape"))
ARGUMENTS = {
    "shortstr": TEXTS,
    "longstr": TEXTS,
    "bit": st.booleans(),
    "octet": st.integers(0, 2**8 - 1),
    "short": st.integers(0, 2**16 - 1),
    "long": st.integers(0, 2**32 - 1),
    "longlong": st.integers(0, 2**64 - 1),
    "timestamp": st.integers(0, 2**64 - 1),
    "table": st.dictionaries(TEXTS, st.tuples(st.just("I"), st.integers(0, 9)), max_size=3),
}
PLAIN = {
    "shortstr": "name", "longstr": "text", "bit": True, "octet": 1, "short": 2, "long": 3,
    "longlong": 4, "timestamp": 5, "table": {"key": ("S", "value")},
}  # fmt: skip
ACCESS_BITS = ("exclusive", "passive", "active", "write", "read")

every_method = pytest.mark.parametrize("method", METHODS.values(), ids=method_name)


def signature(method):
    """Return names and types of a method's arguments."""
    names = method.attributes()
    if method is AccessRequest:
        names = [*names, *ACCESS_BITS]
    return {name: method.amqp_type(name) for name in names}


def plain_payload(method):
    """Return a method with arbitrary arguments."""
    arguments = {name: PLAIN[kind] for name, kind in signature(method).items()}
    return encode_method(method, **arguments)


@every_method
@RUN
@given(data=st.data())
def test_every_method_comes_back(method, data):
    arguments = {
        name: data.draw(ARGUMENTS[kind], label=name) for name, kind in signature(method).items()
    }
    decoded = decode_method(encode_method(method, **arguments))
    assert type(decoded) is method
    for name in method.attributes():
        sent = arguments[name]
        if method.amqp_type(name) == "longstr":
            sent = sent.encode("utf-8", "surrogateescape")
        assert getattr(decoded, name) == sent


def cannot_decode(payload):
    """Check the error for an invalid payload, which must name the method."""
    with pytest.raises(ConnectionFault) as caught:
        decode_method(payload)
    fault = caught.value
    assert fault.reply_code == 501
    method = METHODS[int.from_bytes(payload[:4], "big")]
    shown = method_name(method) if method in SECRET_METHODS else format_binary(payload[4:])
    assert fault.explanation == f"cannot decode {shown}"
    assert (fault.class_id, fault.method_id) == struct.unpack_from(">HH", payload)


@every_method
def test_octets_after_the_last_argument(method):
    cannot_decode(plain_payload(method) + b"\0")


@every_method
def test_arguments_that_end_early(method):
    payload = plain_payload(method)
    for size in range(4, len(payload)):
        cannot_decode(payload[:size])


def test_the_text_is_rabbitmqs():
    with pytest.raises(ConnectionFault) as caught:
        decode_method(b"\0\x32\0\x0a\0\0\5short")
    text = "FRAME_ERROR - cannot decode <<0,0,5,115,104,111,114,116>>"
    assert caught.value.reply_text == text
    with pytest.raises(ConnectionFault) as caught:
        decode_method(b"\0\x5a\0\x0asurplus")
    assert caught.value.reply_text == 'FRAME_ERROR - cannot decode <<"surplus">>'


def test_a_table_that_is_none_makes_a_method_unreadable():
    whole = encode_method(
        commands.Queue.Bind, queue="q", exchange="e", routing_key="k", nowait=False,
        arguments={"a": ("B", 1)},
    )  # fmt: skip
    with pytest.raises(
        UnreadableMethod, match=r"queue\.bind has an invalid table: no field .* 'Z'"
    ):
        decode_method(whole.replace(b"aB", b"aZ"))


def test_a_table_that_is_longer_than_its_method_cannot_be_decoded():
    whole = encode_method(commands.Queue.Bind, queue="q", arguments={"a": ("B", 1)})
    cannot_decode(whole[:-1])


@pytest.mark.parametrize(("class_id", "method_id"), [(60, 999), (61, 10), (0, 0), (65535, 65535)])
def test_unknown_methods(class_id, method_id):
    with pytest.raises(UnknownMethod) as caught:
        decode_method(struct.pack(">HH", class_id, method_id) + b"whatever")
    assert (caught.value.class_id, caught.value.method_id) == (class_id, method_id)


def test_bits_share_an_octet():
    bits = {
        "passive": False, "durable": True, "exclusive": False, "auto_delete": True,
        "nowait": True,
    }  # fmt: skip
    payload = encode_method(commands.Queue.Declare, queue="q", arguments={}, **bits)
    assert payload == b"\0\x32\0\x0a" + b"\0\0" + b"\1q" + b"\x1a" + b"\0\0\0\0"
    decoded = decode_method(payload)
    assert {name: getattr(decoded, name) for name in bits} == bits


def test_fields_that_are_not_named_are_empty():
    assert encode_method(commands.Connection.OpenOk) == b"\0\x0a\0\x29\0"
    assert encode_method(commands.Queue.Declare, queue="q") == b"\0\x32\0\x0a\0\0\1q\0\0\0\0\0"


def test_access_request_of_amqp_0_8():
    request = decode_method(b"\0\x1e\0\x0a\5/data\x1f")
    assert isinstance(request, AccessRequest)
    assert request.realm == "/data"
    assert encode_method(AccessRequestOk, ticket=1) == b"\0\x1e\0\x0b\0\1"


def test_tables_keep_their_types_and_long_strings_their_bytes():
    decoded = decode_method(
        encode_method(
            commands.Connection.StartOk, client_properties={"n": ("s", 3)}, mechanism="PLAIN",
            response="\0guest\0\udcff", locale="en_US",
        )
    )  # fmt: skip
    assert table_argument(decoded.client_properties) == {"n": ("s", 3)}
    assert long_string_argument(decoded.response) == b"\0guest\0\xff"


@pytest.mark.parametrize(
    ("method", "name"),
    [
        (commands.Queue.Declare, "queue.declare"),
        (commands.Queue.DeclareOk, "queue.declare-ok"),
        (commands.Connection.StartOk, "connection.start-ok"),
        (commands.Basic.GetEmpty, "basic.get-empty"),
        (AccessRequest, "access.request"),
        (commands.Tx.SelectOk, "tx.select-ok"),
    ],
)
def test_names(method, name):
    assert method_name(method) == name


def test_a_method_in_its_frame():
    frames = []

    class Sink(FrameSink):
        def on_frame(self, kind, channel, payload):
            frames.append((kind, channel, decode_method(payload)))

    scanner = FrameScanner(Sink(), 4096)
    scanner.add(method_frame(7, commands.Channel.FlowOk, active=True))
    scanner.scan()
    ((kind, channel, method),) = frames
    assert (kind, channel, method.active) == (METHOD, 7, True)
