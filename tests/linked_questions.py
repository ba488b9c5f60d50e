"""The questions of two nodes, over a link that hands over each frame in the next turn."""

import asyncio

from leveret.cluster.links.services import QUESTIONS_SERVICE
from leveret.cluster.rpc.rpc import Questions
from tests.linked_nodes import LinkServices


class FakePeer:
    """A node at the other end of a link that hands over each frame in the next turn."""

    def __init__(self, name):
        self.name = name
        self.other_end = None
        self.sent = []

    def send(self, service, *pieces):
        assert service == QUESTIONS_SERVICE
        frame = b"".join(pieces)
        self.sent.append(frame)
        if self.other_end is not None:
            questions, peer = self.other_end
            asyncio.get_running_loop().call_soon(questions.received, peer, frame)


def linked():
    """The questions of nodes a and b, with a link between them, and a's and b's peers."""
    a, b = Questions(LinkServices()), Questions(LinkServices())
    to_b, to_a = FakePeer("b"), FakePeer("a")
    to_b.other_end, to_a.other_end = (b, to_a), (a, to_b)
    a.peer_up(to_b)
    b.peer_up(to_a)
    return a, b, to_b, to_a
