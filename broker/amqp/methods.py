"""Decoding and encoding the methods of all AMQP classes.

The methods, their arguments and the objects for decoded methods (``commands.Queue.Declare`` and so
on) are pamqp's. Decoding and encoding are done here, because pamqp loses the types of the values in
field tables (see field_table.py), and because RabbitMQ has its own error texts for bytes that it
cannot decode. ``basic.publish``, ``basic.ack`` and ``basic.deliver`` have faster paths in frames.py
and content.py.
"""

import struct
from collections.abc import Callable
from typing import Any, cast

from pamqp import base, commands

from leveret.broker.amqp.errors import ConnectionFault, frame_error
from leveret.broker.amqp.field_table import (
    FieldTableError,
    Table,
    TableCutOff,
    decode_table,
    encode_long_string,
    encode_short_string,
    encode_table,
    text_of,
)
from leveret.broker.amqp.frames import METHOD, encode_frame
from leveret.broker.erlang.terms import format_binary

METHOD_ID_BYTES = 4
_METHOD_ID = struct.Struct(">HH")
_INTEGERS: dict[str, struct.Struct] = {
    "octet": struct.Struct(">B"),
    "short": struct.Struct(">H"),
    "long": struct.Struct(">I"),
    "longlong": struct.Struct(">Q"),
    "timestamp": struct.Struct(">Q"),
}


SECRET_METHODS = (
    commands.Connection.StartOk,
    commands.Connection.SecureOk,
    commands.Connection.UpdateSecret,
)
"""Their arguments contain passwords and tokens, which error texts must not show."""


class AccessRequest(base.Frame):
    """access.request of AMQP 0-8, which old clients still send; RabbitMQ always grants it."""

    __slots__ = ["realm"]
    frame_id = 30
    index = 30 << 16 | 10
    name = "Access.Request"
    _realm = "shortstr"
    _exclusive = _passive = _active = _write = _read = "bit"


class AccessRequestOk(base.Frame):
    """The answer to access.request: a ticket, which is not used."""

    __slots__ = ["ticket"]
    frame_id = 30
    index = 30 << 16 | 11
    name = "Access.RequestOk"
    _ticket = "short"


class UnreadableMethod(Exception):
    """A method for which RabbitMQ closes the socket without a reply; the text names the mistake."""


class UnknownMethod(UnreadableMethod):
    """No method has these class and method identifiers."""

    def __init__(self, class_id: int, method_id: int) -> None:
        super().__init__(f"there is no method {method_id} in class {class_id}")
        self.class_id = class_id
        self.method_id = method_id


def _signature(method: type[base.Frame]) -> tuple[tuple[str, str], ...]:
    return tuple((name, method.amqp_type(name)) for name in method.attributes())


_ACCESS_SIGNATURE = (
    ("realm", "shortstr"), ("exclusive", "bit"), ("passive", "bit"),
    ("active", "bit"), ("write", "bit"), ("read", "bit"),
)  # fmt: skip

METHODS: dict[int, type[base.Frame]] = {
    **commands.INDEX_MAPPING,
    AccessRequest.index: AccessRequest,
    AccessRequestOk.index: AccessRequestOk,
}
_SIGNATURES: dict[int, tuple[tuple[str, str], ...]] = {
    index: _signature(method) for index, method in METHODS.items()
} | {AccessRequest.index: _ACCESS_SIGNATURE}


def method_name(method: base.Frame | type[base.Frame]) -> str:
    """The name for texts and logs, such as `queue.declare`."""
    class_name, name = method.name.split(".")
    dashed = "".join("-" + c.lower() if c.isupper() else c for c in name).lstrip("-")
    return f"{class_name.lower()}.{dashed}"


_BY_NAME = {method_name(method): method for method in METHODS.values()}


def method_named(name: str) -> type[base.Frame]:
    """The method with this `method_name`. Raises KeyError."""
    return _BY_NAME[name]


def signature_of(name: str) -> tuple[tuple[str, str], ...]:
    """The arguments of a method: their names here, and AMQP's names of their types."""
    return _SIGNATURES[_BY_NAME[name].index]


