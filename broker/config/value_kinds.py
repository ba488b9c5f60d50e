"""The kinds of values: the parsing of a text, and the description of the expected value.

A `Kind` parses the text to the right of the `=` in a file, of an environment variable or of a flag.
Its `read` raises ValueError for a text that is not a value of the kind; the error message then
contains "expected " and the kind's `expected`. Everything here is a pure function of the text.

Sizes have two scales, as in RabbitMQ. For limits of memory and disk, KB is 1,000 bytes, and Ki and
KiB are 1,024 (`rabbit_resource_monitor_misc`): `size`. A letter alone is a power of 1,024 up to
RabbitMQ 3.12 and a power of 1,000 since 3.13: `with_letters_of_4`. For the few settings that
RabbitMQ's file format converts itself, such as `frame_max`, KB, MB and GB are powers of 1,024:
`binary_size`.
"""

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from leveret.broker.runtime.patterns import compile_pattern

Value_co = TypeVar("Value_co", covariant=True)

PORT_MAX = 65_535
UNLIMITED = sys.maxsize
TRUE_WORDS = ("true", "on")
FALSE_WORDS = ("false", "off")

LETTERS = "kmgtp"
DECIMAL_UNITS = {f"{letter}b": 1000**power for power, letter in enumerate(LETTERS, 1)}
BINARY_UNITS = {
    letter + rest: 1024**power
    for power, letter in enumerate(LETTERS, 1)
    for rest in ("", "i", "ib")
}
UNITS = {"": 1} | DECIMAL_UNITS | BINARY_UNITS
POWER_OF_TWO_UNITS = UNITS | {f"{letter}b": BINARY_UNITS[letter] for letter in LETTERS}

WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")
FRACTION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(%?)")
SIZE = re.compile(r"([0-9]+)([a-z]*)")
SIZE_WITH_LETTER = re.compile(rf"([0-9]+)([{LETTERS}])", re.IGNORECASE)
HOST_NAME = re.compile(r"[A-Za-z0-9._-]+")


class Listener(NamedTuple):
    """An address to listen on. host: None for all interfaces, IPv4 and IPv6."""

    host: str | None
    port: int

    def __str__(self) -> str:
        """As in a URL: an IPv6 address has brackets."""
        host = self.host or "*"
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Kind(Generic[Value_co]):
    """How a text is parsed, what error messages expect, and the unit of the value.

    has_letters: whether RabbitMQ's versions differ in the meaning of 2G. left_out: values that have
    no effect if there are others of their family, and why.
    """

    expected: str
    read: Callable[[str], Value_co]
    unit: str = ""
    has_letters: bool = False
    left_out: Mapping[str, str] = field(default_factory=dict)


def whole_number(unit: str = "", minimum: int = 0, maximum: int | None = None) -> Kind[int]:
    """An integer within bounds. unit: the unit of the number."""

    def read(text: str) -> int:
        if not WHOLE_NUMBER.fullmatch(text):
            raise ValueError
        return within_bounds(int(text), minimum, maximum)

    of_unit = f" of {unit}" if unit else ""
    bounds = f"{minimum} or more" if maximum is None else f"{minimum} to {maximum}"
    return Kind(f"a whole number{of_unit}, {bounds}", read, unit)


def within_bounds(number: int, minimum: int, maximum: int | None) -> int:
    """Return a number within bounds. Raises ValueError for others."""
    if number < minimum or (maximum is not None and number > maximum):
        raise ValueError
    return number


def size(minimum: int = 0, maximum: int | None = None) -> Kind[int]:
    """A number of bytes, where KB is 1,000 and KiB is 1,024, and K as well."""
    return replace(_size(UNITS, "512KB or 2GiB", minimum, maximum), has_letters=True)


def with_letters_of_4(text: str) -> str:
    """Convert a size in which a letter alone is a power of 1,000 to one in which it is not."""
    found = SIZE_WITH_LETTER.fullmatch(text)
    return text if found is None else f"{text}B"


