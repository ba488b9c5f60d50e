"""A connection of another node that owns an exclusive queue."""


class RemoteOwner:
    """An `ExclusiveOwner` on another node. node: the connection's."""

    __slots__ = ("name", "node", "peer_host", "peer_port")

    def __init__(self, name: str, node: str) -> None:
        """name: the connection's, such as `127.0.0.1:4711 -> 127.0.0.1:5672`."""
        self.name = name
        self.node = node
        host, _, port = name.partition(" ")[0].rpartition(":")
        self.peer_host = host
        self.peer_port = int(port) if port.isascii() and port.isdigit() else 0

    def forget_queue(self, name: str) -> None:
        """Do nothing: the connection's own node notifies it."""
