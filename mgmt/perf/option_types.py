"""Converts the texts of option values. Pure.

Each function returns the value of a text, or raises ArgumentTypeError with the reason.
"""

import argparse
import re
from typing import Any
from urllib.parse import urlsplit

from leveret.mgmt.perf.options import FRAME_BYTES_MAX
from leveret.mgmt.perf.schedule import NO_LIMIT, Part

FRAME_BYTES_MIN = 4096
PUBLISHING_INTERVAL_S_MIN = 0.001

_CAPACITY = re.compile(r"(\d+)\s*([kmgt]?)b?", re.IGNORECASE | re.ASCII)
_CAPACITY_UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4}
_DURATION = re.compile(
    r"P(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?", re.IGNORECASE | re.ASCII
)
_DURATION_SECONDS = (86400, 3600, 60, 1)


def count(text: str) -> int:
    """A whole number, at least 0."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number >= 0")
    return int(text)


def positive(text: str) -> int:
    """A whole number, at least 1."""
    if count(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number >= 1")
    return int(text)


def window(text: str) -> int:
    """The number of unconfirmed messages; PerfTest's -1 (no confirms) becomes 0."""
    return 0 if text == "-1" else positive(text)


def frame_max(text: str) -> int:
    """A frame size that AMQP allows; 0 leaves it to the broker."""
    value = count(text) or FRAME_BYTES_MAX
    if not FRAME_BYTES_MIN <= value <= FRAME_BYTES_MAX:
        allowed = f"{FRAME_BYTES_MIN} to {FRAME_BYTES_MAX}"
        raise argparse.ArgumentTypeError(f"'{text}' is not a frame size: give {allowed} bytes")
    return value


def seconds(text: str) -> float:
    """A number of seconds, at least 0."""
    value = number(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds")
    return value


def positive_seconds(text: str) -> float:
    """A number of seconds above 0."""
    if not seconds(text):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds above 0")
    return float(text)


def publishing_interval(text: str) -> float:
    """Seconds between two messages, at least a thousandth."""
    if seconds(text) < PUBLISHING_INTERVAL_S_MIN:
        problem = f"'{text}' is not an interval: give at least {PUBLISHING_INTERVAL_S_MIN} seconds"
        raise argparse.ArgumentTypeError(problem)
    return float(text)


def rate(text: str) -> float:
    """Messages per second; -1 is unlimited."""
    value = number(text)
    if value < 0 and value != NO_LIMIT:
        raise argparse.ArgumentTypeError(f"'{text}' is not a rate: give messages per second, or -1")
    return value


def number(text: str) -> float:
    """A finite number."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not abs(value) < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number")
    return value


def part(text: str) -> Part:
    """A part of a schedule, `100:60`: a value, and for how many seconds."""
    value, colon, duration = text.partition(":")
    digits = value + duration
    is_good = bool(colon and value and duration) and digits.isascii() and digits.isdigit()
    if not is_good or not int(duration):
        problem = f"'{text}' is not of the form VALUE:SECONDS, as in 100:60"
        raise argparse.ArgumentTypeError(problem)
    return (float(value), float(duration))


def truth(text: str) -> bool:
    """A boolean, `true` or `false`."""
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"'{text}' is neither true nor false")
    return text.lower() == "true"


def names(text: str) -> list[str]:
    """Names separated by commas, `a,b`."""
    return [name.strip() for name in text.split(",") if name.strip()]


def flags(text: str) -> list[str]:
    """Message flags: `persistent`, `mandatory`, or both."""
    for name in names(text):
        if name not in ("persistent", "mandatory"):
            problem = f"'{name}' is not a flag: use persistent or mandatory"
            raise argparse.ArgumentTypeError(problem)
    return names(text)


def pairs(text: str) -> dict[str, Any]:
    """Name-value pairs, `a=1,b=x`, with numbers and booleans converted."""
    found: dict[str, Any] = {}
    for item in names(text):
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise argparse.ArgumentTypeError(f"'{item}' is not of the form name=value")
        found[name] = plain(value)
    return found


def plain(value: str) -> Any:
    """Convert a number or boolean; other texts stay texts."""
    if value in ("true", "false"):
        return value == "true"
    digits = value.removeprefix("-")
    return int(value) if digits.isascii() and digits.isdigit() else value


def capacity(text: str) -> int:
    """Bytes, as `10gb`; units are powers of 1000."""
    match = _CAPACITY.fullmatch(text.strip())
    if match is None:
        problem = f"'{text}' is not a size: give bytes, or a number with kb, mb, gb or tb"
        raise argparse.ArgumentTypeError(problem)
    return int(match[1]) * _CAPACITY_UNITS[match[2].lower()]


def duration(text: str) -> str:
    """An ISO 8601 duration such as `P5DT8H`, converted for `x-max-age`."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        problem = f"'{text}' is not an ISO 8601 duration such as PT10M30S or P5DT8H"
        raise argparse.ArgumentTypeError(problem)
    parts = zip(match.groups(), _DURATION_SECONDS, strict=True)
    return f"{sum(int(amount or 0) * unit for amount, unit in parts)}s"


def uris(text: str) -> list[str]:
    """Several addresses, separated by commas."""
    found = [uri(name) for name in names(text)]
    if not found:
        raise argparse.ArgumentTypeError("give at least one address")
    return found


def uri(text: str) -> str:
    """A broker's address."""
    try:
        parts = urlsplit(text)
        is_good = parts.scheme in ("amqp", "amqps") and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good:
        problem = (
            f"'{text}' is not an address: give amqp://user:password@host:port/vhost, or amqps://"
        )
        raise argparse.ArgumentTypeError(problem)
    return text
