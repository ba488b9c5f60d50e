"""The address that an AMQP URI names, for a connection to it.

Parts that a URI leaves out have the defaults of `address.py`, which are RabbitMQ's. The depth of
the chain of certificates is checked and otherwise ignored: Python's TLS has no such limit.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leveret.broker.amqp.uri import DEFAULT_VHOST, AmqpUri, TlsOptions, parse_uri
from leveret.broker.moving.client.address import PORT, TLS_PORT, AddressTls, ServerAddress


@dataclass(frozen=True)
class ThisNode:
    """The node itself, for a URI without a host. user: None for the node's own permissions."""

    vhost: str = DEFAULT_VHOST
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        """The address for logs: without user and password."""
        return "amqp://"


def address_of(uri: str, default_vhost: str = DEFAULT_VHOST) -> ServerAddress | ThisNode:
    """The address that a URI names. Raises UriError, whose text shows no password."""
    parsed = parse_uri(uri, default_vhost)
    if parsed.host is None:
        return ThisNode(parsed.vhost, parsed.user, parsed.password)
    default_port = PORT if parsed.tls is None else TLS_PORT
    return ServerAddress(
        host=parsed.host,
        port=parsed.port or default_port,
        vhost=parsed.vhost,
        tls=None if parsed.tls is None else _tls(parsed.tls),
        **_given(parsed),
    )


def _given(uri: AmqpUri) -> dict[str, Any]:
    """The URI's values for the fields that have defaults."""
    timeout_ms = uri.connection_timeout_ms
    options = {
        "user": uri.user,
        "password": uri.password,
        "mechanisms": tuple(one.upper() for one in uri.mechanisms) or None,
        "heartbeat_s": uri.heartbeat_s,
        "connection_timeout_s": None if timeout_ms is None else timeout_ms / 1000,
        "channel_max": uri.channel_max,
        "frame_max": uri.frame_max,
    }
    return {name: value for name, value in options.items() if value is not None}


def _tls(options: TlsOptions) -> AddressTls:
    return AddressTls(
        cacertfile=_path(options.cacertfile),
        certfile=_path(options.certfile),
        keyfile=_path(options.keyfile),
        password=options.key_password,
        verify_peer=options.verify_peer,
        server_name_indication=options.server_name_indication,
        fail_if_no_peer_cert=options.fail_if_no_peer_cert,
    )


def _path(text: str) -> Path | None:
    return Path(text) if text else None
