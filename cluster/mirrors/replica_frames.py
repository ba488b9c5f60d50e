"""Frames of other nodes about a mirrored queue, beside its ring's messages (mirror_frames.py).

Contents, reports and questions are passed to the replica of this node. Questions to a leader that
come before the queue is led here wait until it is opened.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from leveret.cluster.gm.group import Member
from leveret.cluster.links.services import Peer
from leveret.cluster.mirrors import mirror_frames as frames
from leveret.cluster.mirrors.batches import Batch
from leveret.cluster.mirrors.leader_session import LeaderSession, sender_number
from leveret.cluster.mirrors.mirror_member import MirrorMember
from leveret.cluster.mirrors.mirror_record import MirrorMember as RecordedMember
from leveret.cluster.mirrors.mirror_record import MirrorRecord
from leveret.cluster.mirrors.publishing import MirroredPublishing
from leveret.cluster.mirrors.reading_again import when_readable
from leveret.cluster.mirrors.replica_host import ReplicaHost
from leveret.cluster.mirrors.sending_node import SendingNode, SentTo
from leveret.cluster.remote_queues.queue_frames import FrameError, fields, numbers, packed
from leveret.storage.contract.backing_queue import Unreadable


class FramedReplica(SentTo, Protocol):
    """The replica of this node (replica.py)."""

    record: MirrorRecord | None
    publishing: MirroredPublishing
    mirror: MirrorMember | None

    def broadcast(self) -> None:
        """Broadcast the decisions of the turn."""


class ReplicaFrames:
    """The frames of one queue."""

    __slots__ = ("_replica", "_sending", "_site", "_waiting")

    def __init__(self, replica: FramedReplica, site: ReplicaHost) -> None:
        self._replica = replica
        self._site = site
        self._sending: dict[str, SendingNode] = {}
        # The last question of each kind from each node.
        self._waiting: dict[tuple[str, int], Callable[[], object]] = {}

    def tell_owed(self, node: str) -> None:
        """Tell the leader's node the runs that wait for its confirm."""
        owed = [number for run in self._replica.publishing.owed_runs for number in run]
        if owed:
            start = frames.IDENTITY.pack(frames.OWED, self._replica.identity)
            self._site.send(node, (start, packed(owed)))

    def opened(self) -> None:
        """The queue is led here now: answer waiting questions, and ask which runs are owed."""
        for node in self._site.peers:
            self._site.send(node, (frames.IDENTITY.pack(frames.LEADS, self._replica.identity),))
        waiting, self._waiting = self._waiting, {}
        for ask in waiting.values():
            ask()

    def leader_ended(self, mirror: MirrorMember | None) -> None:
        """The queue is no longer led here. mirror: the one that begins with this, if it is
        mirrored.
        """
        for sending in self._sending.values():
            sending.leader_ended()
            if mirror is not None:
                mirror.sender_begins(sending.sender, sending.next_number)

    def peer_down(self, node: str) -> None:
        """The link to a node is down."""
        self._sending.pop(node, None)

    def send_batch(self, mirror: Member, kind: int, batch: Batch) -> None:
        """Send messages to a mirror."""
        record = self._replica.record
        place = None if record is None else record.group.place_of(mirror)
        if place is not None:
            start = frames.BATCH_START.pack(kind, self._replica.identity, place.place_id)
            self._site.send(mirror.node, (start, *batch.encode(self._site.wall_offset_ms)))

    def received(self, peer: Peer, kind: int, payload: bytes) -> None:
        """A frame about the queue. Raises ValueError."""
        replica = self._replica
        if kind == frames.CONTENTS:
            self._sending_node(peer).contents(payload)
        elif kind == frames.BEGINS:
            self._begins(peer, payload)
        elif kind == frames.BEGINS_WANTED:
            version = 0 if replica.record is None else replica.record.group.version
            replica.publishing.tell_begin(peer.name, version)
        elif kind == frames.TAKEN:
            _, taken_bytes = fields(frames.TAKEN_FRAME, payload)
            replica.publishing.taken(peer.name, taken_bytes)
        elif kind == frames.CONFIRMED:
            self._confirmed(peer, payload)
        elif kind == frames.KEPT:
            self._kept(peer, payload)
        elif kind == frames.LACKS:
            self._lacks(peer, payload)
        elif kind == frames.OWED:
            self._when_open(peer, kind, partial(self._sending_node(peer).owed, payload))
        elif kind == frames.LEADS:
            self.tell_owed(peer.name)
        elif kind == frames.WANTED:
            self._when_open(peer, kind, partial(self._wanted, peer, payload))
        elif kind in (frames.BATCH, frames.MESSAGES):
            _, place_id = fields(frames.BATCH_START, payload)
            if replica.mirror is not None and replica.mirror.place_id == place_id:
                replica.mirror.batch(kind, payload[frames.BATCH_START.size :])
        else:
            raise FrameError(f"a frame of the unknown kind {kind}")

    def _sending_node(self, peer: Peer) -> SendingNode:
        sending = self._sending.get(peer.name)
        if sending is None:
            report_later = partial(self._site.report_later, peer)
            sending = SendingNode(peer, self._replica, self._site, report_later)
            self._sending[peer.name] = sending
        return sending

    def _begins(self, peer: Peer, payload: bytes) -> None:
        """A node is about to send contents."""
        _, number, _ = fields(frames.BEGINS_FRAME, payload)
        self._sending_node(peer).next_number = number
        mirror = self._replica.mirror
        if mirror is not None:
            mirror.sender_begins(sender_number(peer.name, peer.incarnation), number)

    def _confirmed(self, peer: Peer, payload: bytes) -> None:
        """The leader confirms runs. A former leader's confirm is ignored: the next one is asked."""
        record = self._replica.record
        if record is None or record.leader is None or record.leader.node != peer.name:
            return
        _, ranges = fields(frames.CONFIRMED_START, payload)
        found = numbers(payload, frames.CONFIRMED_START.size)
        if len(found) % 2 or 2 * ranges > len(found):
            raise FrameError(f"{ranges} ranges in {len(found)} numbers")
        pairs = list(zip(found[::2], found[1::2], strict=True))
        self._replica.publishing.confirmed(pairs[:ranges], pairs[ranges:])

    def _member(self, peer: Peer, place_id: int) -> RecordedMember | None:
        """The living member of a node; None if a frame is from an earlier one."""
        record = self._replica.record
        member = None if record is None else record.on(peer.name)
        if record is None or member is None:
            return None
        place = record.group.place_of(member.id)
        return member if place is not None and place.place_id == place_id else None

    def _kept(self, peer: Peer, payload: bytes) -> None:
        _, place_id, turn, batch = fields(frames.KEPT_FRAME, payload)
        leading, member = self._replica.leading, self._member(peer, place_id)
        if leading is not None and member is not None:
            leading.mirror_kept(member.id, turn, batch)

    def _lacks(self, peer: Peer, payload: bytes) -> None:
        _, place_id, term = fields(frames.LACKS_START, payload)
        found = numbers(payload, frames.LACKS_START.size)
        if len(found) % 2:
            raise FrameError(f"{len(found)} numbers of positions that are lacked")
        leading, member = self._replica.leading, self._member(peer, place_id)
        if leading is not None and member is not None and not member.is_synchronised:
            leading.mirror_lacks(member.id, term, list(zip(found[::2], found[1::2], strict=True)))

    def _when_open(self, peer: Peer, kind: int, ask: Callable[[], object]) -> None:
        """Answer a node's question to the leader now, or when this node has opened the queue."""
        if self._replica.leading is None:
            self._waiting[peer.name, kind] = ask
        else:
            ask()

    def _wanted_again(self, peer: Peer, payload: bytes, asked: LeaderSession) -> None:
        # The mirror asks anew when another member leads, and when it is linked again.
        is_linked = self._site.peers.get(peer.name) is peer
        if is_linked and self._replica.leading is asked:
            self._wanted(peer, payload)

    def _wanted(self, peer: Peer, payload: bytes) -> None:
        _, place_id, start, end = fields(frames.WANTED_FRAME, payload)
        if start >= end:
            raise FrameError(f"messages from position {start} to {end} are wanted")
        leading, member = self._replica.leading, self._member(peer, place_id)
        assert leading is not None, "a leader is asked"
        if member is None:
            return
        self._replica.broadcast()
        try:
            batch = leading.messages(start, end)
        except Unreadable as error:
            when_readable(
                error, self._site.call_later_ms, partial(self._wanted_again, peer, payload, leading)
            )
            return
        self.send_batch(member.id, frames.MESSAGES, batch)
