"""The host and the port by which clients of the stream protocol reach the nodes of a cluster.

They are configured (`stream.advertised_host` and so on). Without that, the host is that of the
node's name, and the port that of the first listener.
"""

from leveret.broker.protocols.stream.responses import Node
from leveret.broker.protocols.stream.serving import ServingConnection
from leveret.broker.services.client_addresses import host_of


def address_of(connection: ServingConnection, node: str) -> Node | None:
    """The address of a node; None if it is unknown, or has no listener for this client."""
    if node == connection.services.config.node_name:
        return own_address_for(connection)
    address = connection.services.client_addresses.of_others.get(node)
    if address is None:
        return None
    if connection.is_tls:
        return (address.tls_host, address.tls_port) if address.tls_port else None
    return (address.host, address.port) if address.port else None


def own_address_for(connection: ServingConnection) -> Node:
    """The address of this node. At least the port to which the client has connected is known."""
    address = connection.services.client_addresses.own
    host, port = address.host, address.port
    if connection.is_tls:
        host, port = address.tls_host, address.tls_port
    own_host = host_of(connection.services.config.node_name)
    return host or own_host, port or connection.own_port
