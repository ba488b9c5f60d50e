"""Where a client of MQTT 5.0 is sent when its node is put under maintenance (pure).

The form is the one that the standard recommends (its section 4.11): host:port.
"""

from collections.abc import Mapping

from leveret.broker.services.client_addresses import ClientAddress, other_address


def server_reference(
    addresses: Mapping[str, ClientAddress], client_id: str, is_tls: bool
) -> str | None:
    """The server reference for a client; None if no other node serves it.

    addresses: see `other_address`.
    """
    address = other_address(addresses, client_id, is_tls)
    if address is None:
        return None
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
