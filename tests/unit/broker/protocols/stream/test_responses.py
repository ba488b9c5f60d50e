"""What clients of the stream protocol get."""

import struct

import pytest

from leveret.broker.protocols.stream import codes, responses
from leveret.broker.protocols.stream.responses import StreamNodes

A, B = ("a", 5552), ("b", 5553)
STREAMS = {
    "s": StreamNodes(codes.OK, A, [B]),
    "t": StreamNodes(codes.STREAM_DOES_NOT_EXIST),
}
EXAMPLES = {
    "a response": (
        responses.response(codes.CREATE, 9, codes.STREAM_ALREADY_EXISTS),
        "0000000a 800d 0001 00000009 0005",
    ),
    "tune": (responses.tune(1 << 20, 60), "0000000c 0014 0001 00100000 0000003c"),
    "close": (
        responses.close(1, codes.UNKNOWN_FRAME, "no"),
        "0000000e 0016 0001 00000001 000d 0002 6e6f",
    ),
    "heartbeat": (responses.HEARTBEAT, "00000004 0017 0001"),
    "confirm": (
        responses.publish_confirm(7, struct.pack(">2Q", 1, 2**63)),
        "00000019 0003 0001 07 00000002 0000000000000001 8000000000000000",
    ),
    "error": (
        responses.publish_error(7, codes.PUBLISHER_DOES_NOT_EXIST, [5]),
        "00000013 0004 0001 07 00000001 0000000000000005 0012",
    ),
    "metadata update": (
        responses.metadata_update(codes.STREAM_NOT_AVAILABLE, "s"),
        "00000009 0010 0001 0006 0001 73",
    ),
    "consumer update": (
        responses.consumer_update(3, 7, is_active=True),
        "0000000a 001a 0001 00000003 07 01",
    ),
    "deliver": (responses.deliver_head(7, 100, None), "00000069 0008 0001 07"),
    "deliver 2": (responses.deliver_head(7, 100, 5), "00000071 0008 0002 07 0000000000000005"),
    "credit": (
        responses.credit_error(codes.SUBSCRIPTION_ID_DOES_NOT_EXIST, 7),
        "00000007 8009 0001 0004 07",
    ),
    "metadata": (
        responses.metadata_response(9, STREAMS),
        "0000003a 800f 0001 00000009"
        "00000002 0000 0001 61 000015b0 0001 0001 62 000015b1"
        "00000002 0001 73 0001 0000 00000001 0001 0001 74 0002 ffff 00000000",
    ),
}


@pytest.mark.parametrize(("data", "expected"), EXAMPLES.values(), ids=EXAMPLES)
def test_frames(data, expected):
    assert data.hex() == expected.replace(" ", "")


def test_bodies():
    assert responses.pairs({"a": "b"}).hex() == "00000001000161000162"
    assert responses.strings(["a"]).hex() == "00000001000161"
    assert responses.statistics({"a": -1}).hex() == "00000001000161" + "ff" * 8
    assert responses.number(5).hex() == "0000000000000005"
    assert (responses.opened({}), responses.sasl_challenge(b"")) == (b"", b"")
    assert responses.sasl_challenge(b"x").hex() == "000178"
    for resolves_offsets, count in ((False, 19), (True, 20)):
        found = responses.command_versions(resolves_offsets=resolves_offsets)
        assert len(found) == 4 + 6 * count
