"""Names of nodes, and the text form of their addresses: `name@host` and `name@host:port`.

A node is reached at the host of its name, so an address only adds the port. Without a port in the
text, the node's known port applies. An IPv6 address as a host is in brackets.
"""

import re
from typing import NamedTuple

DEFAULT_PORT = 25672
"""RabbitMQ's port between nodes."""
PORT_MAX = 65_535
NODE_ADDRESS = re.compile(
    r"([^@\s]{1,255}@(?:\[[0-9A-Fa-f:.]{2,64}\]|[^@\s:\[\]]{1,255}))(?::([0-9]{1,5}))?"
)


class NodeAddress(NamedTuple):
    """A node. port: its port for links to other nodes; None if it is not stated."""

    name: str
    port: int | None = None

    def __str__(self) -> str:
        """Its form in a file."""
        return self.name if self.port is None else f"{self.name}:{self.port}"


def read_node_address(text: str) -> NodeAddress:
    """The address in a text such as rabbit@host or rabbit@host:25673. Raises ValueError."""
    match = NODE_ADDRESS.fullmatch(text)
    if match is None or not text.isprintable():
        raise ValueError(
            f"{text!r} is not the address of a node: expected name@host or name@host:port, such as "
            "rabbit@host1 or rabbit@127.0.0.1:25673, with brackets around an IPv6 address"
        )
    return NodeAddress(match[1], None if match[2] is None else read_port(match[2]))


def read_port(text: str) -> int:
    """Parse the number of a port that can be connected to. Raises ValueError."""
    port = int(text)
    if not 0 < port <= PORT_MAX:
        raise ValueError(f"{text} is not a port: expected 1 to {PORT_MAX}")
    return port


def is_node_name(text: str) -> bool:
    """Whether a text is `name@host`, and can be shown in a log."""
    match = NODE_ADDRESS.fullmatch(text)
    return match is not None and match[2] is None and text.isprintable()


def host_of(node: str) -> str:
    """The host of a node's name, without the brackets of an IPv6 address."""
    return node.partition("@")[2].removeprefix("[").removesuffix("]")
