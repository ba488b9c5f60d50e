"""Filters of properties and application properties (OASIS, AMQP Filter Expressions 1.0, part 4).

A filter is a map: a message passes if each of its fields has the value in the map, or begins
(`&p:...`) or ends (`&s:...`) with it. A null matches everything; `&&...` is the text `&...`. As in
RabbitMQ (rabbit_amqp_filter_prop.erl), a filter has at most 16 fields.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from leveret.broker.amqp10.filters.message_fields import (
    MessageFields,
    Scalar,
    are_equal,
    scalar_of,
)
from leveret.broker.amqp10.values import Value

FIELDS_MAX: Final = 16
PROPERTIES: Final = "properties"
APPLICATION_PROPERTIES: Final = "application-properties"
_PREFIX, _SUFFIX, _ESCAPED, _MODIFIER = "&p:", "&s:", "&&", "&"
_TEXT_FIELDS: Final = frozenset(("to", "subject", "reply-to", "group-id", "reply-to-group-id"))
_ID_FIELDS: Final = frozenset(("message-id", "correlation-id"))
_ID_KINDS: Final = frozenset(("ulong", "uuid", "binary", "string"))
_KINDS: Final = {
    "user-id": "binary", "content-type": "symbol", "content-encoding": "symbol",
    "absolute-expiry-time": "timestamp", "creation-time": "timestamp", "group-sequence": "uint",
}  # fmt: skip

Matches = Callable[[MessageFields], bool]
_Test = Callable[[bool, Scalar], bool]
"""Takes whether the field is there, and its value."""


class FilterError(ValueError):
    """A filter is not valid; the text says why."""


class PropertyFilter(NamedTuple):
    """One filter. section: `PROPERTIES` or `APPLICATION_PROPERTIES`."""

    section: str
    matches: Matches


def read_property_filter(section: str, content: Value) -> PropertyFilter:
    """The filter of a section. Raises FilterError."""
    if content.kind != "map" or not content.value:
        raise FilterError(f"a filter of {section} is a map with entries, and not a {content.kind}")
    if len(content.value) > FIELDS_MAX:
        raise FilterError(
            f"a filter of {section} has {len(content.value)} fields; {FIELDS_MAX} are allowed"
        )
    read = _read_property if section == PROPERTIES else _read_application_property
    tests = [read(key, value) for key, value in content.value]
    return PropertyFilter(section, lambda fields: all(test(fields) for test in tests))


def _read_property(key: Value, value: Value) -> Matches:
    name: str = key.value
    if key.kind != "symbol" or not _may_be(name, value.kind):
        raise FilterError(f"in a filter of properties, {name!r} cannot be of the type {value.kind}")
    has_modifiers = name in _TEXT_FIELDS or name in _ID_FIELDS
    test = _test_of(value, has_modifiers=has_modifiers)
    return lambda fields: test(True, fields.property(name))


def _may_be(name: str, kind: str) -> bool:
    """Whether the property of this name can be of this type."""
    if name in _TEXT_FIELDS:
        return kind == "string"
    if name in _ID_FIELDS:
        return kind in _ID_KINDS
    return _KINDS.get(name) == kind


def _read_application_property(key: Value, value: Value) -> Matches:
    if key.kind != "string":
        raise FilterError(f"the names of application properties are strings, not {key.kind}s")
    name: bytes = key.value.encode("utf-8", "surrogateescape")
    test = _test_of(value, has_modifiers=True)

    def matches(fields: MessageFields) -> bool:
        is_there, found = fields.application_property(name)
        return is_there and test(is_there, found)

    return matches


def _test_of(value: Value, *, has_modifiers: bool) -> _Test:
    if value.kind == "null":
        return lambda _is_there, _found: True
    wanted = scalar_of(value)
    if wanted is None:
        return lambda _is_there, _found: False
    if has_modifiers and value.kind == "string":
        return _text_test(value.value)
    return lambda _is_there, found: are_equal(wanted, found)


def _text_test(text: str) -> _Test:
    affix = text[len(_PREFIX) :].encode("utf-8", "surrogateescape")
    if text.startswith(_PREFIX):
        return lambda _, found: isinstance(found, bytes) and found.startswith(affix)
    if text.startswith(_SUFFIX):
        return lambda _, found: isinstance(found, bytes) and found.endswith(affix)
    if text.startswith(_MODIFIER) and not text.startswith(_ESCAPED):
        raise FilterError(f"{text!r} begins with a modifier that there is not")
    wanted = text.removeprefix(_MODIFIER).encode("utf-8", "surrogateescape")
    return lambda _, found: wanted == found
