"""The properties of an MQTT message as those of AMQP 0-9-1, and back (pure).

QoS 1 is delivery mode 2, and QoS 0 is delivery mode 1. Properties that only MQTT 5.0 has are kept
as a `Form` beside the others (broker/amqp/content_header.py), a byte of flags and the encoded
properties, so that subscribers of MQTT 5.0 get them unchanged. Messages without such properties
share one header for each QoS.

A message that was published with another protocol has a content type, correlation data, a response
topic and user properties in MQTT 5.0, and no message expiry interval, as in RabbitMQ.
"""

from typing import Any, Final
from urllib.parse import unquote

from leveret.broker.amqp.annotations import is_annotation
from leveret.broker.amqp.content_header import ContentHeader, Form, header_with, make_header
from leveret.broker.amqp.field_table import Table
from leveret.broker.amqp.properties import (
    PERSISTENT,
    STORED_BCC,
    STORED_FORM,
    STORED_RETRY,
    TRANSIENT,
    TTL_MS_MAX,
)
from leveret.broker.amqp10.conversion import ENCODED_BODY_TYPE
from leveret.broker.protocols.mqtt.properties import (
    CONTENT_TYPE,
    CORRELATION_DATA,
    MESSAGE_EXPIRY_INTERVAL,
    PAYLOAD_FORMAT_INDICATOR,
    RESPONSE_TOPIC,
    USER_PROPERTY,
    Properties,
    encode_each,
)
from leveret.broker.protocols.mqtt.topics import Topics

FORM: Final = "mqtt"
EXACTLY_ONCE_FORM: Final = "mqtt-qos2"
"""The form of a message of QoS 2: it has a head after the flags (exactly_once_messages.py)."""
EXACTLY_ONCE_HEAD_BYTES: Final = 27
RETAIN: Final = 1
EXPIRES: Final = 2
DELAYED: Final = 4
"""The flags of a form. EXPIRES: it was published with a message expiry interval. DELAYED: it waits
until it is published, and this interval, which begins then, is its first property."""
_DELAYED_EXPIRY_BYTES: Final = 5
SHORT_BYTES_MAX: Final = 255
RESPONSE_TOPIC_HEADER: Final = "x-reply-to-topic"
_PASSED_ON: Final = (
    PAYLOAD_FORMAT_INDICATOR, CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION_DATA, USER_PROPERTY,
)  # fmt: skip
_NOT_HEADERS: Final = frozenset(("CC", "BCC", "x-death", STORED_BCC, STORED_FORM, STORED_RETRY))
"""User properties with these names are no headers, since they have a meaning there."""
_NOT_USER_PROPERTIES: Final = frozenset((RESPONSE_TOPIC_HEADER, "x-death"))

AMQP_1_0_FORM: Final = "amqp10"
"""The form of messages of AMQP 1.0, whose reply-to is an address: `/exchanges/EXCHANGE/KEY`."""
ENCODED_CONTENT_TYPE: Final = "message/vnd.rabbitmq.amqp"
"""RabbitMQ's content type of a body of AMQP 1.0 that is no data and stays encoded."""

QOS_0: Final = header_with(delivery_mode=TRANSIENT)
QOS_1: Final = header_with(delivery_mode=PERSISTENT)


def make_header_of(
    properties: Properties, qos: int, retain: bool, topics: Topics, is_delayed: bool = False
) -> ContentHeader:
    """The header of a message that was published with these properties.

    is_delayed: the message waits in a queue until it is published, and its lifetime begins then
    (`header_after_delay`).
    """
    delivery_mode = PERSISTENT if qos else TRANSIENT
    if not properties and not retain:
        return QOS_1 if qos else QOS_0
    fields: dict[str, Any] = {"delivery_mode": delivery_mode}
    _add_short(fields, "content_type", properties.get(CONTENT_TYPE))
    correlation: bytes | None = properties.get(CORRELATION_DATA)
    if correlation is not None:
        _add_short(fields, "correlation_id", _text_or_none(correlation))
    headers = _headers(properties, topics)
    if headers:
        fields["headers"] = headers
    flags = RETAIN if retain else 0
    expiry_s: int | None = properties.get(MESSAGE_EXPIRY_INTERVAL)
    # In the publisher's order.
    kept = {key: value for key, value in properties.items() if key in _PASSED_ON}
    if expiry_s is not None and is_delayed:
        flags |= DELAYED
        kept = {MESSAGE_EXPIRY_INTERVAL: expiry_s, **kept}
    elif expiry_s is not None:
        fields["expiration"] = str(min(expiry_s * 1000, TTL_MS_MAX))
        flags |= EXPIRES
    return make_header(fields, form=Form(FORM, bytes((flags,)) + encode_each(kept)))


