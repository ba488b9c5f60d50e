"""Retained messages on all nodes of a cluster: each node has its own store, with all messages.

Promise: when `store` answers, all nodes that are linked have the rows on disk. Linked nodes have
the same rows some time after the last change, even if frames were lost before.

Not promised: that all nodes have a change at the same time. A node whose disk fails lacks rows
until the next comparison.

Mechanism: the node that makes a change sends it to all others. Nothing is ordered: the newest
version wins everywhere (storage/retained/retained_rows.py). When a link comes up, once a minute,
and when a third node goes down, each side sends digests of its rows. For each bucket that differs
the receiver says which versions it has, and gets those that it lacks, one bucket at a time:

    A                                B
    Digests {5: d1, 9: d2}  ───────>  5 differs
                            <───────  Versions 5 [v1]
    RetainedRows [v2]       ───────>  stores v2
                            <───────  RowsStored
    Compared 5              ───────>  next bucket that differs

B sends its digests to A as well, so A gets what it lacks in the same way.

Invariants:

RTC1  Each answer of `store` is given once: when all peers have answered or are down.
RTC2  A node awaits at most one Compared from each peer, and sends a peer one RetainedRows of a
      comparison at a time. So a comparison of a million messages holds some hundred kilobytes.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from leveret.broker.runtime.clock import Clock, Timer
from leveret.broker.runtime.pending import Answer, given
from leveret.cluster.links.services import RETAINED_SERVICE, Peer, ServiceRegistry
from leveret.cluster.retained.frames import (
    Compared,
    Digests,
    Frame,
    RetainedRows,
    RowsStored,
    Versions,
    decode,
    encode,
    in_parts,
)
from leveret.storage.retained.retained_file import RowsPage
from leveret.storage.retained.retained_rows import BUCKETS, RetainedRow, RetainedVersion

COMPARE_MS: Final = 60_000
FEATURE: Final = "retained_messages"
"""The feature of nodes that have this service. Nothing is sent to other nodes."""

logger = logging.getLogger("leveret.cluster")


class RetainedStore(Protocol):
    """The retained messages of this node (broker/retained/retained_messages.py)."""

    copies: Any

    @property
    def is_open(self) -> bool:
        """Whether there has ever been a message."""

    @property
    def digests(self) -> list[int]:
        """The digest of each bucket."""

    def merge(self, rows: list[RetainedRow]) -> Answer[None]:
        """Store the rows that are newer."""

    def versions(self, bucket: int) -> Answer[list[RetainedVersion]]:
        """The versions in a bucket."""

    def rows_but(self, bucket: int, known: list[RetainedVersion], after: int) -> Answer[RowsPage]:
        """The next rows of a bucket whose versions are not known."""


class NodeExchange:
    """The exchange with one node. differing: the buckets that are still to be compared."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.unanswered: dict[int, Callable[[], object]] = {}
        self.differing: deque[int] = deque()
        self.compared: int | None = None
        self.last_number = 0
        self.is_up = True

    def send(self, frame: Frame) -> None:
        """Send a frame, unless the link is down."""
        if self.is_up:
            self.peer.send(RETAINED_SERVICE, encode(frame))

    def send_rows(self, rows: list[RetainedRow], done: Callable[[], object]) -> None:
        """Send rows. done: called when they are stored, or the link is down."""
        if not self.is_up:
            done()
            return
        self.last_number += 1
        self.unanswered[self.last_number] = done
        self.send(RetainedRows(self.last_number, rows))


