"""Checks of the values of runtime parameters.

A check gets the name of a value and its JSON value, and returns the problems. The texts are those
of `rabbit_parameter_validation`. Values are shown as Erlang terms, on one line, and URIs in them
without credentials.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from leveret.broker.amqp.uri import UriError, parse_uri, shown_uri
from leveret.broker.erlang.terms import PRINTABLE_CONTROLS, Charset, String, format_term

NAME_BYTES_MAX: Final = 255
SECONDS_MAX: Final = 365 * 24 * 3600
Check = Callable[[str, Any], list[str]]
"""The problems of a value with this name."""


class ParameterError(ValueError):
    """A parameter is not valid; the text has a line for each reason."""


class ParameterKey(NamedTuple):
    """A key of an object, and the check of its value."""

    name: str
    check: Check
    is_mandatory: bool = False


def raise_any(errors: Sequence[str]) -> None:
    """Raise ParameterError if anything is wrong."""
    if errors:
        raise ParameterError("\n".join(errors))


# The values of keys


def text(name: str, value: Any) -> list[str]:
    """A text of any length."""
    return (
        []
        if isinstance(value, str)
        else [f"{name} should be binary, actually was {shown_term(value)}"]
    )


def short_text(name: str, value: Any) -> list[str]:
    """A text that fits into a method: a name or a routing key."""
    if not isinstance(value, str):
        return text(name, value)
    size = len(value.encode("utf-8", "surrogateescape"))
    if size <= NAME_BYTES_MAX:
        return []
    return [f"{name} should be less than {NAME_BYTES_MAX} bytes, actually was {size}"]


def number(name: str, value: Any) -> list[str]:
    """A number."""
    if _is_number(value):
        return []
    return [f"{name} should be a number, actually was {shown_term(value)}"]


def number_up_to(most: int) -> Check:
    """A number that fits into a field of a content header. RabbitMQ takes any, and cuts it off."""

    def check(name: str, value: Any) -> list[str]:
        if _is_number(value) and not 0 <= value <= most:
            return [f"{name} should be a number from 0 to {most}, actually was {shown_term(value)}"]
        return number(name, value)

    return check


def boolean(name: str, value: Any) -> list[str]:
    """True or false."""
    if isinstance(value, bool):
        return []
    return [f"{name} should be boolean, actually was {shown_term(value)}"]


def one_of(*values: str) -> Check:
    """One of these texts."""

    def check(name: str, value: Any) -> list[str]:
        if not isinstance(value, str):
            return text(name, value)
        if value in values:
            return []
        return [
            f"{name} should be one of {shown_term(list(values))}, actually was {shown_term(value)}"
        ]

    return check


def anything(_name: str, _value: Any) -> list[str]:
    """Any value."""
    return []


def uris(name: str, value: Any) -> list[str]:
    """A URI, or a list of them. Only the first problem is returned.

    RabbitMQ also takes an empty list, and its links then fail.
    """
    return _uris(name, value, lambda _vhost: [])


def uris_with(node_vhost: Callable[[str], list[str]]) -> Check:
    """As `uris`. node_vhost: returns the problem with a vhost of the node itself that a URI
    connects to.
    """
    return lambda name, value: _uris(name, value, node_vhost)


def _uris(name: str, value: Any, node_vhost: Callable[[str], list[str]]) -> list[str]:
    if isinstance(value, str):
        try:
            uri = parse_uri(value)
        except UriError as error:
            return [str(error)]
        return node_vhost(uri.vhost) if uri.host is None else []
    if not isinstance(value, list) or not value:
        return [f"{name} should be list, actually was {shown_term(value)}"]
    for one in value:
        wrong = _uris(name, one, node_vhost) if isinstance(one, str) else text(name, one)
        if wrong:
            return wrong
    return []


def bounded(value: float, most: int) -> int:
    """A checked number, which may be negative or very large, as a whole one from 0 to most."""
    return int(min(max(0, value), most))


def seconds(value: float) -> float:
    """A checked number as a time, of a year at most."""
    return float(min(max(0, value), SECONDS_MAX))


def uri_list(value: str | list[str]) -> tuple[str, ...]:
    """The URIs of a checked value."""
    return (value,) if isinstance(value, str) else tuple(value)


# Objects


def keys_of(name: str, keys: Sequence[ParameterKey], value: Any) -> list[str]:
    """The problems of an object, in RabbitMQ's order: unknown keys, then the last key first.

    Erlang has lists of pairs for objects, so that an empty list is an object without keys.
    """
    if not isinstance(value, Mapping | list):
        return [f"{name} not a list {shown_term(value)}"]
    pairs = dict(value) if isinstance(value, Mapping) else {}
    errors: list[str] = []
    for key in keys:
        if key.name in pairs:
            errors[:0] = key.check(key.name, pairs.pop(key.name))
        elif key.is_mandatory:
            errors.insert(0, f'Key "{key.name}" not found in {name}')
    unknown = value if isinstance(value, list) else sorted(pairs.items())
    if unknown:
        errors.insert(0, f"Unrecognised terms {shown_term(unknown)} in {name}")
    return errors


def object_with(keys: Sequence[ParameterKey]) -> Check:
    """An object with these keys."""
    return lambda name, value: keys_of(name, keys, value)


# How values are shown


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def shown_term(value: Any) -> str:
    """A value in an error text."""
    return format_term(_shown(value), Charset.LATIN_1)


def _shown(value: Any) -> Any:
    """A value of JSON as Erlang prints it: objects by their keys, lists of characters as texts."""
    match value:
        case str():
            return shown_uri(value) if "://" in value else value
        case Mapping():
            return {key: _shown(value[key]) for key in sorted(value)}
        case tuple():
            return tuple(_shown(item) for item in value)
        case list() if value and all(_is_character(item) for item in value):
            return String("".join(map(chr, value)))
        case list():
            return [_shown(item) for item in value]
        case _:
            return value


def _is_character(item: Any) -> bool:
    if isinstance(item, bool) or not isinstance(item, int):
        return False
    return (
        32 <= item < 127
        or 160 <= item < 256
        or (0 <= item < 32 and chr(item) in PRINTABLE_CONTROLS)
    )
