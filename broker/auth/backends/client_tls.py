"""Connections to the servers of backends: TLS contexts, and addresses for logs."""

import ssl
from urllib.parse import urlsplit, urlunsplit

from leveret.broker.config.tls_settings import VERIFY_NONE, ClientTlsOptions
from leveret.broker.runtime.client_context import make_client_context


def client_context(options: ClientTlsOptions) -> ssl.SSLContext:
    """Make the TLS context for connections to a server. Raises ValueError for invalid files."""
    return make_client_context(
        options.cacertfile, options.certfile, options.keyfile, options.password,
        verify_peer=options.verify != VERIFY_NONE,
    )  # fmt: skip


def shown_address(url: str) -> str:
    """A URL for logs: without user information and query, which may contain secrets."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, place, parts.path, "", ""))
