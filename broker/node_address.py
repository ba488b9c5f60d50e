"""The address of a node of a cluster: its name, and the port of its links to other nodes."""

import re
from typing import NamedTuple

NODE_ADDRESS = re.compile(r"([^@\s]+@(?:\[[0-9A-Fa-f:.]+\]|[^@\s:\[\]]+))(?::([0-9]{1,5}))?")
PORT_MAX = 65_535


class NodeAddress(NamedTuple):
    """A node. port: None for the default port."""

    name: str
    port: int | None = None

    def __str__(self) -> str:
        """As it is written in a file."""
        return self.name if self.port is None else f"{self.name}:{self.port}"


def read_node_address(text: str) -> NodeAddress:
    """The address in a text such as rabbit@host or rabbit@host:25673. Raises ValueError."""
    match = NODE_ADDRESS.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not the name of a node")
    return NodeAddress(match[1], None if match[2] is None else read_port(match[2]))


def read_port(text: str) -> int:
    """The number of a port that can be connected to. Raises ValueError."""
    port = int(text)
    if not 0 < port <= PORT_MAX:
        raise ValueError(f"{text} is not a port")
    return port
