"""Connections to the servers of backends: TLS contexts, and addresses for logs.

Certificates are checked against the configured authorities or the system's, unless `verify_none` is
set.
"""

import ssl
from urllib.parse import urlsplit, urlunsplit

from leveret.broker.config.tls_settings import VERIFY_NONE, ClientTlsOptions


def client_context(options: ClientTlsOptions) -> ssl.SSLContext:
    """Make the TLS context for connections to a server. Raises ValueError for invalid files."""
    try:
        if options.verify == VERIFY_NONE and options.cacertfile is None:
            # Without the system's authorities, which take 30 ms and half a megabyte.
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        else:
            context = ssl.create_default_context(cafile=options.cacertfile)
    except (OSError, ssl.SSLError) as error:
        raise ValueError(f"no authorities can be read from {options.cacertfile}: {error}") from None
    if options.verify == VERIFY_NONE:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if options.certfile is not None:
        try:
            # Without the function, OpenSSL would ask for a password on the terminal.
            context.load_cert_chain(options.certfile, options.keyfile, lambda: options.password)
        except (OSError, ssl.SSLError) as error:
            raise ValueError(f"no certificate and key in {options.certfile}: {error}") from None
    return context


def shown_address(url: str) -> str:
    """A URL for logs: without user information and query, which may contain secrets."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, place, parts.path, "", ""))
