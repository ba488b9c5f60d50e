"""The host and the port by which clients of the stream protocol reach the nodes of a cluster.

They are configured (`stream.advertised_host` and so on). Without that, the host is that of the
node's name, and the port that of the first listener.
"""

from collections.abc import Sequence

from leveret.broker.config import Config, Listener
from leveret.broker.protocols.stream.responses import Node
from leveret.broker.protocols.stream.serving import ServingConnection
from leveret.broker.services.client_addresses import ClientAddress


def own_address(
    config: Config, listeners: Sequence[Listener], tls_listeners: Sequence[Listener]
) -> ClientAddress:
    """The address of this node. listeners, tls_listeners: the open ones of the protocol."""
    if not listeners and not tls_listeners:
        return ClientAddress()
    settings = config.stream
    host = settings.advertised_host or _host_of(config.node_name)
    return ClientAddress(
        host,
        settings.advertised_port or _port(listeners),
        settings.advertised_tls_host or host,
        settings.advertised_tls_port or _port(tls_listeners),
    )


def _port(listeners: Sequence[Listener]) -> int:
    return listeners[0].port if listeners else 0


def address_of(connection: ServingConnection, node: str) -> Node | None:
    """The address of a node; None if it has none for this client, or is not known."""
    if node == connection.services.config.node_name:
        return own_address_for(connection)
    address = connection.services.client_addresses.of_others.get(node)
    if address is None:
        return None
    if connection.is_tls:
        return (address.tls_host, address.tls_port) if address.tls_port else None
    return (address.host, address.port) if address.port else None


def own_address_for(connection: ServingConnection) -> Node:
    """The address of this node. A client knows at least the port that it has connected to."""
    address = connection.services.client_addresses.own
    host, port = address.host, address.port
    if connection.is_tls:
        host, port = address.tls_host, address.tls_port
    own_host = _host_of(connection.services.config.node_name)
    return host or own_host, port or connection.own_port


def _host_of(node: str) -> str:
    return node.partition("@")[2]
