"""Messages of AMQP 1.0 as queues keep them, and messages of queues as clients of AMQP 1.0 get them.

A message is published with properties of AMQP 0-9-1 (broker/amqp10/conversion.py), which routing,
queues and clients of other protocols read. The sections that its publisher has sent are kept beside
them as a `Form`, still encoded, and are sent to clients of AMQP 1.0 without being decoded:

    annotations    how many, and their encoded keys and values, without those that the broker sets
    sections       the sections `properties` and `application-properties`
    footer         the section after the body
    data_sizes     the sizes of the data sections, if there are several

A message with a body of one data section, without annotations and without a footer has a form with
nothing but the sections, which begin with a zero, as no form of the other kind does. Most messages
are of this kind, and are read and written without this module (message_reading.py,
delivery_writing.py).

A body of one data section is kept as its bytes, so that clients of other protocols get these; so is
the sum of several. A body of another kind stays encoded, with the property `type` `amqp-1.0`.
"""

from typing import Final, NamedTuple

import msgspec
from librt.strings import BytesWriter

from leveret.broker.amqp.annotations import RECEIVED_AT, RECEIVED_AT_IN_1_0, is_annotation
from leveret.broker.amqp.content_header import ContentHeader, Form, make_header
from leveret.broker.amqp.field_table import Field, Table
from leveret.broker.amqp10.conversion import (
    ENCODED_BODY_TYPE,
    ConversionRules,
    to_amqp091,
)
from leveret.broker.amqp10.deaths import DEATHS, OPTIONAL_DEATHS, deaths_of
from leveret.broker.amqp10.properties_to_sections import SectionsWriter, address_annotations
from leveret.broker.amqp10.sections import (
    APPLICATION_PROPERTIES,
    DATA,
    FOOTER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    Amqp10Message,
    Pairs,
    encode_message,
    read_message,
    section_at,
    size_without_body,
)
from leveret.broker.amqp10.stored_entries import ENTRY_FORM
from leveret.broker.amqp10.unsigned import UINT_MAX
from leveret.broker.amqp10.values import (
    Value,
    decode,
    encode,
    encode_described,
    encode_list,
)
from leveret.broker.protocols.amqp10.addresses import encode_name
from leveret.broker.queues.dead_letters.header import DEATH_HEADERS
from leveret.storage.messages.message import Address

FORM: Final = "amqp10"
"""The name of the protocol in a `Form`."""
SECTION_START: Final = 0
"""The first byte of a form that is nothing but sections."""
_RULES: Final = ConversionRules(is_4=True)
_RULES_OF_4_2: Final = ConversionRules(is_4=True, is_durable=False)
SECTIONS_BYTES_MAX: Final = 128 * 1024
"""The sections of a message besides its body are decoded in one turn of the event loop, which takes
a tenth of a second for this many bytes. They are at most as large in AMQP 0-9-1, where they have to
fit into a frame."""
OF_BROKER: Final = frozenset(("x-exchange", "x-routing-key"))
"""Annotations that the broker sets."""
_DELIVERY_COUNT: Final = "x-delivery-count"
_COUNTS: Final = frozenset((_DELIVERY_COUNT, "x-acquired-count"))
"""Headers of deliveries of quorum queues."""


class AnnotationRefused(ValueError):
    """A message has an annotation whose name does not begin with `x-`."""


class SectionsTooLarge(ValueError):
    """The sections of a message but for its body exceed SECTIONS_BYTES_MAX."""

    def __init__(self, size: int) -> None:
        super().__init__(
            f"the sections of a message besides its body have {size} bytes, more than "
            f"{SECTIONS_BYTES_MAX}"
        )


class Kept(msgspec.Struct, array_like=True):
    """The data of a `Form`."""

    annotation_count: int
    annotations: bytes
    sections: bytes
    footer: bytes
    data_sizes: list[int]


class Published(NamedTuple):
    """A message to publish. to, subject, user: its properties; None without them."""

    header: ContentHeader
    body: bytes
    to: str | None
    subject: str | None
    user: str | None


def read_published(payload: bytes, is_durable: bool = True) -> Published:
    """The message in the payload of transfers.

    is_durable: whether it is durable if it has no header section. Raises Amqp10Error,
    AnnotationRefused, SectionsTooLarge.
    """
    size = size_without_body(payload)
    if size > SECTIONS_BYTES_MAX:
        raise SectionsTooLarge(size)
    message = read_message(payload, is_ordered=False)
    for key, _ in message.message_annotations:
        if not (isinstance(key.value, str) and key.value.startswith("x-")):
            raise AnnotationRefused(
                f"the message annotation {key.value!r} is refused: its name must begin with 'x-'"
            )
    converted = to_amqp091(message, _RULES if is_durable else _RULES_OF_4_2)
    properties = message.properties
    header = make_header(converted.properties, (), Form(FORM, _keep(payload, message)))
    user = properties.get("user-id")
    return Published(
        header,
        converted.body,
        _text(properties.get("to")),
        _text(properties.get("subject")),
        None if user is None or user.kind != "binary" else _decoded(user.value),
    )