def decode_method(payload: bytes) -> base.Frame:
    """Decode a frame's payload of at least four octets. Tables are `Table`s.

    Raises UnreadableMethod if there is no such method or a table in it is invalid, and
    ConnectionFault 501 with RabbitMQ's text if the arguments are too short or too long.
    """
    class_id, method_id = _METHOD_ID.unpack_from(payload)
    index = class_id << 16 | method_id
    method_type = METHODS.get(index)
    if method_type is None:
        raise UnknownMethod(class_id, method_id)
    method = method_type.__new__(method_type)
    try:
        position = _decode_arguments(method, _SIGNATURES[index], payload)
    except (struct.error, IndexError, TableCutOff):
        position = -1
    except FieldTableError as error:
        raise UnreadableMethod(f"{method_name(method)} has an invalid table: {error}") from None
    if position != len(payload):
        raise _undecodable(class_id, method_id, payload)
    return method


def _undecodable(class_id: int, method_id: int, payload: bytes) -> ConnectionFault:
    method = METHODS[class_id << 16 | method_id]
    is_secret = method in SECRET_METHODS
    shown = method_name(method) if is_secret else format_binary(payload[METHOD_ID_BYTES:])
    fault = frame_error(f"cannot decode {shown}")
    fault.class_id, fault.method_id = class_id, method_id
    return fault


def _decode_arguments(
    method: base.Frame, signature: tuple[tuple[str, str], ...], payload: bytes
) -> int:
    """Set each argument of the method; returns the offset after the last one."""
    position = METHOD_ID_BYTES
    bit = 0
    for name, kind in signature:
        if kind == "bit":
            if bit % 8 == 0:
                position += 1
            value: Any = bool(payload[position - 1] >> bit % 8 & 1)
            bit += 1
        else:
            bit = 0
            value, position = _decode_value(kind, payload, position)
        if name in method:
            setattr(method, name, value)
    if position > len(payload):
        raise IndexError
    return position


def _decode_value(kind: str, payload: bytes, position: int) -> tuple[Any, int]:
    if kind == "shortstr":
        end = position + 1 + payload[position]
        return text_of(payload[position + 1 : end]), end
    if kind == "longstr":
        end = position + 4 + int.from_bytes(payload[position : position + 4], "big")
        return payload[position + 4 : end], end
    if kind == "table":
        return decode_table(payload, position)
    integer = _INTEGERS[kind]
    return integer.unpack_from(payload, position)[0], position + integer.size


_ENCODERS: dict[str, Callable[[Any], bytes]] = {
    "shortstr": encode_short_string,
    "longstr": encode_long_string,
    "table": encode_table,
    **{kind: integer.pack for kind, integer in _INTEGERS.items()},
}


def encode_method(method: type[base.Frame], **arguments: Any) -> bytes:
    """Encode the payload of a method frame. Arguments that are not given are empty, 0 or false."""
    parts = [_METHOD_ID.pack(method.index >> 16, method.index & 0xFFFF)]
    bits: list[bool] = []
    for name, kind in _SIGNATURES[method.index]:
        if kind == "bit":
            bits.append(arguments.get(name, False))
            continue
        parts.append(_pack_bits(bits))
        bits = []
        parts.append(_ENCODERS[kind](arguments.get(name, _RESERVED[kind])))
    parts.append(_pack_bits(bits))
    return b"".join(parts)


_RESERVED: dict[str, Any] = {
    "shortstr": "", "longstr": "", "table": {}, "octet": 0, "short": 0, "long": 0,
    "longlong": 0, "timestamp": 0,
}  # fmt: skip


def _pack_bits(bits: list[bool]) -> bytes:
    if not bits:
        return b""
    return bytes((sum(1 << place for place, bit in enumerate(bits) if bit),))


def method_frame(channel: int, method: type[base.Frame], **arguments: Any) -> bytes:
    """Encode a whole method frame."""
    return encode_frame(METHOD, channel, encode_method(method, **arguments))


def table_argument(value: object) -> Table:
    """A table of a decoded method, which pamqp declares with another type."""
    return cast(Table, value)


def long_string_argument(value: object) -> bytes:
    """A long string of a decoded method: bytes, which pamqp declares as str."""
    return cast(bytes, value)