class RetainedCopies:
    """A `Service`, and the `Copies` of this node's retained messages."""

    def __init__(self, links: ServiceRegistry, store: RetainedStore, clock: Clock) -> None:
        self._retained = store
        self._clock = clock
        self._nodes: dict[str, NodeExchange] = {}
        self._timer: Timer | None = None
        store.copies = self
        links.register(RETAINED_SERVICE, self)

    # Changes of this node

    def store(self, rows: list[RetainedRow]) -> Answer[None]:
        """Store rows on all linked nodes. The answer is given when these have them on disk."""
        if not self._nodes:
            return given(None)
        answer: Answer[None] = Answer()
        parts = in_parts(rows)
        missing = len(parts) * len(self._nodes)

        def done() -> None:
            nonlocal missing
            missing -= 1
            if not missing:
                answer.give(None)

        for node in tuple(self._nodes.values()):
            for part in parts:
                node.send_rows(part, done)
        return answer

    # Links

    def peer_up(self, peer: Peer) -> None:
        """A link to a node is up: find out what it lacks."""
        if FEATURE not in peer.features:
            return
        node = self._nodes[peer.name] = NodeExchange(peer)
        self._send_digests(node)
        if self._timer is None:
            self._timer = self._clock.call_later_ms(COMPARE_MS, self._compare_regularly)

    def peer_down(self, peer: Peer, reason: str) -> None:
        """The link to a node is down. It may have sent a change to some nodes only."""
        node = self._nodes.pop(peer.name, None)
        if node is None:
            return
        node.is_up = False
        unanswered, node.unanswered = node.unanswered, {}
        for done in unanswered.values():
            done()
        for other in self._nodes.values():
            self._send_digests(other)
        if not self._nodes and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def received(self, peer: Peer, payload: bytes) -> None:
        """Take a frame. Raises ValueError if it is not valid."""
        frame = decode(payload)
        node = self._nodes.get(peer.name)
        if node is None:
            return
        match frame:
            case RetainedRows():
                merged = self._retained.merge(frame.rows)
                merged.when_given(lambda: node.send(RowsStored(frame.number)))
            case RowsStored():
                done = node.unanswered.pop(frame.number, None)
                if done is None:
                    raise ValueError(f"rows {frame.number} are stored, which were not sent")
                done()
            case Digests():
                self._compare(node, frame.digests)
            case Versions():
                self._tell(node, frame, 0)
            case Compared():
                if node.compared == frame.bucket:
                    node.compared = None
                    self._ask_next(node)

    def drained(self, peer: Peer) -> None:
        """Do nothing: a comparison waits for its rows, and `is_behind` holds publishers back."""

    # Comparing

    def _compare_regularly(self) -> None:
        self._timer = self._clock.call_later_ms(COMPARE_MS, self._compare_regularly)
        for node in self._nodes.values():
            self._send_digests(node)

    def _send_digests(self, node: NodeExchange) -> None:
        digests = self._retained.digests if self._retained.is_open else []
        node.send(Digests({bucket: digest for bucket, digest in enumerate(digests) if digest}))

    def _compare(self, node: NodeExchange, theirs: dict[int, int]) -> None:
        """The digests of the other node: ask for what differs."""
        if not theirs:
            return
        own = self._retained.digests if self._retained.is_open else [0] * BUCKETS
        node.differing = deque(bucket for bucket in theirs if theirs[bucket] != own[bucket])
        if node.compared is None:
            self._ask_next(node)

    def _ask_next(self, node: NodeExchange) -> None:
        """Send the other node the versions in the next bucket that differs (RTC2)."""
        if not node.differing or not node.is_up:
            return
        bucket = node.compared = node.differing.popleft()
        versions = self._retained.versions(bucket)
        versions.when_given(lambda: self._ask(node, bucket, versions))

    @staticmethod
    def _ask(node: NodeExchange, bucket: int, answer: Answer[list[RetainedVersion]]) -> None:
        try:
            versions = answer.result()
        except Exception as error:
            # The next comparison asks again.
            logger.error("retained messages are not compared with %s: %s", node.peer.name, error)
            node.compared = None
            node.differing.clear()
            return
        node.send(Versions(bucket, [(one.time, one.node) for one in versions]))

    def _tell(self, node: NodeExchange, asked: Versions, after: int) -> None:
        """Send the rows of a bucket that the other node lacks, one frame after the other."""
        if not node.is_up:
            return
        known = [RetainedVersion(*version) for version in asked.versions]
        answer = self._retained.rows_but(asked.bucket, known, after)
        answer.when_given(lambda: self._tell_page(node, asked, answer))

    def _tell_page(self, node: NodeExchange, asked: Versions, answer: Answer[RowsPage]) -> None:
        try:
            page = answer.result()
        except Exception as error:
            logger.error("node %s lacks retained messages: %s", node.peer.name, error)
            page = RowsPage([], 0)
        if page.rows:
            after = page.last

            def done() -> None:
                self._tell(node, asked, after)

            node.send_rows(page.rows, done)
        else:
            node.send(Compared(asked.bucket))