def _text(value: Value | None) -> str | None:
    return value.value if value is not None and value.kind == "string" else None


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _keep(payload: bytes, message: Amqp10Message) -> bytes:
    """The data of the form of a message."""
    sections: list[bytes] = []
    footer, data_sizes = b"", []
    at = 0
    while at < len(payload):
        code, content_at, after = section_at(payload, at)
        if code in (PROPERTIES, APPLICATION_PROPERTIES):
            sections.append(payload[at:after])
        elif code == DATA:
            data_sizes.append(len(decode(payload, content_at)[0].value))
        elif code == FOOTER and message.data is not None:
            footer = payload[at:after]
        at = after
    kept = [pair for pair in message.message_annotations if pair[0].value not in OF_BROKER]
    if not kept and not footer and len(data_sizes) == 1:
        return b"".join(sections)
    return msgspec.msgpack.encode(
        Kept(
            len(kept), encode_pairs(kept), b"".join(sections), footer,
            data_sizes if len(data_sizes) > 1 else [],
        )
    )  # fmt: skip


def encode_pairs(pairs: Pairs) -> bytes:
    """The keys and values of a map, without its size."""
    return b"".join(encode(item) for pair in pairs for item in pair)


# Deliveries


def annotations_of(address: Address, others: bytes = b"", count: int = 0) -> bytes:
    """The section of message annotations. others: encoded, behind those of the address."""
    items = address_annotations(address.encoded, True) + others
    count = 2 * (2 + count)
    if len(items) < 255 and count < 256:
        encoded = bytes((0xC1, len(items) + 1, count)) + items
    else:
        size = (len(items) + 4).to_bytes(4, "big")
        encoded = b"\xd1" + size + count.to_bytes(4, "big") + items
    return encode_described(MESSAGE_ANNOTATIONS, encoded)


class Delivered:
    """The parts that deliveries of messages with one header and one address share."""

    __slots__ = ("_delivery_count", "_durable", "_is_first", "_priority", "_sections", "_ttl",
                 "_whole", "address", "data_sizes", "footer", "header", "is_encoded")  # fmt: skip

    def __init__(self, header: ContentHeader, address: Address) -> None:
        self.header = header
        self.address = address
        properties = header.properties
        self.is_encoded = properties.get("type") == ENCODED_BODY_TYPE
        """Whether the body consists of encoded sections."""
        self._durable = Value("boolean", properties.get("delivery_mode") == 2)
        priority = properties.get("priority")
        self._priority = Value("null", None) if priority is None else Value("ubyte", priority)
        self._ttl = Value("null", None)
        expiration = properties.get("expiration")
        if header.expires and expiration is not None:
            # The kind of a dead letter still has the flag, although its expiration was removed.
            self._ttl = Value("uint", min(int(expiration), UINT_MAX))
        count = header.headers.get(_DELIVERY_COUNT)
        self._delivery_count = 0
        if count is not None and count[0] in "bsIlBui":
            # The header may be the publisher's.
            self._delivery_count = min(max(0, int(count[1])), UINT_MAX)
        self._is_first = not self._delivery_count and DEATHS not in header.headers
        self.footer = b""
        self.data_sizes: list[int] = []
        form = header.form
        self._whole = b""
        if form is not None and form.protocol == FORM:
            self._sections = self._of_form(form, address)
        elif form is not None and form.protocol == ENTRY_FORM:
            self._sections, self._whole = b"", form.data
            if header.stored is not header.raw:
                # An interceptor has replaced the header that was read.
                self._whole = _with_annotations(form.data, header.headers)
        else:
            self._sections = self._converted(header, address)

    def _of_form(self, form: Form, address: Address) -> bytes:
        if not form.data or form.data[0] == SECTION_START:
            added = _annotations_added(self.header.headers, b"")
            return annotations_of(address, encode_pairs(added), len(added)) + form.data
        kept = msgspec.msgpack.decode(form.data, type=Kept)
        self.footer, self.data_sizes = kept.footer, kept.data_sizes
        added = _annotations_added(self.header.headers, kept.annotations)
        others = kept.annotations + encode_pairs(added)
        count = kept.annotation_count + len(added)
        return annotations_of(address, others, count) + kept.sections

    @staticmethod
    def _converted(header: ContentHeader, address: Address) -> bytes:
        form = header.form
        if form is not None and form.protocol == _MQTT:
            return _of_mqtt(header, address)
        if DEATHS in header.headers:
            return _with_moved_deaths(header, address)
        writer = BytesWriter()
        SectionsWriter(is_4=True).write(
            writer, header.raw, address_annotations(address.encoded, True)
        )
        sections = writer.getvalue()
        # The header section differs between deliveries.
        assert sections.startswith(_HEADER_SECTION), "RabbitMQ 4 writes a header for each message"
        return sections[len(_HEADER_SECTION) + 1 + sections[len(_HEADER_SECTION)] :]

    def payload(self, body: bytes, redelivered: bool) -> bytes:
        """The sections of a message with this body."""
        if self._whole:
            return self._whole
        header = encode_described(
            _HEADER,
            encode_list(
                [
                    encode(self._durable),
                    encode(self._priority),
                    encode(self._ttl),
                    encode(Value("boolean", self._is_first and not redelivered)),
                    encode(Value("uint", self._delivery_count)),
                ]
            ),
        )
        if self.is_encoded:
            return b"".join((header, self._sections, body))
        body_sections = self._several(body) if self.data_sizes else data_prefix(len(body)) + body
        return b"".join((header, self._sections, body_sections, self.footer))

    def _several(self, body: bytes) -> bytes:
        pieces, at = [], 0
        for size in self.data_sizes:
            pieces.append(data_prefix(size) + body[at : at + size])
            at += size
        return b"".join(pieces)


