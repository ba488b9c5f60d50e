"""Messages of QoS 2, their records, and barriers, as messages of queues (pure).

A message has its packet identifier and its identity in its form, which consumers of other protocols
do not see. After the flags of every form of MQTT:

    2 bytes     packet identifier
    16 bytes    identity (exactly_once.py)
    8 bytes     lowest number that its source may still use
    1 byte      1 if it may be handed over again
    the rest    properties, as in every form

A record is the body of a message in a queue of records:

    1 byte      fact; 0 for a mark, whose identity is random
    1 byte      1 if it is of a message that may be handed over again
    2 bytes     packet identifier
    8 bytes     its place in the order of the queue's records
    16 bytes    identity
"""

from struct import Struct
from typing import Final, NamedTuple

from leveret.broker.amqp.content_header import ContentHeader, Form, make_header
from leveret.broker.amqp.field_table import Table
from leveret.broker.amqp.properties import PERSISTENT, STORED_FORM, encode_properties
from leveret.broker.protocols.mqtt.exactly_once import Fact, Record, number_of
from leveret.broker.protocols.mqtt.messages import EXACTLY_ONCE_FORM, EXACTLY_ONCE_HEAD_BYTES
from leveret.storage.messages.message import Header

BARRIER_FORM: Final = "mqtt-barrier"
_HEAD: Final = Struct(">H16sQB")
_RECORD: Final = Struct(">BBHQ16s")
_MARK: Final = 0
assert _HEAD.size == EXACTLY_ONCE_HEAD_BYTES, "messages.py skips the head"


class TrackedPublish(NamedTuple):
    """The packet identifier and the identity of a message of QoS 2."""

    packet_id: int
    identity: bytes
    oldest_number: int
    is_repeatable: bool


class Ordered(NamedTuple):
    """A record and its place in the order of its queue. record: None for a mark."""

    order: int
    identity: bytes
    record: Record | None


def tracked_header(plain: ContentHeader, tracked: TrackedPublish) -> ContentHeader:
    """The header of a message of QoS 2. plain: that of the same message with QoS 1."""
    flags, properties = (b"\0", b"") if plain.form is None else (
        plain.form.data[:1], plain.form.data[1:],
    )  # fmt: skip
    head = _HEAD.pack(
        tracked.packet_id, tracked.identity, tracked.oldest_number, tracked.is_repeatable
    )
    form = Form(EXACTLY_ONCE_FORM, flags + head + properties)
    headers: Table = dict(plain.headers)
    headers[STORED_FORM] = ("A", [("S", form.protocol), ("x", form.data)])
    stored = encode_properties({**plain.properties, "headers": headers})
    return ContentHeader(plain.raw, plain.kind, (), False, stored, None, form)


def read_tracked(header: Header) -> TrackedPublish | None:
    """Its packet identifier and its identity; None if the message is not of QoS 2."""
    form = header.form if isinstance(header, ContentHeader) else None
    if form is None or form.protocol != EXACTLY_ONCE_FORM:
        return None
    packet_id, identity, oldest_number, is_repeatable = _HEAD.unpack_from(form.data, 1)
    return TrackedPublish(packet_id, identity, oldest_number, bool(is_repeatable))


def barrier_header(nonce: bytes) -> ContentHeader:
    """The header of a barrier."""
    return make_header({"delivery_mode": PERSISTENT}, form=Form(BARRIER_FORM, nonce))


def nonce_of(header: Header) -> bytes | None:
    """The nonce of a barrier; None for another message."""
    form = header.form if isinstance(header, ContentHeader) else None
    return form.data if form is not None and form.protocol == BARRIER_FORM else None


def encode_record(record: Record, order: int) -> bytes:
    """A record as a body."""
    fact = record.fact.value
    return _RECORD.pack(fact, record.is_repeatable, record.packet_id, order, record.identity)


def encode_mark(nonce: bytes, order: int) -> bytes:
    """A mark as a body. nonce: 16 bytes."""
    return _RECORD.pack(_MARK, False, 0, order, nonce)


def decode_entry(header: Header, body: bytes) -> Ordered | None:
    """A message of a queue of records: a record, a mark, or a message with its RECEIVED.

    None if it is none of these: another client has published it.
    """
    tracked = read_tracked(header)
    if tracked is not None:
        record = Record(Fact.RECEIVED, tracked.packet_id, tracked.identity)
        return Ordered(number_of(tracked.identity), tracked.identity, record)
    if len(body) != _RECORD.size:
        return None
    fact, is_repeatable, packet_id, order, identity = _RECORD.unpack(body)
    if fact == _MARK:
        return Ordered(order, identity, None)
    if fact > max(one.value for one in Fact):
        return None
    return Ordered(order, identity, Record(Fact(fact), packet_id, identity, bool(is_repeatable)))
