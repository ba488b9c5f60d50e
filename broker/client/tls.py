"""TLS of a connection to a server: contexts, and the name that the server must have."""

import ssl

from leveret.broker.auth.backends.client_tls import client_context
from leveret.broker.client.address import DISABLED, AddressTls, ServerAddress
from leveret.broker.client.ended import ConnectionFailed
from leveret.broker.config.tls_settings import VERIFY_NONE, VERIFY_PEER, ClientTlsOptions


def context_of(address: ServerAddress) -> ssl.SSLContext | None:
    """The context of a connection; None without TLS. Raises ConnectionFailed for invalid files."""
    tls = address.tls
    if not isinstance(tls, AddressTls):
        return tls
    options = ClientTlsOptions(
        cacertfile=tls.cacertfile,
        certfile=tls.certfile,
        keyfile=tls.keyfile,
        password=tls.password,
        verify=VERIFY_PEER if tls.verify_peer else VERIFY_NONE,
    )
    try:
        context = client_context(options)
    except ValueError as error:
        raise ConnectionFailed(f"{address} cannot be connected to: {error}") from None
    if tls.server_name_indication == DISABLED:
        context.check_hostname = False
    return context


def server_name(address: ServerAddress) -> str | None:
    """The name to ask for: empty for none; None for no TLS."""
    if address.tls is None:
        return None
    name = address.tls.server_name_indication if isinstance(address.tls, AddressTls) else ""
    if name == DISABLED:
        return ""
    return name or address.host
