"""A linked node that publishes to a mirrored queue, as the member on this node sees it.

If this node leads, it publishes the contents of the other one, and reports their outcome; otherwise
it keeps them for the leader's decisions. In both cases it reports the bytes that it has taken, so
that publishers wait for the slowest member.
"""

from collections.abc import Callable
from typing import Protocol

from leveret.broker.queues.contract.publication import Publication
from leveret.broker.queues.contract.queue_client import Hold
from leveret.cluster.links.services import MULTICAST_SERVICE, Peer
from leveret.cluster.mirrors import mirror_frames as frames
from leveret.cluster.mirrors.leader_session import LeaderSession, sender_number
from leveret.cluster.mirrors.replica_host import ReplicaHost
from leveret.cluster.remote_queues.hosted_publisher import HostedPublisher
from leveret.cluster.remote_queues.hosted_publishes import HostedPublishes, Pairs
from leveret.cluster.remote_queues.message_runs import RunReader
from leveret.cluster.remote_queues.queue_frames import NO_TTL, FrameError, fields, numbers, packed


class SentTo(Protocol):
    """The member on this node (replica.py). leading: None if it does not lead."""

    identity: int
    leading: LeaderSession | None

    def keep(self, publication: Publication, settled: int) -> None:
        """Keep contents for the leader's decisions. settled: see mirror_frames.py."""


ReportLater = Callable[[HostedPublishes, int], object]


class SendingNode:
    """One such node. sender: its number in decisions. next_number: that of its next message."""

    __slots__ = (
        "_addresses", "_member", "_peer", "_publishes", "_report_later", "_site", "next_number",
        "sender",
    )  # fmt: skip

    def __init__(
        self, peer: Peer, member: SentTo, site: ReplicaHost, report_later: ReportLater
    ) -> None:
        """report_later: has a report made at the end of the round, given the bytes that came."""
        self._peer = peer
        self._member = member
        self._site = site
        self._addresses = site.addresses
        self._report_later = report_later
        self._publishes = HostedPublishes(self, lambda: report_later(self._publishes, 0))
        self.sender = sender_number(peer.name, peer.incarnation)
        self.next_number = 1

    @property
    def is_held(self) -> bool:
        """Publishers of this node wait for its store."""
        return self._site.is_held

    @property
    def publisher_hold(self) -> Hold | None:
        """The hold for publishers to the queue; only the leader has consumers."""
        leading = self._member.leading
        return None if leading is None else leading.queue.publisher_hold

    def contents(self, payload: bytes) -> None:
        """A run of messages. Raises ValueError."""
        _, number, settled, ttl, count, is_owed = fields(frames.CONTENTS_START, payload)
        reader = RunReader(payload, frames.CONTENTS_START.size, self._addresses)
        messages = reader.messages(count)
        if not count or not 0 < number < (1 << 62) - count:
            raise FrameError(f"a run of {count} messages from number {number}")
        self.next_number = number + count
        self._publishes.taken(len(payload))
        self._report_later(self._publishes, len(payload))
        ttl_ms = None if ttl == NO_TTL else ttl
        leading, member = self._member.leading, self._member
        sender = self.sender
        publication = Publication(messages, reader.body_bytes, ttl_ms, None, 0, sender, number)
        if leading is None:
            member.keep(publication, settled)
            return
        leading.told(sender, settled)
        if not is_owed:
            leading.publish(publication)
            return
        publication.publisher, publication.first = self, number
        publisher = self._publishes.publisher
        publisher.begin(number, count)
        leading.publish(publication)
        publisher.end(number)

    def owed(self, payload: bytes) -> None:
        """The node asks for the outcome of runs: this one leads. Raises ValueError.

        It asks again when it has waited for long. Runs that are held here are reported in time.
        """
        leading = self._member.leading
        assert leading is not None, "a leader is asked"
        pairs = numbers(payload, frames.IDENTITY.size)
        if len(pairs) % 2:
            raise FrameError(f"{len(pairs)} numbers are no pairs")
        publisher = self._publishes.publisher
        for number, count in zip(pairs[::2], pairs[1::2], strict=True):
            if publisher.holds(number):
                continue
            publisher.begin(number, count)
            leading.settle(self.sender, number, count, self)
            publisher.end(number)

    def leader_ended(self) -> None:
        """Another node leads: it answers for unconfirmed runs."""
        self._publishes.publisher = HostedPublisher(lambda: self._report_later(self._publishes, 0))

    # Publisher

    def hold(self, first: int, count: int, holder: object) -> None:
        """The holder will confirm this run later."""
        self._publishes.publisher.hold(first, count, holder)

    def confirm(self, first: int, holder: object) -> None:
        """The holder has stored the run safely."""
        self._publishes.publisher.confirm(first, holder)

    def refuse(self, number: int) -> None:
        """A message is refused. This is kept until the node knows: the report may be lost."""
        leading = self._member.leading
        assert leading is not None, "a leader refuses"
        leading.refuse(self.sender, number)
        self._publishes.publisher.refuse(number)

    def holder_died(self, holder: object, is_settled: bool) -> None:
        """The holder will confirm nothing more. is_settled: its runs count as confirmed."""
        self._publishes.publisher.holder_died(holder, is_settled)

    def tell(self, taken_bytes: int, safe: Pairs, refused: Pairs) -> None:
        """Send a report."""
        identity = self._member.identity
        self._send(frames.TAKEN_FRAME.pack(frames.TAKEN, identity, taken_bytes))
        if safe or refused:
            start = frames.CONFIRMED_START.pack(frames.CONFIRMED, identity, len(safe))
            self._send(start, packed([one for pair in (*safe, *refused) for one in pair]))

    def _send(self, *pieces: bytes) -> None:
        self._peer.send(MULTICAST_SERVICE, *pieces)
