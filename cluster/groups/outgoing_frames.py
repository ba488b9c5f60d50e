"""The frames of a node's groups to other nodes: items are gathered in a turn, and sent as one frame
to each node.

A frame is sent before the end of the turn when it has FRAME_BYTES.
"""

from collections.abc import Callable
from typing import Final

from leveret.cluster.groups.group_frames import raft_head
from leveret.cluster.links.services import Peer
from leveret.cluster.raft.messages import VERSION, RaftMessage, encode_fields

FRAME_BYTES: Final = 256 * 1024


class OutgoingFrames:
    """The frames of one service. peers: the links that are up, by node."""

    def __init__(
        self, service: int, later: Callable[[], object], sent: Callable[[str], object]
    ) -> None:
        """later: has `flush` called at the end of the turn. sent: called with each frame's node."""
        self.peers: dict[str, Peer] = {}
        self._service = service
        self._later = later
        self._sent = sent
        self._pieces: dict[str, list[bytes]] = {}
        self._bytes: dict[str, int] = {}
        self._encoded_message: RaftMessage | None = None
        self._encoded: list[bytes] = []
        """The last message that was sent in this turn. A leader sends most to two members."""

    def link_down(self, node: str) -> None:
        """The link to a node is down: what was to be sent is lost."""
        self.peers.pop(node, None)
        self._pieces.pop(node, None)
        self._bytes.pop(node, None)

    def is_congested(self, node: str) -> bool:
        """Whether nothing more should be sent to a node for now."""
        peer = self.peers.get(node)
        return peer is not None and peer.is_congested

    def add_message(self, node: str, sender: str, to: str, message: RaftMessage) -> None:
        """Send a message of a member to another one."""
        if message is self._encoded_message:
            fields = self._encoded
        else:
            fields = self._encoded = encode_fields(message)
            self._encoded_message = message
        octets = len(VERSION) + sum(map(len, fields))
        self.add(node, [raft_head(sender, to, octets) + VERSION, *fields])

    def add(self, node: str, pieces: list[bytes]) -> None:
        """Send an item, if there is a link to the node."""
        if node not in self.peers:
            return
        self._pieces.setdefault(node, []).extend(pieces)
        octets = self._bytes.get(node, 0) + sum(map(len, pieces))
        self._bytes[node] = octets
        if octets >= FRAME_BYTES:
            self._flush(node)
        else:
            self._later()

    def flush(self) -> None:
        """Send everything: the turn ends."""
        for node in list(self._pieces):
            self._flush(node)
        self._encoded_message, self._encoded = None, []

    def _flush(self, node: str) -> None:
        pieces = self._pieces.pop(node, [])
        self._bytes.pop(node, None)
        peer = self.peers.get(node)
        if peer is not None and pieces:
            peer.send(self._service, *pieces)
            self._sent(node)
