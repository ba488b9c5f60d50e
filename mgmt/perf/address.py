"""Parses a broker's address: amqp://user:password@host:port/vhost?option=value. Pure.

The options are those of RabbitMQ's own clients and concern TLS: cacertfile, certfile, keyfile,
verify (verify_peer or verify_none) and server_name_indication. By default the certificates that the
system trusts are trusted.
"""

import ssl
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

PORT, TLS_PORT = 5672, 5671


@dataclass(frozen=True)
class BrokerAddress:
    """A broker's host, port, virtual host and login. tls: None without TLS."""

    host: str
    port: int
    vhost: str
    user: str
    password: str
    tls: ssl.SSLContext | None
    server_name: str | None


def read_address(uri: str, server_name: str = "") -> BrokerAddress:
    """Parse an address. Raises OSError if a certificate cannot be read.

    server_name: the TLS server name to request and verify, unless the address has one.
    """
    parts = urlsplit(uri)
    is_tls = parts.scheme == "amqps"
    options = dict(parse_qsl(parts.query))
    host = parts.hostname or "127.0.0.1"
    named = options.get("server_name_indication", server_name or host)
    return BrokerAddress(
        host=host, port=parts.port or (TLS_PORT if is_tls else PORT),
        vhost=unquote(parts.path[1:]) or "/",
        user=unquote(parts.username or "guest"), password=unquote(parts.password or "guest"),
        tls=_context(options) if is_tls else None, server_name=named if is_tls else None,
    )  # fmt: skip


def _context(options: dict[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=options.get("cacertfile"))
    if options.get("verify") == "verify_none":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if "certfile" in options:
        context.load_cert_chain(options["certfile"], options.get("keyfile"))
    return context
