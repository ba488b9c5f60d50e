"""The limits and property tables that client and server negotiate before a connection is open.

Pure: computes what the server announces and checks what the client answers. Source: RabbitMQ's
`rabbit_reader`, and its documentation on networking and heartbeats.
"""

import platform

from leveret import __version__
from leveret.broker.amqp.errors import not_allowed
from leveret.broker.amqp.field_table import Table
from leveret.broker.protocols.tuning import Tuning

PRODUCT = "RabbitMQ"
COMPATIBLE_VERSION = "3.12.14"
COMPATIBLE_VERSIONS = {"3.12": COMPATIBLE_VERSION, "4.0": "4.0.5", "4.x": "4.3.0"}
"""The RabbitMQ version to announce, by compatibility level: client libraries adapt to it."""

FRAME_BYTES_MIN = 4096
"""The smallest frame_max (specification, section 4.2.3), and the limit before tuning."""
FRAME_BYTES_MIN_4 = 8192
"""The smallest frame_max in RabbitMQ 4.1 and later."""

LOCALES = "en_US"

CAPABILITIES = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)

ACCEPTED_PROTOCOL_HEADERS = {
    b"AMQP\x00\x00\x09\x01": (0, 9),
    b"AMQP\x01\x01\x00\x09": (0, 9),
    b"AMQP\x01\x01\x08\x00": (8, 0),
    b"AMQP\x01\x01\x09\x01": (8, 0),
}
"""Protocol headers of 0-9-1, 0-9 and 0-8, with the version that connection.start announces."""


def server_properties(cluster_name: str, compat: str = "3.12") -> Table:
    """The server-properties of connection.start."""
    return {
        "capabilities": ("F", dict.fromkeys(CAPABILITIES, ("t", True))),
        "cluster_name": ("S", cluster_name),
        "copyright": ("S", "Copyright (c) the Leveret authors"),
        "information": ("S", f"Leveret {__version__}, an AMQP 0-9-1 broker"),
        "platform": ("S", f"Python {platform.python_version()}"),
        "product": ("S", PRODUCT),
        "version": ("S", COMPATIBLE_VERSIONS[compat]),
    }


def check_tuning(offered: Tuning, chosen: Tuning, frame_bytes_min: int = FRAME_BYTES_MIN) -> None:
    """Raise 530 if the client chose a limit above the offered one or below the minimum.

    The client may choose any heartbeat interval.
    """
    _check("frame_max", chosen.frame_bytes_max, frame_bytes_min, offered.frame_bytes_max)
    _check("channel_max", chosen.channel_max, 1, offered.channel_max)


def _check(name: str, chosen: int, least: int, most: int) -> None:
    if chosen and chosen < least:
        raise not_allowed(
            f"negotiated {name} = {chosen} is lower than the minimum allowed value ({least})"
        )
    if most and (chosen == 0 or chosen > most):
        shown = "0 (no limit)" if chosen == 0 else str(chosen)
        raise not_allowed(
            f"negotiated {name} = {shown} is higher than the maximum allowed value ({most})"
        )
