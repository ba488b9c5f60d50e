"""Where a client of MQTT 5.0 is sent when its node is put under maintenance (pure).

Each client is told one other node that serves it, by its client identifier, so the clients of a
node spread over the others. The form is the one that the standard recommends (its section 4.11):
host:port.
"""

from collections.abc import Mapping
from zlib import crc32

from leveret.broker.services.client_addresses import ClientAddress


def server_reference(
    addresses: Mapping[str, ClientAddress], client_id: str, is_tls: bool
) -> str | None:
    """The server reference for a client; None if no other node serves it.

    addresses: those of the other nodes that accept clients, by node.
    """
    known = [
        (one.tls_host, one.tls_port) if is_tls else (one.host, one.port)
        for _, one in sorted(addresses.items())
    ]
    served = [(host, port) for host, port in known if port]
    if not served:
        return None
    host, port = served[crc32(client_id.encode("utf-8", "surrogateescape")) % len(served)]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