def header_after_delay(header: ContentHeader) -> ContentHeader:
    """The header of a message whose delay is over: its message expiry interval begins."""
    form = header.form
    if form is None or form.protocol != FORM or not form.data[0] & DELAYED:
        return header
    expiry_s = int.from_bytes(form.data[2 : 1 + _DELAYED_EXPIRY_BYTES], "big")
    flags = bytes((form.data[0] & ~DELAYED | EXPIRES,))
    fields = {**header.properties, "expiration": str(min(expiry_s * 1000, TTL_MS_MAX))}
    kept = Form(FORM, flags + form.data[1 + _DELAYED_EXPIRY_BYTES :])
    return make_header(fields, header.bcc_keys, kept)


def _headers(properties: Properties, topics: Topics) -> Table:
    headers: Table = {}
    for name, value in properties.get(USER_PROPERTY, ()):
        if name not in _NOT_HEADERS and _is_short(name):
            headers[name] = ("S", value)
    response_topic: str | None = properties.get(RESPONSE_TOPIC)
    if response_topic is not None:
        topic = response_topic.encode("utf-8", "surrogateescape")
        headers[RESPONSE_TOPIC_HEADER] = ("S", topics.routing_key(topic))
    return headers


def _is_short(text: str) -> bool:
    return len(text.encode("utf-8", "surrogateescape")) <= SHORT_BYTES_MAX


def _text_or_none(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _add_short(fields: dict[str, Any], name: str, value: str | None) -> None:
    if value is not None and _is_short(value):
        fields[name] = value


def flags_and_properties(header: ContentHeader, topics: Topics) -> tuple[int, bytes]:
    """The flags of a message's form, and its properties as MQTT 5.0 subscribers get them.

    The properties are without their length, and without a message expiry interval.
    """
    form = header.form
    if form is not None and form.protocol == FORM:
        return form.data[0], form.data[1:]
    if form is not None and form.protocol == EXACTLY_ONCE_FORM:
        return form.data[0], form.data[1 + EXACTLY_ONCE_HEAD_BYTES :]
    if header.raw in (QOS_0.raw, QOS_1.raw):
        return 0, b""
    return 0, encode_each(_from_amqp(header, topics))


def _from_amqp(header: ContentHeader, topics: Topics) -> Properties:
    """The MQTT properties of a message that was published with another protocol."""
    fields = header.properties
    properties: Properties = {}
    if fields.get("type") == ENCODED_BODY_TYPE:
        properties[CONTENT_TYPE] = ENCODED_CONTENT_TYPE
    elif "content_type" in fields:
        properties[CONTENT_TYPE] = fields["content_type"]
    headers = header.headers
    response_key = _response_key(header)
    if response_key is not None:
        properties[RESPONSE_TOPIC] = topics.topic(response_key)
    if "correlation_id" in fields:
        properties[CORRELATION_DATA] = fields["correlation_id"].encode("utf-8", "surrogateescape")
    pairs = [
        (name, text)
        for name, (letter, value) in headers.items()
        if name not in _NOT_USER_PROPERTIES
        and not is_annotation(name)
        and (text := _as_text(letter, value)) is not None
    ]
    if pairs:
        properties[USER_PROPERTY] = pairs
    return properties


def _response_key(header: ContentHeader) -> str | None:
    """The routing key of the response topic; None if there is none."""
    topic = header.headers.get(RESPONSE_TOPIC_HEADER)
    if topic is not None:
        return str(topic[1]) if topic[0] == "S" else None
    form = header.form
    if form is None or form.protocol != AMQP_1_0_FORM:
        return None
    match str(header.properties.get("reply_to", "")).split("/"):
        case ["", "exchanges", _, key]:
            return unquote(key)
    return None


def _as_text(letter: str, value: Any) -> str | None:
    """The value of a header as a user property; None for a table and the like."""
    if isinstance(value, str):
        text = value
    elif isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, int | float) and letter != "D":
        text = str(value)
    else:
        return None
    return text if len(text.encode("utf-8", "surrogateescape")) <= 65_535 else None
