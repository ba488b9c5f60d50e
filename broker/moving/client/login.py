"""A client's answers in the handshake: its login, and the limits that it chooses.

Pure. The rules for limits are those of RabbitMQ's client (`amqp_network_connection`): the smaller
one is used, and 0 stands for the other side's. Frames are always limited.
"""

from typing import Final, NamedTuple

from pamqp import commands

from leveret.broker.amqp.field_table import Table, encode_table
from leveret.broker.amqp.methods import long_string_argument
from leveret.broker.moving.client.address import AMQPLAIN, FRAME_BYTES_MAX, PLAIN, ServerAddress
from leveret.broker.moving.client.ended import ConnectionFailed

CHANNEL_MAX: Final = 65535
FRAME_BYTES_MIN: Final = 4096
"""The smallest frame_max (specification, section 4.2.3). A body in frames of a few bytes each would
be a hundred times as large."""
SHOWN_MAX: Final = 200
"""Characters of a server's list that an error shows."""
CAPABILITIES: Final = (
    "authentication_failure_close",
    "basic.nack",
    "connection.blocked",
    "consumer_cancel_notify",
    "exchange_exchange_bindings",
    "publisher_confirms",
)
TLS_RECORDS: Final = (0x15, 0x16)
"""The first octets of a TLS server's answer: an alert or a handshake."""


class NegotiatedLimits(NamedTuple):
    """The negotiated limits. frame_max: in bytes. heartbeat_s: 0 for none."""

    channel_max: int
    frame_max: int
    heartbeat_s: int


def client_properties(properties: Table) -> Table:
    """The properties with this client's capabilities."""
    return {"capabilities": ("F", dict.fromkeys(CAPABILITIES, ("t", True))), **properties}


def choose_mechanism(address: ServerAddress, offered: str) -> str:
    """The first of the address's mechanisms that the server offers. Raises ConnectionFailed."""
    names = offered.split()
    for mechanism in address.mechanisms:
        if mechanism in names:
            return mechanism
    wanted = " or ".join(address.mechanisms)
    raise ConnectionFailed(
        f"{address} offers the authentication mechanisms {_shown(names)}, and not {wanted}: choose "
        "another one with auth_mechanism"
    )


def response(mechanism: str, address: ServerAddress) -> str:
    """The response of a mechanism, as the argument of connection.start-ok."""
    if mechanism == PLAIN:
        return f"\0{address.user}\0{address.password}"
    if mechanism == AMQPLAIN:
        table: Table = {"LOGIN": ("S", address.user), "PASSWORD": ("S", address.password)}
        return encode_table(table)[4:].decode("utf-8", "surrogateescape")
    return ""


def choose_limits(address: ServerAddress, offered: commands.Connection.Tune) -> NegotiatedLimits:
    """The answer to the server's limits. Raises ConnectionFailed."""
    frame_max = _smaller(address.frame_max or FRAME_BYTES_MAX, offered.frame_max)
    if frame_max < FRAME_BYTES_MIN:
        raise ConnectionFailed(
            f"{address} and this node agree on a frame_max of {frame_max} bytes: "
            f"{FRAME_BYTES_MIN} is the least"
        )
    return NegotiatedLimits(
        _smaller(address.channel_max, offered.channel_max) or CHANNEL_MAX,
        frame_max,
        _smaller(address.heartbeat_s, offered.heartbeat),
    )


def _shown(names: list[str]) -> str:
    told = ", ".join(names) or "none"
    return told if len(told) <= SHOWN_MAX else f"{told[:SHOWN_MAX]}..."


def _smaller(wanted: int, offered: int) -> int:
    return min(wanted, offered) if wanted and offered else max(wanted, offered)


def check_greeting(address: ServerAddress, data: bytes) -> None:
    """Raise ConnectionFailed if the first bytes of a server cannot be a connection.start."""
    if data[0] == 1:
        return
    if data.startswith(b"AMQP"):
        version = ".".join(str(octet) for octet in data[5:8])
        raise ConnectionFailed(f"{address} does not speak AMQP 0-9-1; it answers with {version}")
    if data[0] in TLS_RECORDS:
        raise ConnectionFailed(f"{address} speaks TLS: connect with amqps://")
    raise ConnectionFailed(f"{address} does not speak AMQP; it answers with {data[:16]!r}")


def mechanisms_of(start: commands.Connection.Start) -> str:
    """The mechanisms that a server offers, separated by spaces."""
    return long_string_argument(start.mechanisms).decode("utf-8", "replace")
