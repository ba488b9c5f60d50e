"""The servers of backends: TLS towards them, as the settings of a backend make it, and addresses.

Certificates are checked unless `verify_none` is set, against the given authorities or the system's.
"""

import ssl
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

VERIFY_NONE = "verify_none"


def client_context(
    cacertfile: Path | None,
    verify: str,
    certfile: Path | None = None,
    keyfile: Path | None = None,
    password: str = "",
) -> ssl.SSLContext:
    """The context. certfile: the node's own certificate. Raises ValueError for bad files."""
    try:
        context = ssl.create_default_context(cafile=cacertfile)
    except (OSError, ssl.SSLError) as error:
        raise ValueError(f"no authorities can be read from {cacertfile}: {error}") from None
    if verify == VERIFY_NONE:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certfile is not None:
        try:
            # Without a password, one that is needed would be asked for on the terminal.
            context.load_cert_chain(certfile, keyfile, lambda: password)
        except (OSError, ssl.SSLError) as error:
            raise ValueError(f"no certificate and key in {certfile}: {error}") from None
    return context


def shown_address(url: str) -> str:
    """An address as logs show it: without a login or a query, both of which may hold a secret."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, place, parts.path, "", ""))
