"""Direct replies between nodes: frames that make no sense, and what is left after a link."""

import random

import pytest

from leveret.broker.amqp.content import encode_address
from leveret.broker.runtime.pending import Answer
from leveret.broker.vhost.direct_replies import Replies, node_number
from leveret.cluster.remote_queues.remote_hold import UntakenBytes
from leveret.cluster.rpc.direct_replies import REPORTED_BYTES, RemoteReplies
from leveret.storage.messages.message import Address, Message
from tests.linked_nodes import LinkServices
from tests.unit.broker.queues.fakes import HEADER

A, B = "a@host", "b@host"


class Link:
    """A `Peer` that keeps what is sent."""

    def __init__(self, name):
        self.name = name
        self.sent = []

    def send(self, service, *pieces):
        self.sent.append(b"".join(pieces))


class Requester:
    """A channel that consumes replies."""

    def __init__(self):
        self.bodies = []

    def deliver_reply(self, message):
        self.bodies.append(message.body)


class Node:
    """A node that is linked with another one."""

    def __init__(self, name, other):
        self.replies = Replies(name)
        self.untaken = UntakenBytes(lambda is_behind: None)
        self.remote = self.replies.others = RemoteReplies(
            self.replies, LinkServices(), self.untaken
        )
        self.link = Link(other)
        self.remote.peer_up(self.link)

    def take(self, frames):
        """Take what the other node has sent."""
        while frames:
            self.remote.received(self.link, frames.pop(0))


@pytest.fixture
def nodes():
    return Node(A, B), Node(B, A)


def reply(name, body):
    return Message(Address("", name, encode_address("", name)), HEADER, body)


def test_a_reply_goes_to_the_node_in_its_name_and_to_no_other_channel(nodes):
    a, b = nodes
    first, second = Requester(), Requester()
    b.replies.add(first)
    name = b.replies.add(second)
    assert name.endswith(f".{node_number(B)}")
    a.replies.deliver(reply(name, b"x"))
    b.take(a.link.sent)
    assert (first.bodies, second.bodies) == ([], [b"x"])


def test_what_a_node_has_taken_is_reported_now_and_then(nodes):
    a, b = nodes
    name = b.replies.add(Requester())
    a.replies.deliver(reply(name, bytes(100)))
    b.take(a.link.sent)
    assert not b.link.sent
    a.replies.deliver(reply(name, bytes(REPORTED_BYTES)))
    b.take(a.link.sent)
    a.take(b.link.sent)
    assert a.untaken.bytes == 0


def test_a_question_is_answered_by_the_end_of_the_link(nodes):
    a, b = nodes
    name = b.replies.add(Requester())
    asked = Answer()
    a.replies.exists(name, asked)
    a.replies.deliver(reply(name, b"lost"))
    assert not asked.is_given
    a.remote.peer_down(a.link, "cut")
    assert asked.result() is False
    assert a.untaken.bytes == 0
    later = Answer()
    a.replies.exists(name, later)
    assert later.result() is False


@pytest.mark.parametrize("seed", range(100))
def test_a_damaged_frame_closes_the_link_and_nothing_else(nodes, seed):
    """Links are closed for a ValueError (cluster/links/services.py)."""
    generator = random.Random(seed)
    a, b = nodes
    name = b.replies.add(Requester())
    a.replies.deliver(reply(name, b"body"))
    asked = Answer()
    a.replies.exists(name, asked)
    b.take(list(a.link.sent))
    for receiver, frames in ((a, b.link.sent), (b, a.link.sent)):
        frame = bytearray(generator.choice(frames))
        for _ in range(generator.randint(1, 3)):
            frame[generator.randrange(len(frame))] = generator.randrange(256)
        try:
            receiver.remote.received(receiver.link, bytes(frame[: generator.randint(0, 60)]))
        except ValueError:
            continue


@pytest.mark.parametrize("frame", [b"", b"\x09", b"\x03" + bytes(9), b"\x04" + b"\x01" * 8])
def test_frames_that_make_no_sense(nodes, frame):
    with pytest.raises(ValueError):
        nodes[0].remote.received(nodes[0].link, frame)
