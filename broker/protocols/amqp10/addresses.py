"""Addresses of AMQP 1.0: the sources and targets of links. Pure.

    version 2                      version 1, of RabbitMQ 3
    /queues/QUEUE                  /queue/QUEUE, or QUEUE alone: the queue is declared
                                   /amq/queue/QUEUE: it is not
    /exchanges/EXCHANGE            /exchange/EXCHANGE: the subject of a message is its routing key
    /exchanges/EXCHANGE/KEY        /exchange/EXCHANGE/KEY
                                   /topic/KEY

In version 2 names are percent-encoded; in version 1 only `/` is encoded, as `%2F`. Without an
address, each message that is sent names its own in the property `to` (OASIS, Using the Anonymous
Terminus). The texts of errors are RabbitMQ's.
"""

import re
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from leveret.broker.erlang.terms import Atom, String, format_term

DEFAULT_EXCHANGE: Final = ""
TOPIC_EXCHANGE: Final = "amq.topic"
MANAGEMENT: Final = "/management"
_QUEUES: Final = "/queues/"
_EXCHANGES: Final = "/exchanges/"
_KINDS_OF_VERSION_1: Final = frozenset(("queue", "exchange", "topic"))
_ENCODED: Final = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2})*")


class AddressError(ValueError):
    """An address is not valid for links. The text is the reason that RabbitMQ gives."""


class QueueAddress(NamedTuple):
    """A queue. declares: it is declared if it does not exist."""

    name: str
    declares: bool = False


class ExchangeAddress(NamedTuple):
    """An exchange. routing_key: None if the subject of each message is its routing key."""

    exchange: str
    routing_key: str | None


ANONYMOUS: Final = None
"""Each message names its own address."""


def read_source(
    address: str | None, *, permits_version_1: bool = True
) -> QueueAddress | ExchangeAddress:
    """Parse the address of a source. Raises AddressError."""
    if address is None:
        raise AddressError(_text(Atom("bad_address"), Atom("undefined")))
    if not address.startswith(_QUEUES):
        return _of_version_1(address, permits_version_1)
    name = decode_name(address.removeprefix(_QUEUES))
    if name is None:
        raise AddressError(_text(Atom("bad_address"), (Atom("utf8"), address)))
    return QueueAddress(name)


def read_target(
    address: str | None, *, permits_version_1: bool = True
) -> QueueAddress | ExchangeAddress | None:
    """Parse the address of a target. Raises AddressError."""
    if address is None:
        return ANONYMOUS
    if not address.startswith((_QUEUES, _EXCHANGES)):
        return _of_version_1(address, permits_version_1)
    found = _version_2(address)
    if found is None:
        raise AddressError(_text(Atom("bad_address_string"), address))
    return found


def read_to(address: str) -> ExchangeAddress:
    """The target of a message that names its own address. Raises AddressError."""
    found = _version_2(address)
    if found is None:
        raise AddressError(f"bad 'to' address string: {address}")
    return published_to(found)


def queue_address(name: str) -> str:
    """The address of a queue."""
    return f"/queues/{encode_name(name)}"


def published_to(address: QueueAddress | ExchangeAddress) -> ExchangeAddress:
    """The exchange and the routing key of an address for publishing."""
    if isinstance(address, QueueAddress):
        return ExchangeAddress(DEFAULT_EXCHANGE, address.name)
    return address


def encode_name(name: str) -> str:
    """A name as a segment of an address of version 2."""
    return "".join(chr(byte) if chr(byte) in _UNRESERVED else f"%{byte:02X}" for byte in (
        name.encode("utf-8", "surrogateescape")
    ))  # fmt: skip


def decode_name(segment: str) -> str | None:
    """The name in a segment of an address; None if its encoding is not valid."""
    if _ENCODED.fullmatch(segment) is None:
        return None
    return unquote_to_bytes(segment).decode("utf-8", "surrogateescape")


def _of_version_1(address: str, is_permitted: bool) -> QueueAddress | ExchangeAddress:
    if not is_permitted:
        raise AddressError(_text(Atom("amqp_address_v1_not_permitted"), (Atom("utf8"), address)))
    found = _version_1(address)
    if found is not None:
        return found
    kind, slash, rest = address.removeprefix("/").partition("/")
    if address.startswith("/") and slash and kind in _KINDS_OF_VERSION_1:
        raise AddressError(_text(Atom("invalid_destination"), Atom(kind), String(f"/{rest}")))
    raise AddressError(_text(Atom("unknown_destination"), String(address)))


def _version_2(address: str) -> QueueAddress | ExchangeAddress | None:
    _, kind, *segments = address.split("/") if address.startswith("/") else ("", "")
    names = [decode_name(segment) for segment in segments]
    match kind, names:
        case "queues", [str(name)] if name:
            return QueueAddress(name)
        case "exchanges", [str(name)] if name and name != "amq.default":
            return ExchangeAddress(name, "")
        case "exchanges", [str(name), str(key)] if name and name != "amq.default":
            return ExchangeAddress(name, key)
    return None


def _version_1(address: str) -> QueueAddress | ExchangeAddress | None:
    if not address.startswith("/"):
        is_name = address and "/" not in address
        return QueueAddress(_unquoted(address), declares=True) if is_name else None
    _, *segments = address.split("/")
    names = [_unquoted(segment) for segment in segments]
    match names:
        case ["queue", str(name)] if name:
            return QueueAddress(name, declares=True)
        case ["amq", "queue", str(name)] if name:
            return QueueAddress(name)
        case ["topic", str(key)] if key:
            return ExchangeAddress(TOPIC_EXCHANGE, key)
        case ["exchange", str(name)] if name:
            return ExchangeAddress(name, None)
        case ["exchange", str(name), str(key)] if name:
            return ExchangeAddress(name, key)
    return None


def _unquoted(segment: str) -> str:
    """A segment of version 1, in which no other character is encoded."""
    return segment.replace("%2F", "/")


def _text(*reason: object) -> str:
    return format_term(reason)


_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
