"""Annotations of the outcome `modified`: from what a client sends to the messages of other clients.

As in RabbitMQ 4.0, which stores them as its own types, an integer or a timestamp is returned as a
`long`, and a symbol or a binary as a string; values of other types are unchanged. Names have to be
symbols that begin with `x-` (part 3, section 3.2.10). An annotation replaces an existing one of the
same name, except those for the message's exchange and routing key. Clients of AMQP 0-9-1 see
annotations as headers, including lists and maps, which RabbitMQ omits.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import msgspec

from leveret.broker.amqp.content_header import ContentHeader, Form, make_header
from leveret.broker.amqp10.conversion import field_of
from leveret.broker.amqp10.sections import Pairs
from leveret.broker.amqp10.values import Value, decode, encode
from leveret.broker.protocols.amqp10.conditions import INTERNAL_ERROR, SessionEnds
from leveret.broker.protocols.amqp10.messages import (
    FORM,
    OF_BROKER,
    SECTION_START,
    Kept,
    encode_pairs,
)
from leveret.broker.protocols.amqp10.performatives import Modified
from leveret.broker.queues.contract.modifications import Modification
from leveret.storage.messages.message import Message

DELIVERY_TIME: Final = "x-opt-delivery-time"
"""When a quorum queue delivers a returned message again, in milliseconds since 1970 (since 4.3)."""
DELIVERY_TIME_MAX: Final = (1 << 62) - 1
"""The highest number in a command of a quorum queue."""
LONG_MAX: Final = (1 << 63) - 1
_INTEGERS: Final = frozenset((
    "ubyte", "ushort", "uint", "ulong", "byte", "short", "int", "long", "timestamp",
))  # fmt: skip


def modification_of(outcome: Modified, *, delays: bool) -> Modification | None:
    """The client's changes to messages; None without annotations. Raises SessionEnds.

    delays: whether the annotation `x-opt-delivery-time` delays returned messages.
    """
    sent = outcome.message_annotations
    if sent is None or not sent.value:
        return None
    values: dict[str, Value] = {}
    for key, value in sent.value:
        if key.kind != "symbol" or not key.value.startswith("x-"):
            raise SessionEnds(
                INTERNAL_ERROR,
                f"the message annotation {key.value!r} of a modified outcome is refused: "
                "its name must be a symbol that begins with 'x-'",
            )
        if key.value not in OF_BROKER:
            values[key.value] = _kept(value)
    ready = values.get(DELIVERY_TIME)
    is_delayed = delays and ready is not None and ready.kind == "long" and ready.value > 0
    return Modification(
        bool(outcome.delivery_failed),
        bool(outcome.undeliverable_here),
        {name: encode(value) for name, value in values.items()},
        min(ready.value, DELIVERY_TIME_MAX) if is_delayed and ready is not None else 0,
    )


def _kept(value: Value) -> Value:
    """A value as other clients get it."""
    kind, content = value
    if kind in _INTEGERS:
        return Value("long", min(content, LONG_MAX))
    if kind == "symbol":
        return Value("string", content)
    if kind == "binary":
        with suppress(UnicodeDecodeError):
            return Value("string", content.decode())
    return value


def annotated(message: Message, annotations: Mapping[str, bytes]) -> Message:
    """A message with these annotations. Values are encoded."""
    header = message.header
    assert isinstance(header, ContentHeader), "messages are read with content headers"
    changed = annotated_header(header, annotations)
    return Message(message.address, changed, message.body, message.stored, message.number)


def annotated_header(header: ContentHeader, annotations: Mapping[str, bytes]) -> ContentHeader:
    """The properties of a message with these annotations."""
    headers = dict(header.headers)
    pairs: Pairs = []
    for name, data in annotations.items():
        value, _ = decode(data)
        pairs.append((Value("symbol", name), value))
        field = field_of(value)
        if field is None:
            headers.pop(name, None)
        else:
            headers[name] = field
    form = header.form
    if form is not None and form.protocol == FORM:
        form = Form(FORM, _annotated_form(form.data, pairs))
    properties = {**header.properties, "headers": dict(sorted(headers.items())) or None}
    return make_header(properties, header.bcc_keys, form).as_persistent()


def _annotated_form(data: bytes, added: Pairs) -> bytes:
    """The data of a form with these annotations, which replace others of the same name."""
    if not data or data[0] == SECTION_START:
        kept = Kept(0, b"", data, b"", [])
    else:
        kept = msgspec.msgpack.decode(data, type=Kept)
    names = {key.value for key, _ in added}
    pairs = [pair for pair in _pairs_of(kept.annotations) if pair[0].value not in names] + added
    kept.annotation_count, kept.annotations = len(pairs), encode_pairs(pairs)
    return msgspec.msgpack.encode(kept)


def _pairs_of(data: bytes) -> Pairs:
    pairs: Pairs = []
    at = 0
    while at < len(data):
        key, at = decode(data, at)
        value, at = decode(data, at)
        pairs.append((key, value))
    return pairs
