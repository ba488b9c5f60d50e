"""Properties from the JSON of a trace to their AMQP encoding, for a replay."""

import json

import msgspec
import pytest

from leveret.broker.amqp.properties import decode_properties
from leveret.mgmt.replay.properties import PropertyEncoder, UnsayableError


def encoded(properties, *arguments, user="shop"):
    """Encode and decode properties."""
    raw = msgspec.Raw(json.dumps(properties).encode())
    return decode_properties(PropertyEncoder(user).encode(raw, *arguments or [[]]))


def test_all_of_them():
    plain = {
        "content_type": "text/plain", "content_encoding": "gzip", "delivery_mode": 2,
        "priority": 255, "correlation_id": "c", "reply_to": "r", "expiration": "60000",
        "message_id": "mß", "timestamp": 2**40, "type": "t", "user_id": "shop", "app_id": "a",
        "cluster_id": "",
    }  # fmt: skip
    assert encoded(plain) == plain
    assert encoded({}) == {}
    assert encoded({"content_type": None, "of_a_later_version": 1}) == {}


def test_headers():
    headers = {"n": 7, "f": 0.5, "t": True, "s": "x", "list": [1, "two"], "table": {"a": 1}}
    assert encoded({"headers": headers})["headers"] == {
        "n": ("l", 7), "f": ("d", 0.5), "t": ("t", True), "s": ("S", "x"),
        "list": ("A", [("l", 1), ("S", "two")]), "table": ("F", {"a": ("l", 1)}),
    }  # fmt: skip


def test_a_user_id_of_another_user_is_left_out_and_counted():
    encoder = PropertyEncoder("shop")
    raw = encoder.encode(msgspec.Raw(b'{"user_id":"other","app_id":"a"}'), [])
    assert (decode_properties(raw), encoder.adjusted) == ({"app_id": "a"}, 1)


def test_blind_copies_and_marks_are_headers_of_one_message_only():
    encoder = PropertyEncoder("shop")
    raw = msgspec.Raw(b'{"headers":{"CC":["seen"],"leveret-replay":"of an earlier one"}}')
    first = decode_properties(encoder.encode(raw, ["seen", "blind"], "run-1"))["headers"]
    copied = ("A", [("S", "seen")])
    assert first == {"CC": copied, "BCC": ("A", [("S", "blind")]), "leveret-replay": ("S", "run-1")}
    assert decode_properties(encoder.encode(raw, ["seen"]))["headers"] == {"CC": copied}


@pytest.mark.parametrize(
    "properties",
    [{"priority": 256}, {"priority": -1}, {"priority": "high"}, {"timestamp": 2**64},
     {"timestamp": -1}, {"message_id": "x" * 256}, {"message_id": 1}, {"headers": "none"},
     {"headers": {"n": None}}, {"headers": {"n": 2**63}}, {"headers": {"x" * 256: 1}}],
)  # fmt: skip
def test_what_amqp_cannot_say(properties):
    with pytest.raises(UnsayableError):
        encoded(properties)
