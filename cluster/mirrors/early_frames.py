"""Frames of mirrored queues that come before the record that they are for is applied here.

They are kept until it is, up to a limit for each link; above that the link is closed, and the
frames are sent again over the next one.
"""

from leveret.cluster.links.services import Peer
from leveret.cluster.remote_queues.queue_frames import FrameError

EARLY_BYTES_MAX = 64 * 1024 * 1024
"""The limit for the frames of one link for members that this node does not have yet."""


class EarlyFrames:
    """Frames for members that this node does not have yet, by the identity of the ring."""

    def __init__(self) -> None:
        self._kept: dict[int, list[tuple[Peer, bytes]]] = {}
        self._kept_bytes: dict[Peer, int] = {}

    def waits(self, identity: int, peer: Peer) -> bool:
        """Whether frames of a link wait for a ring's record; later frames wait, too."""
        return any(one is peer for one, _ in self._kept.get(identity, ()))

    def add(self, identity: int, peer: Peer, payload: bytes) -> None:
        """Keep a frame. Raises FrameError if a link brings too many."""
        size = self._kept_bytes.get(peer, 0) + len(payload)
        if size > EARLY_BYTES_MAX:
            raise FrameError(f"{size} bytes for mirrored queues that are not declared here")
        self._kept_bytes[peer] = size
        self._kept.setdefault(identity, []).append((peer, payload))

    @property
    def identities(self) -> list[int]:
        """The identities of the rings for which frames are kept."""
        return [*self._kept]

    def take(self, identity: int) -> list[tuple[Peer, bytes]]:
        """Take out the frames for a queue, in the order of their arrival."""
        taken = self._kept.pop(identity, [])
        for peer, payload in taken:
            self._kept_bytes[peer] -= len(payload)
        return taken

    def peer_down(self, peer: Peer) -> None:
        """Drop the frames of a link: they are sent again over the next one."""
        self._kept_bytes.pop(peer, None)
        for identity in [*self._kept]:
            left = [one for one in self._kept[identity] if one[0] is not peer]
            if left:
                self._kept[identity] = left
            else:
                del self._kept[identity]
