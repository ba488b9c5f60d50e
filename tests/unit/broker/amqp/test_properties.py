"""Message properties: which ones are decoded, and when."""

import pytest

from leveret.broker.amqp.content_header import read_header
from leveret.broker.amqp.properties import (
    DIRECT_REPLY_TO,
    PROPERTY_TYPES,
    TTL_MS_MAX,
    PropertiesError,
    decode_properties,
    encode_properties,
    expiration_ms,
)

EVERY_PROPERTY = {
    "content_type": "text/plain", "content_encoding": "gzip",
    "headers": {"a": ("I", 1), "b": ("S", "two")},
    "delivery_mode": 2, "priority": 5, "correlation_id": "c-1", "reply_to": "answers",
    "expiration": "60000", "message_id": "m-1", "timestamp": 1_700_000_000, "type": "order",
    "user_id": "guest", "app_id": "shop", "cluster_id": "",
}  # fmt: skip


def header(**properties):
    """Return the content header of a message with these properties."""
    return read_header(encode_properties(properties))


def test_a_message_without_properties():
    empty = read_header(b"\0\0")
    assert empty.properties == {}
    assert empty.headers == {}
    assert empty.delivery_mode == 1
    assert empty.priority is None
    assert not empty.is_persistent
    assert not empty.needs_care


def test_every_property_comes_back():
    assert list(EVERY_PROPERTY) == [name for name, _, _ in PROPERTY_TYPES]
    raw = encode_properties(EVERY_PROPERTY)
    assert decode_properties(raw) == EVERY_PROPERTY
    every = read_header(raw)
    assert every.raw == raw
    assert every.properties == EVERY_PROPERTY
    assert every.headers == EVERY_PROPERTY["headers"]
    assert (every.delivery_mode, every.priority) == (2, 5)


@pytest.mark.parametrize("name", EVERY_PROPERTY)
def test_each_property_alone(name):
    raw = encode_properties({name: EVERY_PROPERTY[name]})
    assert decode_properties(raw) == {name: EVERY_PROPERTY[name]}
    assert read_header(raw).properties == {name: EVERY_PROPERTY[name]}


@pytest.mark.parametrize("name", EVERY_PROPERTY)
def test_properties_that_end_early_are_none(name):
    raw = encode_properties({name: EVERY_PROPERTY[name]})
    for size in range(len(raw)):
        with pytest.raises(PropertiesError):
            read_header(raw[:size])


@pytest.mark.parametrize("name", EVERY_PROPERTY)
def test_properties_that_go_on_too_long_are_none(name):
    with pytest.raises(PropertiesError):
        read_header(encode_properties({name: EVERY_PROPERTY[name]}) + b"\0")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\0",
        b"\0\0\0",
        b"\x00\x01\x00\x00",  # a further word of flags is announced
        b"\x10\x01\x02",  # likewise, besides a delivery mode
        b"\x18\x00\x02",  # a priority is announced and missing
        b"\x20\x00\x00\x00\x00\x03\x01aZ",  # a table with an unknown type
        b"\x80\x00\x05abc",  # a truncated short string
        b"\x88\x00\x05abc\x01",  # likewise, with data behind it
        b"\x00\x40\x00\x00\x00",  # a truncated timestamp
    ],
)
def test_malformed_properties(raw):
    with pytest.raises(PropertiesError):
        read_header(raw)


@pytest.mark.parametrize(
    ("mode", "is_persistent", "needs_care"),
    [(1, False, False), (2, True, False), (0, False, True), (3, False, True)],
)
def test_delivery_modes(mode, is_persistent, needs_care):
    message = header(delivery_mode=mode)
    assert message.delivery_mode == mode
    assert message.is_persistent is is_persistent
    assert message.needs_care is needs_care


@pytest.mark.parametrize(
    "properties",
    [
        {"expiration": ""},
        {"expiration": "+5"},
        {"expiration": "-1"},
        {"expiration": "5x"},
        {"expiration": str(TTL_MS_MAX + 1)},
        {"expiration": "0" * 12 + "1"},
        {"user_id": "guest"},
        {"headers": {"CC": ("A", [])}},
        {"headers": {"BCC": ("A", [])}},
        {"reply_to": DIRECT_REPLY_TO},
        {"reply_to": DIRECT_REPLY_TO + ".abc"},
        {"delivery_mode": 7, "headers": {}},
    ],
)
def test_what_the_publish_path_must_look_at(properties):
    assert header(**properties).needs_care


@pytest.mark.parametrize(
    "properties",
    [
        {"headers": {"cc": ("A", [])}},
        {"reply_to": "answers"},
        {"content_type": "CC"},
        {"expiration": "1000"},
        {"correlation_id": DIRECT_REPLY_TO},
        {"delivery_mode": 2, "priority": 9, "timestamp": 1, "message_id": "m"},
    ],
)
def test_what_it_need_not_look_at(properties):
    assert not header(**properties).needs_care


@pytest.mark.parametrize("ttl_ms", [0, 7, 60_000, TTL_MS_MAX])
@pytest.mark.parametrize("others", [{}, EVERY_PROPERTY])
def test_an_expiration_in_plain_digits_is_read_from_the_bytes(ttl_ms, others):
    message = header(**{**others, "expiration": str(ttl_ms)})
    assert message.expires
    assert (expiration_ms(message.raw), message.ttl_ms) == (ttl_ms, ttl_ms)
    other = header(**{**others, "expiration": "5"})
    assert other.run_kind == message.run_kind


def test_a_message_without_an_expiration_does_not_expire():
    message = header(message_id="1000")
    assert not message.expires
    assert message.ttl_ms is None
    assert message.run_kind != header(message_id="1000", expiration="1000").run_kind


def test_replacing_a_property_makes_another_header():
    first = header(content_type="text/plain", expiration="5", headers={"a": ("t", True)})
    second = first.replace(expiration=None, priority=3, headers={"b": ("t", False)})
    assert second.properties == {
        "content_type": "text/plain", "headers": {"b": ("t", False)}, "priority": 3,
    }  # fmt: skip
    assert second.priority == 3
    assert not second.needs_care
    assert first.properties["expiration"] == "5"
    assert first.headers == {"a": ("t", True)}


def test_replacing_nothing_keeps_the_bytes():
    raw = encode_properties(EVERY_PROPERTY)
    assert read_header(raw).replace().raw == raw


def test_text_that_is_not_utf_8_survives_a_replacement():
    raw = b"\x80\x08" + b"\2\xff\xfe" + b"\1\x80"
    assert read_header(raw).replace(priority=1).replace(priority=None).raw == raw
