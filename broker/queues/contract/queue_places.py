"""Where queues live in a cluster. A node on its own has no `QueuePlaces`: all its queues are here.

A queue's declaration names its home: the node that keeps its messages. On that node the queue is a
queue of its kind; on the others the virtual host has a client of it, which `QueuePlaces` makes.
"""

from typing import Protocol

from leveret.broker.amqp.field_table import Table
from leveret.broker.queues.contract.placement import Placement
from leveret.broker.queues.contract.queue_client import ExclusiveOwner, QueueClient
from leveret.broker.queues.contract.queue_kind import QueueKind
from leveret.broker.queues.contract.queue_mirrors import QueueMirrors
from leveret.broker.queues.contract.queue_owner import QueueOwner


class RemoteOwner:
    """A connection of another node that owns an exclusive queue; see `ExclusiveOwner`."""

    __slots__ = ("name", "node", "peer_host", "peer_port")

    def __init__(self, name: str, node: str) -> None:
        """name: the connection's, such as `127.0.0.1:4711 -> 127.0.0.1:5672`."""
        self.name = name
        self.node = node
        host, _, port = name.partition(" ")[0].rpartition(":")
        self.peer_host = host
        self.peer_port = int(port) if port.isascii() and port.isdigit() else 0

    def forget_queue(self, name: str) -> None:
        """Do nothing: the connection's own node tells it."""


class QueuePlaces(Protocol):
    """The nodes of the cluster, as virtual hosts see them.

    node, incarnation: this node's name, and the number of its run. mirrors: the records of mirrors
    of queues.
    """

    node: str
    incarnation: int
    mirrors: QueueMirrors

    def choose(self, vhost: str, name: str, kind: QueueKind, arguments: Table) -> Placement:
        """The home of a queue that is about to be declared on this node.

        The arguments, the policies and the configuration determine how it is chosen.
        """

    def make_remote(
        self,
        owner: QueueOwner,
        kind: QueueKind,
        name: str,
        durable: bool,
        auto_delete: bool,
        arguments: Table,
        owner_connection: ExclusiveOwner | None,
        placement: Placement,
    ) -> QueueClient:
        """The client of a queue that lives on another node."""

    def move(self, queue: QueueClient, placement: Placement) -> None:
        """A queue's home has been changed to another node."""

    def added(self, vhost: str, queue: QueueClient) -> None:
        """A queue that lives here was declared."""
