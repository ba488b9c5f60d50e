"""Where clients of the stream protocol, MQTT and AMQP 1.0 reach the nodes of the cluster.

A node tells clients of streams the leader and the replicas of a stream by these addresses, and
clients of MQTT and AMQP 1.0 another node when it is put under maintenance. Each node has its own
from its configuration and its listeners, and gets those of others from
cluster/node_status/node_states.py.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol
from zlib import crc32

import msgspec

from leveret.broker.config import Listener


class ClientAddress(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node's address for clients, and that for clients over TLS. A port is 0 if there is none."""

    host: str = ""
    port: int = 0
    tls_host: str = ""
    tls_port: int = 0


class AdvertisedSettings(Protocol):
    """The settings of a protocol that say what clients are told instead."""

    @property
    def advertised_host(self) -> str | None:
        """The host; None for that of the node's name."""

    @property
    def advertised_port(self) -> int:
        """The port; 0 for that of the first listener."""

    @property
    def advertised_tls_host(self) -> str | None:
        """The host for clients over TLS; None for `advertised_host`."""

    @property
    def advertised_tls_port(self) -> int:
        """The port for clients over TLS; 0 for that of the first listener."""


def own_address(
    settings: AdvertisedSettings,
    node: str,
    listeners: Sequence[Listener],
    tls_listeners: Sequence[Listener],
) -> ClientAddress:
    """The address of this node. listeners, tls_listeners: the open ones of the protocol."""
    if not listeners and not tls_listeners:
        return ClientAddress()
    host = settings.advertised_host or host_of(node)
    return ClientAddress(
        host,
        settings.advertised_port or _port(listeners),
        settings.advertised_tls_host or host,
        settings.advertised_tls_port or _port(tls_listeners),
    )


def other_address(
    addresses: Mapping[str, ClientAddress], client_id: str, is_tls: bool
) -> tuple[str, int] | None:
    """Host and port of another node for a client; None if no other node serves it.

    addresses: those of the other nodes that accept clients, by node. Each client is given one of
    them by its identifier, so the clients of a node spread over the others.
    """
    known = [
        (one.tls_host, one.tls_port) if is_tls else (one.host, one.port)
        for _, one in sorted(addresses.items())
    ]
    served = [(host, port) for host, port in known if port]
    if not served:
        return None
    return served[crc32(client_id.encode("utf-8", "surrogateescape")) % len(served)]


def host_of(node: str) -> str:
    """The host of a node's name."""
    return node.partition("@")[2]


def _port(listeners: Sequence[Listener]) -> int:
    return listeners[0].port if listeners else 0


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