def _with_annotations(sections: bytes, headers: Table) -> bytes:
    """The sections of a message, with the annotations that these headers have beside its own."""
    message = read_message(sections, is_ordered=False)
    message.message_annotations += _annotations_added(headers, sections)
    return encode_message(message)


def _annotations_added(headers: Table, known: bytes) -> Pairs:
    """The annotations that were added to a message later. known: its own, encoded."""
    return [
        pair
        for name, field in headers.items()
        if (is_annotation(name) or name in DEATH_HEADERS or name in _COUNTS)
        and (pair := _annotation(name, field)) is not None
        and encode(pair[0]) not in known
    ]


def _annotation(name: str, field: Field) -> tuple[Value, Value] | None:
    """A header as an annotation; None unless it has deaths, a text, or a number of 64 bits."""
    letter, value = field
    if name == DEATHS:
        deaths = deaths_of(field)
        return None if deaths is None else (Value("symbol", OPTIONAL_DEATHS), deaths)
    if name == RECEIVED_AT and letter == "l":
        return Value("symbol", RECEIVED_AT_IN_1_0), Value("timestamp", value)
    kind = {"S": "string", "l": "long"}.get(letter)
    return None if kind is None else (Value("symbol", name), Value(kind, value))


def _with_moved_deaths(header: ContentHeader, address: Address) -> bytes:
    """The sections of a message whose deaths are an annotation of another name in AMQP 1.0."""
    headers = dict(header.headers)
    deaths = _annotation(DEATHS, headers.pop(DEATHS))
    plain = make_header({**header.properties, "headers": headers or None})
    message = read_message(Delivered(plain, address).payload(b"", redelivered=False))
    message.message_annotations += [] if deaths is None else [deaths]
    message.has_header, message.body = False, b""
    return encode_message(message)


def _of_mqtt(header: ContentHeader, address: Address) -> bytes:
    """The sections of a message of MQTT 5.0, whose correlation data are bytes.

    Its response topic, which is a header for clients of AMQP 0-9-1, is an address here.
    """
    headers = dict(header.headers)
    topic = headers.pop(_RESPONSE_TOPIC, None)
    key = None if topic is None else f"/exchanges/{address.exchange}/{encode_name(topic[1])}"
    plain = make_header({**header.properties, "headers": headers or None, "reply_to": key})
    message = read_message(Delivered(plain, address).payload(b"", redelivered=False))
    correlation = message.properties.get("correlation-id")
    if correlation is not None:
        data = str(correlation.value).encode("utf-8", "surrogateescape")
        message.properties["correlation-id"] = Value("binary", data)
    message.has_header, message.body = False, b""
    return encode_message(message)


def data_prefix(size: int) -> bytes:
    """The bytes before those of a data section."""
    if size < 256:
        return b"\x00\x53\x75\xa0" + bytes((size,))
    return b"\x00\x53\x75\xb0" + size.to_bytes(4, "big")


_HEADER: Final = 0x70
_HEADER_SECTION: Final = b"\x00\x53\x70\xc0"
_MQTT: Final = "mqtt"
_RESPONSE_TOPIC: Final = "x-reply-to-topic"
"""The form and the header of messages that were published by MQTT 5.0."""
