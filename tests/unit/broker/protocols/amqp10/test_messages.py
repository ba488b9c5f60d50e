"""Messages of AMQP 1.0 as queues keep them, and messages of other protocols for its clients."""

import pytest

from leveret.broker.amqp.content_header import header_with, read_stored
from leveret.broker.amqp10.sections import Amqp10Message, data_section, encode_message, read_message
from leveret.broker.amqp10.values import Value, encode_described
from leveret.broker.protocols.amqp10.messages import (
    AnnotationRefused,
    Delivered,
    read_published,
)
from leveret.broker.protocols.mqtt.messages import flags_and_properties, make_header_of
from leveret.broker.protocols.mqtt.properties import (
    CONTENT_TYPE,
    CORRELATION_DATA,
    RESPONSE_TOPIC,
    USER_PROPERTY,
    encode_each,
)
from leveret.broker.protocols.mqtt.topics import Topics
from leveret.storage.messages.message import Address

ADDRESS = Address("amq.topic", "a.b", b"\x09amq.topic\x03a.b")
FOOTER = encode_described(0x78, b"\xc1\x01\x00")


def text(content):
    return Value("string", content)


def published(body, **sections):
    message = Amqp10Message()
    message.body = body
    for name, content in sections.items():
        setattr(message, name, content)
    message.has_header = bool(message.header)
    return encode_message(message)


def delivered(header, body, redelivered=False):
    return read_message(Delivered(header, ADDRESS).payload(body, redelivered))


@pytest.mark.parametrize(
    "body",
    [
        data_section(b"body"),
        data_section(b"one") + data_section(b"") + data_section(b"two"),
        data_section(b"x" * 300) + FOOTER,
        encode_described(0x77, b"\xa1\x04text"),
        encode_described(0x77, b"\xa1\x04text") + FOOTER,
        encode_described(0x76, b"\x45") + encode_described(0x76, b"\x45"),
    ],
)
def test_a_body_comes_back_as_it_was_sent(body):
    found = read_published(published(body))
    # As after a restart: only the stored form is left.
    header = read_stored(found.header.stored)
    assert delivered(header, found.body).body == body


def test_bodies_of_data_are_plain_for_other_protocols():
    found = read_published(published(data_section(b"one") + data_section(b"two")))
    assert (found.body, found.header.properties.get("type")) == (b"onetwo", None)
    other = read_published(published(encode_described(0x77, b"\x41")))
    assert (other.body, other.header.properties["type"]) == (b"\0\x53\x77\x41", "amqp-1.0")


def test_many_annotations_come_back_without_those_of_the_broker():
    own = [(Value("symbol", f"x-{number}"), text("v" * 9)) for number in range(200)]
    annotations = [(Value("symbol", "x-exchange"), text("old")), *own]
    found = read_published(published(data_section(b""), message_annotations=annotations))
    assert delivered(found.header, b"").message_annotations == [
        (Value("symbol", "x-exchange"), text("amq.topic")),
        (Value("symbol", "x-routing-key"), text("a.b")),
        *own,
    ]


def test_annotations_need_names_with_x():
    for key in (Value("symbol", "own"), Value("ulong", 1)):
        with pytest.raises(AnnotationRefused):
            read_published(published(b"", message_annotations=[(key, text("v"))]))


def test_the_header_of_a_delivery():
    found = read_published(published(data_section(b""), header={"ttl": Value("uint", 500)}))
    assert delivered(found.header, b"", redelivered=True).header == {
        "durable": Value("boolean", False), "ttl": Value("uint", 500),
        "first-acquirer": Value("boolean", False), "delivery-count": Value("uint", 0),
    }  # fmt: skip
    returned = header_with(headers={"x-delivery-count": ("l", 3)})
    assert delivered(returned, b"").header["delivery-count"] == Value("uint", 3)


def test_a_message_of_mqtt():
    properties = {
        CORRELATION_DATA: b"corr", RESPONSE_TOPIC: "answers/x", USER_PROPERTY: [("a", "b")],
    }  # fmt: skip
    header = make_header_of(properties, 1, False, Topics(False))
    message = delivered(header, b"m")
    assert message.properties == {
        "correlation-id": Value("binary", b"corr"),
        "reply-to": text("/exchanges/amq.topic/answers.x"),
    }
    assert message.application_properties == [(text("a"), text("b"))]
    assert message.data == b"m"


def test_a_message_for_mqtt():
    sections = {
        "properties": {
            "correlation-id": text("corr"), "reply-to": text("/exchanges/amq.topic/answers%2Ex"),
        },
        "application_properties": [(text("number"), Value("int", 7))],
    }  # fmt: skip
    found = read_published(published(data_section(b"m"), **sections))
    expected = {
        CORRELATION_DATA: b"corr", RESPONSE_TOPIC: "answers/x", USER_PROPERTY: [("number", "7")],
    }  # fmt: skip
    flags, properties = flags_and_properties(found.header, Topics(False))
    assert (flags, sorted(properties)) == (0, sorted(encode_each(expected)))


def test_a_body_that_is_no_data_for_mqtt():
    found = read_published(published(encode_described(0x77, b"\x41")))
    _, properties = flags_and_properties(found.header, Topics(False))
    assert properties == encode_each({CONTENT_TYPE: "message/vnd.rabbitmq.amqp"})
