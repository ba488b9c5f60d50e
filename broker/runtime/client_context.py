"""TLS contexts of connections that are opened to a server.

Certificates are checked against the given authorities or the system's, unless they are not to be.
"""

import ssl
from pathlib import Path


def make_client_context(
    cacertfile: Path | None,
    certfile: Path | None,
    keyfile: Path | None,
    password: str,
    *,
    verify_peer: bool,
) -> ssl.SSLContext:
    """Make a context. keyfile: None if the private key is in certfile.

    Raises ValueError for invalid files.
    """
    try:
        if not verify_peer and cacertfile is None:
            # Without the system's authorities, which take 30 ms and half a megabyte.
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        else:
            context = ssl.create_default_context(cafile=cacertfile)
    except (OSError, ssl.SSLError) as error:
        raise ValueError(f"no authorities can be read from {cacertfile}: {error}") from None
    if not verify_peer:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certfile is not None:
        try:
            # Without the function, OpenSSL would ask for a password on the terminal.
            context.load_cert_chain(certfile, keyfile, lambda: password)
        except (OSError, ssl.SSLError) as error:
            raise ValueError(f"no certificate and key in {certfile}: {error}") from None
    return context
