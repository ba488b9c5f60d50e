"""The interface of links for the parts of a cluster: peers to send to, and services that are
called.

A service is one part of the node that communicates with the same part of other nodes: metadata,
remote queues, requests of management. It has a number, under which it is registered with the links.
Everything is called in the event loop.

A service may rely on the following:

- `peer_up` and `peer_down` alternate for each name, `peer_up` first. Each `peer_up` has a new
  `Peer`, and is followed by exactly one `peer_down` with the same object.
- `received` is called between the two, in the order in which the other node sent. Frames sent
  before a link went down may be lost: a suffix of them, never one in between.
- A restarted node has another incarnation. A broken and renewed link has the same one.

A payload from another node may be damaged, or come from a faulty release. `received` then raises
one of `PAYLOAD_ERRORS`, before it has changed anything: the link is closed, with a log line that
names the node and the service.
"""

from typing import Protocol

METADATA_SERVICE, REMOTE_QUEUES_SERVICE, RPC_SERVICE, MULTICAST_SERVICE = 1, 2, 3, 4
NODE_STATES_SERVICE, REPLIES_SERVICE, LIMITED_COUNTS_SERVICE, GROUPS_SERVICE = 5, 6, 7, 8
STREAMS_SERVICE, RETAINED_SERVICE, CLIENT_IDS_SERVICE, IDENTIFIERS_SERVICE = 9, 10, 11, 12
"""The numbers of services. 0 is the links' own."""
SERVICE_NAMES = {
    METADATA_SERVICE: "declarations",
    REMOTE_QUEUES_SERVICE: "queues of other nodes",
    RPC_SERVICE: "requests",
    MULTICAST_SERVICE: "mirrored queues",
    NODE_STATES_SERVICE: "states of nodes",
    REPLIES_SERVICE: "direct replies",
    LIMITED_COUNTS_SERVICE: "counts of connections",
    GROUPS_SERVICE: "groups of quorum queues",
    STREAMS_SERVICE: "groups of streams",
    RETAINED_SERVICE: "retained messages",
    CLIENT_IDS_SERVICE: "client ids",
    IDENTIFIERS_SERVICE: "identifiers of messages",
}
"""Their names in log lines."""
PAYLOAD_ERRORS = (ValueError, RecursionError)
"""The errors that decoders raise for bytes that a service does not understand."""


def shown_service(number: int) -> str:
    """The name of a service for texts."""
    name = SERVICE_NAMES.get(number)
    return f"service {number}" if name is None else f"service {number} ({name})"


def damaged_reason(number: int, error: Exception) -> str:
    """The reason for closing a link after a damaged payload for a service."""
    reason = str(error) or type(error).__name__
    return f"it sends damaged data to {shown_service(number)}: {reason}"


class Peer(Protocol):
    """Another node, for the life of one link to it."""

    @property
    def name(self) -> str:
        """The node's name, such as `leveret@host`."""

    @property
    def incarnation(self) -> int:
        """The number of the node's start. It grows from one start to the next."""

    @property
    def version(self) -> int:
        """The version of the protocol between nodes that both sides speak."""

    @property
    def features(self) -> frozenset[str]:
        """The features that both nodes have beyond that version."""

    @property
    def is_congested(self) -> bool:
        """Whether more than `distribution_buffer_size` bytes wait to be sent.

        A service that can wait sends nothing until `Service.drained`.
        """

    def send(self, service: int, *pieces: bytes) -> None:
        """Send one frame, whose payload is the pieces joined.

        Frames keep their order. The call never blocks, and does nothing once the link is down.
        Raises ValueError if the payload is larger than a frame may be.
        """

    def drop(self, reason: str) -> None:
        """Close the link at once, and tell the services. reason: a phrase for the log."""


class Service(Protocol):
    """The calls of links to a service. An exception in `received` closes the link and is logged.

    One of `PAYLOAD_ERRORS` is the other node's fault; others are this node's, with a traceback.
    """

    def peer_up(self, peer: Peer) -> None:
        """A link to a node is up."""

    def peer_down(self, peer: Peer, reason: str) -> None:
        """The link is down. reason: a phrase for the log."""

    def received(self, peer: Peer, payload: bytes) -> None:
        """The payload of one frame."""

    def drained(self, peer: Peer) -> None:
        """A peer is no longer congested."""


class ServiceRegistry(Protocol):
    """The registry of services: the links of a node."""

    def register(self, number: int, service: Service) -> None:
        """Add a service, before the links are started. number: from 1 to 127, not in use yet."""
