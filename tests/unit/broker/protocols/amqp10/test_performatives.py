"""Performatives of AMQP 1.0 as bytes and back, and bytes that are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.broker.amqp10.values import Amqp10Error, Value, encode
from leveret.broker.protocols.amqp10.performatives import (
    Accepted,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Modified,
    Open,
    Received,
    Rejected,
    Released,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    Source,
    Target,
    Transfer,
    encode_performative,
    read_performative,
)

ANY = Value("map", [(Value("symbol", "key"), Value("string", "value"))])
PERFORMATIVES = [
    SaslMechanisms(["PLAIN", "ANONYMOUS"]),
    SaslInit("PLAIN", b"\0user\0password", "host"),
    SaslOutcome(0),
    Open("container", "vhost:/", 512, 5, 1000, None, None, ["A"], ["B"], ANY),
    Begin(None, 1, 2, 3),
    Begin(7, 0, 2**32 - 1, 2**32 - 1, 255),
    Attach("name", 0, True, 2, 0, Source("/queues/q", 1, filter=ANY, outcomes=["x"]), Target()),
    Attach("name", 300, False, source=Source(default_outcome=Released()), target=Target("/t")),
    Flow(None, 10, 1, 10),
    Flow(1, 10, 1, 10, 0, 5, 100, 0, True, True),
    Transfer(0, 1, b"tag", 0, False, True),
    Transfer(0, state=Received(1, 2)),
    Disposition(True, 0, 10, True, Accepted()),
    Disposition(True, 0, None, True, Rejected(Error("amqp:not-found", "text", ANY))),
    Disposition(True, 0, None, False, Modified(True, False, ANY)),
    Detach(1, True, Error("amqp:resource-deleted")),
    End(),
    Close(Error("amqp:internal-error", "text")),
]


@pytest.mark.parametrize("performative", PERFORMATIVES, ids=lambda one: type(one).__name__)
def test_as_bytes_and_back(performative):
    encoded = encode_performative(performative)
    assert read_performative(b"before" + encoded + b"after", 6) == (performative, 6 + len(encoded))


def test_a_descriptor_may_be_a_name():
    assert read_performative(b"\0\xa3\x0eamqp:open:list\xc0\x04\x01\xa1\x01c") == (Open("c"), 23)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\x40", "a null is where a described list is expected"),
        (b"\0\x53\x99\x45", "there is no described type 153"),
        (b"\0\x45\x45", r"there is no described type \[\]"),
        (b"\0\x53\x10\x40", "Open has a null instead of a list"),
        (b"\0\x53\x10\x45", "Open lacks a field that it must have"),
        (b"\0\x53\x13\xc0\x04\x03\x40\x43\x43", "Flow lacks a field that it must have"),
        (b"\0\x53\x10\xc0\x02\x01\x43", "Open.container_id is a uint instead of a string"),
        (b"\0\x53\x17\xc0\x03\x02\x40\x40", "End has 2 fields of at most 1"),
        (b"\0\x53\x24\x45", "a frame does not begin with a performative"),
        (b"\0\x53\x17\xc0\x05\x01\0\x53\x24\x45", "End.error is a described instead of a error"),
        (b"\0\x53\x14", "the bytes end in the middle of a value"),
    ],
)
def test_other_bytes_are_refused(data, problem):
    with pytest.raises(Amqp10Error, match=problem):
        read_performative(data)


@given(st.sampled_from(PERFORMATIVES), st.data())
def test_damaged_bytes_are_read_or_refused(performative, data):
    damaged = bytearray(encode_performative(performative))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    try:
        read, at = read_performative(cut)
    except Amqp10Error:
        return
    assert at <= len(cut)
    assert encode_performative(read)


@given(st.binary(max_size=60))
def test_random_values_are_read_or_refused(data):
    try:
        read_performative(b"\0\x53\x12" + encode(Value("binary", data)) + data)
        read_performative(b"\0\x53\x12\xc0" + data)
    except Amqp10Error:
        pass
