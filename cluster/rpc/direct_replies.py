"""Direct replies between nodes: the service that takes them to the requester's node.

Frames begin with an octet:

    REPLY     a run of one message (queues/message_runs.py)
    EXISTS    request u64, name                   is a channel with this name here?
    ANSWER    request u64, u8                     1: yes, 0: no
    TAKEN     bytes u64                           the bytes of replies that were taken on this link

As in RabbitMQ, a reply is sent at most once: it is lost when the link ends or the requester is
gone. Not promised: that it arrives if the names of two nodes have the same 32-bit number.

Invariants:
RR1. Each request is answered once; when the link ends, the answer is no.
RR2. Nothing is left of a link that is down: bytes sent over it do not count as untaken.
"""

import struct
from typing import Final

from leveret.broker.amqp.field_table import bytes_of, text_of
from leveret.broker.runtime.pending import Answer
from leveret.broker.vhost.direct_replies import Replies, node_number
from leveret.cluster.links.services import REPLIES_SERVICE, Peer, ServiceRegistry
from leveret.cluster.remote_queues.message_runs import RunReader, RunWriter
from leveret.cluster.remote_queues.queue_frames import QueueFrameError, fields
from leveret.cluster.remote_queues.remote_hold import UntakenBytes
from leveret.storage.messages.addresses import Addresses
from leveret.storage.messages.message import Message

REPLY: Final = 1
EXISTS: Final = 2
ANSWER: Final = 3
TAKEN: Final = 4

REQUEST: Final = struct.Struct("<BQ")
ANSWER_FRAME: Final = struct.Struct("<BQB")
TAKEN_FRAME: Final = struct.Struct("<BQ")
REPORTED_BYTES: Final = 512 * 1024
"""TAKEN is sent after this number of bytes from a node: small compared with UNTAKEN_BYTES_MAX."""


class ReplyLink:
    """The replies and requests in flight on the link to one node."""

    __slots__ = ("asked", "came_bytes", "peer", "reported_bytes", "sent_bytes", "taken_bytes")

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.asked: dict[int, Answer[bool]] = {}
        self.sent_bytes = self.taken_bytes = 0
        self.came_bytes = self.reported_bytes = 0


class RemoteReplies:
    """A `RepliesOfOtherNodes` and a `Service`. untaken: above its limit no publisher is read."""

    def __init__(self, replies: Replies, links: ServiceRegistry, untaken: UntakenBytes) -> None:
        self._replies = replies
        self._untaken = untaken
        self._addresses = Addresses()
        self._nodes: dict[str, ReplyLink] = {}
        self._last_request = 0
        links.register(REPLIES_SERVICE, self)

    def _with_number(self, number: str) -> ReplyLink | None:
        return next(
            (linked for name, linked in self._nodes.items() if node_number(name) == number), None
        )

    # Other nodes

    def deliver(self, node: str, message: Message) -> None:
        """Send a reply to the node with this number; without a link to it, the reply is lost."""
        linked = self._with_number(node)
        if linked is None:
            return
        pieces = RunWriter(bytes((REPLY,))).publish([message])
        size = sum(map(len, pieces))
        linked.sent_bytes += size
        self._untaken.add(size)
        linked.peer.send(REPLIES_SERVICE, *pieces)

    def exists(self, node: str, name: str, answer: Answer[bool]) -> None:
        """Ask the node with this number whether it has a channel with this name."""
        linked = self._with_number(node)
        if linked is None:
            answer.give(False)
            return
        self._last_request += 1
        assert self._last_request not in linked.asked, "RR1: a request has its own number"
        linked.asked[self._last_request] = answer
        linked.peer.send(REPLIES_SERVICE, REQUEST.pack(EXISTS, self._last_request), bytes_of(name))

    # Links

    def peer_up(self, peer: Peer) -> None:
        """A link to a node is up."""
        assert peer.name not in self._nodes, "RR2: nothing is left of the previous link"
        self._nodes[peer.name] = ReplyLink(peer)

    def peer_down(self, peer: Peer, reason: str) -> None:
        """The link to a node is down."""
        linked = self._nodes.pop(peer.name)
        self._untaken.add(linked.taken_bytes - linked.sent_bytes)
        for answer in linked.asked.values():
            answer.give(False)

    def received(self, peer: Peer, payload: bytes) -> None:
        """Take a frame. Raises ValueError if it is not valid."""
        linked = self._nodes[peer.name]
        kind = payload[0] if payload else 0
        if kind == REPLY:
            self._replied(linked, payload)
        elif kind == EXISTS:
            (number,) = fields(REQUEST, payload)
            is_here = self._replies.is_here(text_of(payload[REQUEST.size :]))
            peer.send(REPLIES_SERVICE, ANSWER_FRAME.pack(ANSWER, number, is_here))
        elif kind == ANSWER:
            number, is_there = fields(ANSWER_FRAME, payload)
            answer = linked.asked.pop(number, None)
            if answer is None:
                raise QueueFrameError(f"an answer to request {number}, which was not sent")
            answer.give(bool(is_there))
        elif kind == TAKEN:
            (taken_bytes,) = fields(TAKEN_FRAME, payload)
            if not linked.taken_bytes <= taken_bytes <= linked.sent_bytes:
                raise QueueFrameError(
                    f"{taken_bytes} bytes are taken, and {linked.sent_bytes} were sent"
                )
            self._untaken.add(linked.taken_bytes - taken_bytes)
            linked.taken_bytes = taken_bytes
        else:
            raise QueueFrameError(f"a frame of the unknown kind {kind}")

    def drained(self, peer: Peer) -> None:
        """Do nothing: `UntakenBytes` limits the bytes that wait."""

    def _replied(self, linked: ReplyLink, payload: bytes) -> None:
        (message,) = RunReader(payload, 1, self._addresses).messages(1)
        self._replies.deliver_here(message)
        linked.came_bytes += len(payload)
        if linked.came_bytes - linked.reported_bytes >= REPORTED_BYTES:
            linked.reported_bytes = linked.came_bytes
            linked.peer.send(REPLIES_SERVICE, TAKEN_FRAME.pack(TAKEN, linked.came_bytes))
