"""TLS of a connection to a server: contexts, and the name that the server must have.

A context is made once for the same options and files: reading the system's authorities takes longer
than everything else in connecting, and a link whose server is down reconnects every few seconds.
"""

import ssl
from functools import lru_cache
from pathlib import Path
from typing import Final

from leveret.broker.moving.client.address import DISABLED, AddressTls, ServerAddress
from leveret.broker.moving.client.ended import ConnectionFailed
from leveret.broker.runtime.client_context import make_client_context

CONTEXTS_MAX: Final = 128


def context_of(address: ServerAddress) -> ssl.SSLContext | None:
    """The context of a connection; None without TLS. Raises ConnectionFailed for invalid files."""
    tls = address.tls
    if not isinstance(tls, AddressTls):
        return tls
    try:
        return _context(tls, _versions(tls))
    except ValueError as error:
        raise ConnectionFailed(f"{address} cannot be connected to: {error}") from None


def _versions(tls: AddressTls) -> tuple[int, ...]:
    """When the files of a context were changed: renewed certificates are read again."""
    system = ssl.get_default_verify_paths()
    authorities = tls.cacertfile or system.cafile or system.capath
    files = [Path(one) for one in (authorities, tls.certfile, tls.keyfile) if one is not None]
    return tuple(one.stat().st_mtime_ns if one.exists() else 0 for one in files)


@lru_cache(CONTEXTS_MAX)
def _context(tls: AddressTls, _versions: tuple[int, ...]) -> ssl.SSLContext:
    context = make_client_context(
        tls.cacertfile, tls.certfile, tls.keyfile, tls.password, verify_peer=tls.verify_peer
    )
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
