"""The host and the port by which clients of the stream protocol reach the nodes of a cluster.

A node tells its clients what is configured (`stream.advertised_host` and so on). Without that, the
host is that of the node's name, and the port the one that the client has connected to.
"""

from leveret.broker.protocols.stream.responses import Node
from leveret.broker.protocols.stream.serving import ServingConnection


def address_of(connection: ServingConnection, node: str) -> Node:
    """The address of a node. Other nodes are assumed to have the same port as this one."""
    settings = connection.services.config.stream
    host, port = settings.advertised_host, settings.advertised_port
    if connection.is_tls:
        host, port = settings.advertised_tls_host or host, settings.advertised_tls_port
    if node != connection.services.config.node_name:
        host = None
    return host or node.partition("@")[2], port or connection.own_port
