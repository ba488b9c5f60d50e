"""The fields of an encoded message that a filter asks for.

A filter looks at a few fields of each message, so nothing else is decoded: sections and entries of
maps are skipped by their sizes. Texts are bytes, as in RabbitMQ: a string, a symbol and a binary
with the same bytes are equal. What has no simple type (a list, a map, a decimal) is absent.

Bytes that are no message of AMQP 1.0, which clients of the stream protocol may publish, have no
fields.
"""

from itertools import islice
from typing import Final

from leveret.broker.amqp10.encoded_sections import DAMAGED, find_entry, find_sections, items_of
from leveret.broker.amqp10.sections import (
    APPLICATION_PROPERTIES,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    PROPERTY_FIELDS,
)
from leveret.broker.amqp10.values import Value, decode

Scalar = bool | int | float | bytes | None
"""The value of a field; None if it is absent, null or not simple."""

PRIORITY_DEFAULT: Final = 4
_PRIORITY_INDEX: Final = 1
_STORED_PRIORITY: Final = b"x-basic-priority"
"""The annotation in which RabbitMQ 3.x stores the priority of a message of AMQP 0-9-1."""
_INDEXES: Final = {name: index for index, name in enumerate(PROPERTY_FIELDS)}
_TEXTS: Final = frozenset(("string", "symbol"))
_PLAIN: Final = frozenset((
    "null", "boolean", "ubyte", "ushort", "uint", "ulong", "byte", "short", "int", "long", "float",
    "double", "char", "timestamp", "binary", "uuid",
))  # fmt: skip


class MessageFields:
    """The fields of the message whose sections are in `data`, from `begin` to `end`."""

    __slots__ = ("_data", "_sections")

    def __init__(self, data: bytes, begin: int, end: int) -> None:
        self._data = data
        try:
            self._sections = find_sections(data, begin, end).contents
        except DAMAGED:
            self._sections = {}

    def property(self, name: str) -> Scalar:
        """A field of the section `properties`, such as `message-id`."""
        return self._item(PROPERTIES, _INDEXES[name])

    def priority(self) -> Scalar:
        """The priority; 4 without one."""
        priority = self._item(HEADER, _PRIORITY_INDEX)
        if priority is None:
            priority = self._entry(MESSAGE_ANNOTATIONS, _STORED_PRIORITY)[1]
        return PRIORITY_DEFAULT if priority is None else priority

    def application_property(self, name: bytes) -> tuple[bool, Scalar]:
        """Whether there is an application property of this name, and its value."""
        return self._entry(APPLICATION_PROPERTIES, name)

    def _item(self, section: int, index: int) -> Scalar:
        """The item of a section that is a list."""
        at = self._sections.get(section)
        if at is None:
            return None
        try:
            place = next(islice(items_of(self._data, at), index, None), None)
            return None if place is None else scalar_of(decode(self._data, place)[0])
        except DAMAGED:
            return None

    def _entry(self, section: int, name: bytes) -> tuple[bool, Scalar]:
        """The entry of a section that is a map. Of several with one name, the last one."""
        at = self._sections.get(section)
        if at is None:
            return False, None
        try:
            place = find_entry(self._data, at, name)
            if place < 0:
                return False, None
            value = decode(self._data, place)[0]
        except DAMAGED:
            return False, None
        return value.kind in _PLAIN or value.kind in _TEXTS, scalar_of(value)


def scalar_of(value: Value) -> Scalar:
    """The value of a field, or of a literal in a filter; None if it has no simple type."""
    kind, content = value
    if kind in _TEXTS:
        text: str = content
        return text.encode("utf-8", "surrogateescape")
    scalar: Scalar = content if kind in _PLAIN else None
    return scalar


def are_equal(left: Scalar, right: Scalar) -> bool:
    """Whether two values are equal. Numbers of different types may be; True is no number."""
    return left == right and (left.__class__ is bool) == (right.__class__ is bool)