def binary_size(minimum: int = 0) -> Kind[int]:
    """A number of bytes, where KB is 1,024."""
    return _size(POWER_OF_TWO_UNITS, "128KB or 1MB", minimum, None)


def _size(units: dict[str, int], examples: str, minimum: int, maximum: int | None) -> Kind[int]:
    def read(text: str) -> int:
        match = SIZE.fullmatch(text.lower())
        if match is None or match[2] not in units:
            raise ValueError
        return within_bounds(int(match[1]) * units[match[2]], minimum, maximum)

    bounds = f"{minimum} or more" if maximum is None else f"{minimum} to {maximum}"
    return Kind(f"a number of bytes, {bounds}, such as 4096, {examples}", read, "bytes")


def fraction(maximum: float | None = None) -> Kind[float]:
    """A number such as 0.4, or a percentage such as 40%."""

    def read(text: str) -> float:
        match = FRACTION.fullmatch(text)
        if match is None:
            raise ValueError
        number = float(match[1]) / (100 if match[2] else 1)
        if maximum is not None and number > maximum:
            raise ValueError
        return number

    bounds = "" if maximum is None else f", at most {maximum:g}"
    return Kind(f"a number such as 0.4 or 40%{bounds}", read)


def one_of(*words: str) -> Kind[str]:
    """One of a few words."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError
        return text

    return Kind(f"one of {', '.join(words)}", read)


def leaving_out(kind: Kind[Value_co], reason: str, *words: str) -> Kind[Value_co]:
    """A value of a family. Other words are accepted, too, if the family has a proper value."""
    return replace(kind, left_out=dict.fromkeys(words, reason))


def unless(kind: Kind[Value_co], *words: str) -> Kind[Value_co | None]:
    """A value, or a word that stands for None: no limit, no file, disabled."""

    def read(text: str) -> Value_co | None:
        return None if text in words else kind.read(text)

    return Kind(f"{kind.expected}, or {' or '.join(words)}", read, kind.unit, kind.has_letters)


def or_unlimited(kind: Kind[int]) -> Kind[int]:
    """A number, or `unlimited`, which is UNLIMITED."""

    def read(text: str) -> int:
        return UNLIMITED if text == "unlimited" else kind.read(text)

    return Kind(f"{kind.expected}, or unlimited", read, kind.unit)


def either(kind: Kind[int], number: int) -> Kind[int]:
    """A value, or a number outside its bounds that has a special meaning."""

    def read(text: str) -> int:
        return number if text == str(number) else kind.read(text)

    return Kind(f"{number} or {kind.expected}", read, kind.unit)


def _read_boolean(text: str) -> bool:
    if text not in TRUE_WORDS + FALSE_WORDS:
        raise ValueError
    return text in TRUE_WORDS


def _read_name(text: str) -> str:
    if not text:
        raise ValueError
    return text


def _read_url_path(text: str) -> str:
    if text and not text.startswith("/"):
        raise ValueError
    return text


def _read_host(text: str) -> str:
    if ":" in text:
        return str(ip_address(text.removeprefix("[").removesuffix("]")))
    if not HOST_NAME.fullmatch(text):
        raise ValueError
    return text


def _read_pattern(text: str) -> str:
    try:
        compile_pattern(text)
    except re.error as error:
        raise ValueError(str(error)) from None
    return text


def _read_listener(text: str) -> Listener:
    host, colon, port = text.rpartition(":")
    return Listener(_read_host(host) if colon else None, PORT.read(port))


BOOLEAN = Kind("true or false", _read_boolean)
TEXT = Kind("a text", str)
NAME = Kind("a text that is not empty", _read_name)
URL_PATH = Kind("a path that begins with /", _read_url_path)
PATTERN = Kind("a regular expression", _read_pattern)
PATH = Kind("a path", lambda text: Path(_read_name(text)))
HOST = Kind("a host name or an address", _read_host)
PORT = whole_number(maximum=PORT_MAX)
LISTENER = Kind("a port or host:port", _read_listener)
MILLISECONDS = whole_number("milliseconds", minimum=1)
