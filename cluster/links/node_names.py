"""Names of nodes, and the text forms of their addresses: `name@host` and `name@host:port`.

A node is reached at the host of its name. Only the port of its listener is an address of its own,
and where it is left out it is DEFAULT_PORT. An IPv6 address as a host is in brackets.
"""

import re
from typing import NamedTuple

DEFAULT_PORT = 25672
"""RabbitMQ's port between nodes."""
PORT_MAX = 65_535
HOST = r"(?:\[[0-9A-Fa-f:.]{2,64}\]|[^\s@:\[\]]{1,255})"
NODE_NAME = re.compile(rf"[^\s@]{{1,255}}@{HOST}")
NODE_AND_PORT = re.compile(rf"([^@]+@{HOST}):([0-9]{{1,5}})")


class NodeAddress(NamedTuple):
    """A node and the port that it listens on for other nodes."""

    node: str
    port: int

    @property
    def host(self) -> str:
        """The host of the name, without brackets."""
        return host_of(self.node)

    def __str__(self) -> str:
        return self.node if self.port == DEFAULT_PORT else f"{self.node}:{self.port}"


def is_node_name(text: str) -> bool:
    """Whether a text is `name@host`, without blanks and control characters."""
    return NODE_NAME.fullmatch(text) is not None and text.isprintable()


def host_of(node: str) -> str:
    """The host of a node's name, without the brackets of an IPv6 address."""
    return node.partition("@")[2].removeprefix("[").removesuffix("]")


def parse_address(text: str) -> NodeAddress:
    """Read `name@host` or `name@host:port`. Raises ValueError, with a text for the operator."""
    node, port = text.strip(), DEFAULT_PORT
    if match := NODE_AND_PORT.fullmatch(node):
        node, port = match[1], int(match[2])
    if not is_node_name(node) or not 0 < port <= PORT_MAX:
        raise ValueError(
            f"{text!r} is no address of a node: expected name@host or name@host:port, such as "
            "leveret@host1 or leveret@127.0.0.1:25673, and brackets around an IPv6 address"
        )
    return NodeAddress(node, port)
