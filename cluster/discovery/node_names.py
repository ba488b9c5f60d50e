"""Node names of the hosts that a backend lists.

Backends list addresses or host names. All nodes of a cluster have the same name before the `@`, so
a listed node has the name of this node with the other host. As in RabbitMQ, hosts are short names
unless the nodes use long ones: a host name is cut at its first dot, an address is not.
A node uses long names if the host in its own name has a dot or is an address.
"""

from ipaddress import ip_address


class NodeNames:
    """Makes the names of other nodes. own: the name of this node."""

    __slots__ = ("_has_long_names", "_word", "own", "own_host")

    def __init__(self, own: str) -> None:
        self.own = own
        self._word, _, self.own_host = own.partition("@")
        self._has_long_names = "." in self.own_host or is_address(self.own_host)

    def of_host(self, host: str) -> str:
        """The node at a host; a text that is a node's name already is returned as it is."""
        return host if "@" in host else self.at(host)

    def at(self, host: str) -> str:
        """The node at a host, whatever name is before its `@`."""
        host = host.rpartition("@")[2].removesuffix(".")
        if is_address(host):
            return f"{self._word}@[{host}]" if ":" in host else f"{self._word}@{host}"
        return f"{self._word}@{host if self._has_long_names else host.partition('.')[0]}"


def is_address(host: str) -> bool:
    """Whether a host is an address of IPv4 or IPv6, the latter with or without brackets."""
    try:
        ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
