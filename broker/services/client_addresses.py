"""Where clients of the stream protocol reach the nodes of the cluster.

A node tells its clients the leader and the replicas of a stream by these addresses. Each node has
its own from its configuration and its listeners, and gets those of others from
cluster/node_status/node_states.py.
"""

from collections.abc import Callable

import msgspec


class ClientAddress(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node's address for clients, and that for clients over TLS. A port is 0 if there is none."""

    host: str = ""
    port: int = 0
    tls_host: str = ""
    tls_port: int = 0


class ClientAddresses:
    """own: this node's. of_others: by node. own_changed: may be replaced."""

    def __init__(self) -> None:
        self.own = ClientAddress()
        self.of_others: dict[str, ClientAddress] = {}
        self.own_changed: Callable[[], object] = lambda: None

    def set_own(self, address: ClientAddress) -> None:
        """The listeners of this node are open."""
        if address != self.own:
            self.own = address
            self.own_changed()
