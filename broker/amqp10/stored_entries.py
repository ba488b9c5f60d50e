"""Messages of streams for clients of AMQP 1.0, as they are stored: only their annotations change.

RabbitMQ's mc_amqp.erl does the same: the header says that the message was not delivered before, the
annotations have the message's offset, and its address if it was published without one. Properties,
application properties, body and footer are not touched.
"""

from typing import Final

from leveret.broker.amqp10.encoded_sections import (
    DAMAGED,
    find_entry,
    find_sections,
    items_of,
    text_at,
)
from leveret.broker.amqp10.sections import HEADER, MESSAGE_ANNOTATIONS
from leveret.broker.amqp10.values import (
    Value,
    encode,
    encode_described,
    encode_list,
    encode_map,
    encode_string,
    encode_symbol,
    end_of_value,
)

ENTRY_FORM: Final = "amqp10-entry"
"""The protocol of the `Form` of a message that is read from a stream: its sections."""
_OFFSET: Final = b"x-stream-offset"
_OFFSET_NAME: Final = encode_symbol("x-stream-offset")
_EXCHANGE: Final = b"x-exchange"
_ROUTING_KEY: Final = b"x-routing-key"
_DELIVERY_MODE: Final = b"x-basic-delivery-mode"
_PERSISTENT: Final = b"\x50\x02"
_NULL: Final = b"\x40"
_OWN_FIELDS: Final = 3
"""The fields durable, priority and ttl of a header; the broker writes the other two."""
_NOT_DELIVERED: Final = [b"\x41", b"\x43"]


def delivered_sections(
    entry: bytes, exchange: str, routing_key: str, offset: int, *, is_durable: bool
) -> bytes | None:
    """The sections of a message as a client gets them; None if it is not of AMQP 1.0.

    exchange, routing_key: of a message whose annotations do not have them. is_durable: whether a
    message is durable that does not say so.
    """
    try:
        contents, bare_at = find_sections(entry, 0, len(entry))
        if bare_at == len(entry):
            return None
        pairs = _annotations(entry, contents.get(MESSAGE_ANNOTATIONS))
        header = _header(entry, contents, is_durable=is_durable)
    except DAMAGED:
        return None
    names = {name for name, _, _ in pairs}
    own = [(_OFFSET_NAME, encode(Value("long", offset)))]
    for name, text in ((_EXCHANGE, exchange), (_ROUTING_KEY, routing_key)):
        if name not in names:
            own.append((encode_symbol(name.decode()), encode_string(text)))
    kept = [(key, value) for name, key, value in pairs if name != _OFFSET]
    annotations = encode_described(MESSAGE_ANNOTATIONS, encode_map(own + kept))
    return b"".join((header, annotations, entry[bare_at:]))


def _annotations(entry: bytes, at: int | None) -> list[tuple[bytes | None, bytes, bytes]]:
    """The name, the encoded name and the encoded value of each message annotation."""
    pairs: list[tuple[bytes | None, bytes, bytes]] = []
    places = items_of(entry, at) if at is not None else iter(())
    for key_at in places:
        value_at = next(places)
        name = text_at(entry, key_at, value_at)
        pairs.append(
            (name, entry[key_at:value_at], entry[value_at : end_of_value(entry, value_at)])
        )
    return pairs


def _header(entry: bytes, contents: dict[int, int], *, is_durable: bool) -> bytes:
    at = contents.get(HEADER)
    places = list(items_of(entry, at)) if at is not None else []
    fields = [entry[place : end_of_value(entry, place)] for place in places[:_OWN_FIELDS]]
    fields += [_NULL] * (_OWN_FIELDS - len(fields))
    if fields[0] == _NULL:
        fields[0] = encode(Value("boolean", _is_durable(entry, contents, is_durable)))
    return encode_described(HEADER, encode_list(fields + _NOT_DELIVERED))


def _is_durable(entry: bytes, contents: dict[int, int], otherwise: bool) -> bool:
    """Whether a message is durable whose header does not say so, as RabbitMQ 3.x stores one."""
    at = contents.get(MESSAGE_ANNOTATIONS)
    place = -1 if at is None else find_entry(entry, at, _DELIVERY_MODE)
    if place < 0:
        return otherwise
    return entry[place : place + len(_PERSISTENT)] == _PERSISTENT
