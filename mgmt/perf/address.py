"""Parses a broker's address: amqp://user:password@host:port/vhost?option=value. Pure.

The options are those of RabbitMQ's own clients and concern TLS: cacertfile, certfile, keyfile,
verify (verify_peer or verify_none) and server_name_indication. By default the certificates that the
system trusts are trusted.
"""

from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from leveret.broker.moving.client.address import (
    EXTERNAL,
    PLAIN,
    PORT,
    TLS_PORT,
    AddressTls,
    ServerAddress,
)
from leveret.mgmt.perf.options import PerfOptions

CONNECT_SECONDS_MAX = 15.0


def read_address(uri: str, options: PerfOptions) -> ServerAddress:
    """Parse an address. options: for the login, the limits, and the name of a TLS server."""
    parts = urlsplit(uri)
    is_tls = parts.scheme == "amqps"
    return ServerAddress(
        host=parts.hostname or "127.0.0.1",
        port=parts.port or (TLS_PORT if is_tls else PORT),
        vhost=unquote(parts.path[1:]) or "/",
        user=unquote(parts.username or "guest"),
        password=unquote(parts.password or "guest"),
        mechanisms=(EXTERNAL if options.sasl_external else PLAIN,),
        heartbeat_s=options.heartbeat,
        connection_timeout_s=CONNECT_SECONDS_MAX,
        channel_max=0,
        frame_max=options.framemax,
        tls=_tls(dict(parse_qsl(parts.query)), options.server_name) if is_tls else None,
    )


def _tls(given: dict[str, str], name: str) -> AddressTls:
    cacertfile, certfile, keyfile = (
        Path(given[key]) if key in given else None for key in ("cacertfile", "certfile", "keyfile")
    )
    return AddressTls(
        cacertfile=cacertfile,
        certfile=certfile,
        keyfile=keyfile,
        verify_peer=given.get("verify") != "verify_none",
        server_name_indication=given.get("server_name_indication", name),
    )
