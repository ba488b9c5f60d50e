"""Requests between two nodes, over a link that hands over each frame in the next turn."""

import asyncio

from leveret.cluster.links.services import RPC_SERVICE
from leveret.cluster.rpc.rpc import Rpc
from tests.linked_nodes import LinkServices


class FakePeer:
    """A node at the other end of a link that hands over each frame in the next turn."""

    def __init__(self, name):
        self.name = name
        self.other_end = None
        self.sent = []

    def send(self, service, *pieces):
        assert service == RPC_SERVICE
        frame = b"".join(pieces)
        self.sent.append(frame)
        if self.other_end is not None:
            rpc, peer = self.other_end
            asyncio.get_running_loop().call_soon(rpc.received, peer, frame)


def linked():
    """The `Rpc` of nodes a and b, with a link between them, and a's and b's peers."""
    a, b = Rpc(LinkServices()), Rpc(LinkServices())
    to_b, to_a = FakePeer("b"), FakePeer("a")
    to_b.other_end, to_a.other_end = (b, to_a), (a, to_b)
    a.peer_up(to_b)
    b.peer_up(to_a)
    return a, b, to_b, to_a
