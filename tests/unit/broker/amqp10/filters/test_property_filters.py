"""Filters of properties and application properties: prefixes, suffixes, types, limits."""

import pytest

from leveret.broker.amqp10.filters.message_filter import MessageFilter
from leveret.broker.amqp10.filters.property_filters import (
    APPLICATION_PROPERTIES,
    PROPERTIES,
    FilterError,
    read_property_filter,
)
from leveret.broker.amqp10.sections import Amqp10Message, data_section, encode_message
from leveret.broker.amqp10.values import Value


def text(content):
    return Value("string", content)


def symbol(content):
    return Value("symbol", content)


ABSENT = Value("null", None)


def selects(section, name, wanted, found):
    """Whether a filter for one field lets a message with this value pass."""
    message = Amqp10Message()
    message.body = data_section(b"")
    if section == PROPERTIES:
        message.properties = {name: found}
        key = symbol(name)
    else:
        message.application_properties = [] if found is ABSENT else [(text(name), found)]
        key = text(name)
    data = encode_message(message)
    condition = read_property_filter(section, Value("map", [(key, wanted)])).matches
    return MessageFilter([condition]).matches(data, 0, len(data))


@pytest.mark.parametrize(
    ("name", "wanted", "found"),
    [
        ("message-id", Value("ulong", 5), Value("ulong", 5)),
        ("message-id", text("&p:ab"), text("abc")),
        ("user-id", Value("binary", b"me"), Value("binary", b"me")),
        ("to", text("&s:/key"), text("/exchanges/e/key")),
        ("subject", text("&&p:x"), text("&p:x")),
        ("subject", text("&p:"), text("")),
        ("reply-to", text("r"), text("r")),
        ("correlation-id", Value("uuid", bytes(16)), Value("uuid", bytes(16))),
        ("content-type", symbol("&p:x"), symbol("&p:x")),
        ("content-encoding", symbol("gzip"), symbol("gzip")),
        ("absolute-expiry-time", Value("timestamp", 9), Value("timestamp", 9)),
        ("creation-time", Value("timestamp", 9), Value("timestamp", 9)),
        ("group-id", text("g"), text("g")),
        ("group-sequence", Value("uint", 9), Value("uint", 9)),
        ("reply-to-group-id", text("&s:d"), text("abcd")),
    ],
)
def test_each_property_can_be_asked_for(name, wanted, found):
    assert selects(PROPERTIES, name, wanted, found)
    assert not selects(PROPERTIES, name, wanted, Value("null", None))


@pytest.mark.parametrize(
    ("wanted", "found", "passes"),
    [
        (text("x"), text("x"), True),
        (text("x"), symbol("x"), True),
        (text("x"), text("X"), False),
        (text("&p:x"), Value("int", 1), False),
        (Value("int", 5), Value("double", 5.0), True),
        (Value("int", 1), Value("boolean", True), False),
        (Value("boolean", True), Value("boolean", True), True),
        (ABSENT, text("anything"), True),
        (ABSENT, ABSENT, False),
        (text("x"), ABSENT, False),
        (Value("list", []), Value("list", []), False),
    ],
)
def test_application_properties_are_compared_by_value(wanted, found, passes):
    assert selects(APPLICATION_PROPERTIES, "k", wanted, found) is passes


def test_all_fields_of_a_filter_have_to_match():
    message = Amqp10Message()
    message.properties = {"subject": text("s")}
    message.body = data_section(b"")
    data = encode_message(message)
    pairs = [(symbol("subject"), text("s")), (symbol("to"), text("t"))]
    condition = read_property_filter(PROPERTIES, Value("map", pairs)).matches
    assert not MessageFilter([condition]).matches(data, 0, len(data))


@pytest.mark.parametrize(
    ("section", "content", "reason"),
    [
        (PROPERTIES, Value("list", []), "is a map with entries, and not a list"),
        (PROPERTIES, Value("map", []), "is a map with entries"),
        (PROPERTIES, Value("map", [(text("subject"), text("s"))]), "cannot be of the type string"),
        (PROPERTIES, Value("map", [(symbol("colour"), text("s"))]), "'colour' cannot be"),
        (PROPERTIES, Value("map", [(symbol("subject"), Value("int", 1))]), "of the type int"),
        (PROPERTIES, Value("map", [(symbol("subject"), text("&x:s"))]), "modifier"),
        (APPLICATION_PROPERTIES, Value("map", [(symbol("k"), text("v"))]), "are strings"),
        (APPLICATION_PROPERTIES, Value("map", [(text(str(n)), text("v")) for n in range(17)]),
         "has 17 fields; 16 are allowed"),
    ],
)  # fmt: skip
def test_filters_that_are_refused(section, content, reason):
    with pytest.raises(FilterError, match=reason):
        read_property_filter(section, content)
