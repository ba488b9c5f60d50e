"""A queue that is led on this node: publishes contents of all nodes, and confirms them when kept.

A sender is a node in one run; `sender_number` names it in decisions. Its contents are numbered
from 1. Contents missing in between were lost with a link: their publishers are refused, and mirrors
are told that the contents are void.

Invariants:
LD1. Contents of a sender are published in the order of their numbers, each once (MQ5). Contents
     that arrive after the decision about them are not published.
"""

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Final

from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.queues.contract.publication import OWN_TTL, Publication, Publisher
from leveret.broker.queues.contract.queue_client import Consumer
from leveret.cluster.gm.group import Member
from leveret.cluster.mirrors.batches import Batch
from leveret.cluster.mirrors.decisions import Range
from leveret.cluster.mirrors.kept_turns import KeptTurns
from leveret.cluster.mirrors.leader_backing_queue import LeaderBackingQueue
from leveret.cluster.mirrors.planning import Mirroring
from leveret.cluster.mirrors.synchronisation import ReadAgain, Synchronising, read_batch
from leveret.storage.messages.intervals import NO_POSITION, Intervals
from leveret.storage.messages.message import Entry
from leveret.storage.queue.transient_queue import TransientQueue

STALE: Final = -1
"""The position of deliveries of a leader that has ended (mirrored_queue.py)."""


def sender_number(node: str, incarnation: int) -> int:
    """The number of a node in one run: the same on all nodes, below 2**62."""
    name = f"{node} {incarnation}".encode("utf-8", "surrogateescape")
    return int.from_bytes(blake2b(name, digest_size=8).digest()) >> 2


class Refusals:
    """The `Publisher` of contents that a new leader publishes before it learns which senders wait
    for confirms (`OWED` in frames.py). numbers: those of the messages that it has refused.
    """

    __slots__ = ("numbers",)

    def __init__(self, numbers: Intervals) -> None:
        self.numbers = numbers

    def hold(self, first: int, count: int, holder: object) -> None:
        """Do nothing: no publisher waits here."""

    def confirm(self, first: int, holder: object) -> None:
        """Do nothing: no publisher waits here."""

    def refuse(self, number: int) -> None:
        """A queue refuses the message with this number."""
        self.numbers.add(number)

    def holder_died(self, holder: object, is_settled: bool) -> None:
        """Do nothing: no publisher waits here."""


class EndedQueue(TransientQueue):
    """The backing queue of a queue that has stopped leading: it is empty, and settling entries has
    no effect.
    """

    __slots__ = ()

    def ack(self, entries: Sequence[Entry]) -> None:
        """Do nothing."""


class LeaderSession:
    """A queue led here. queue: the leader; its backing queue is `backing`.

    kept: the decisions that mirrors have kept. synchronising: sends them the messages that they
    lack. refused: for each sender, the messages that were refused before their publishers are
    known.
    """

    __slots__ = ("_first_turn", "backing", "kept", "queue", "refused", "synchronising")

    def __init__(
        self,
        queue: ClassicQueue,
        backing: LeaderBackingQueue,
        kept: KeptTurns,
        mirroring: Callable[[], Mirroring],
        synchronised: Callable[[Member], object],
        flush_later: Callable[[], object],
        read_again: ReadAgain,
        refused: dict[int, Intervals] | None = None,
    ) -> None:
        """mirroring: returns the present policy. synchronised: called with a mirror that has all
        messages. flush_later: has `batches` called at the end of the round. read_again: see
        `ReadAgain`.
        """
        self.queue = queue
        self.backing = backing
        self.kept = kept
        self.synchronising = Synchronising(
            backing, mirroring, synchronised, flush_later, read_again
        )
        self.refused = {} if refused is None else refused
        self._first_turn = backing.turn

    # Publishing

    def publish(self, publication: Publication) -> None:
        """Publish contents of a sender."""
        backing, number = self.backing, publication.number
        expected = backing.decided.get(publication.sender, 1)
        if number < expected:
            self._publish_late(publication)
            return
        if number > expected:
            self._lose(publication.sender, expected, number)
        backing.begin_run(publication)
        if publication.ttl_ms == OWN_TTL:
            self.queue.publish_each(publication)
        else:
            self.queue.publish(publication)
        backing.end_run()

    def _publish_late(self, publication: Publication) -> None:
        """Handle contents that arrive after the decision about them (late_confirms.py)."""
        sender, publisher = publication.sender, publication.publisher
        assert publication.end <= self.backing.decided[sender], "LD1: contents come once, in order"
        if publisher is not None:
            self.settle(sender, publication.number, len(publication.messages), publisher)

    def refuse(self, sender: int, number: int) -> None:
        """A message of a sender is refused; the sender may not learn of it."""
        self.refused.setdefault(sender, Intervals()).add(number)

    def told(self, sender: int, settled: int) -> None:
        """A sender knows the outcome of its contents below a number."""
        refused = self.refused.get(sender)
        if refused is not None:
            refused.remove_range(0, settled)
            if not refused:
                del self.refused[sender]

    def publish_undecided(self, undecided: list[Publication]) -> None:
        """Publish contents that no decision of the former leader has named."""
        for one in undecided:
            one.publisher = Refusals(self.refused.setdefault(one.sender, Intervals()))
            one.first = one.number
            self.publish(one)

    def settle(self, sender: int, number: int, count: int, publisher: Publisher) -> None:
        """Tell a publisher the outcome of a run about which its node has not heard.

        A decided run is safe when all decisions so far are. Contents that have not arrived by now,
        in the order of the link, never arrive.
        """
        expected = self.backing.decided.get(sender, 1)
        end = number + count
        refused = self.refused.get(sender)
        for one in range(number, end):
            if one >= expected or (refused is not None and one in refused):
                publisher.refuse(one)
        if expected < end:
            self._lose(sender, expected, end)
        publisher.hold(number, count, self)
        backing = self.backing
        turn = backing.turn if backing.has_decisions else backing.turn - 1
        self.kept.when_kept(turn, True, publisher, number, self)

    def _lose(self, sender: int, start: int, end: int) -> None:
        """Refuse the publishers of contents that will never arrive."""
        self.backing.skip(sender, start, end - start)
        self.refused.setdefault(sender, Intervals()).add_range(start, end)

    # In doubt

    def in_doubt(self) -> None:
        """The entry by which this node leads is not stable: nothing is confirmed (MQ10)."""
        self.kept.in_doubt()
        self.backing.has_mirrors = True

    def is_stable(self) -> None:
        """The entry is stable."""
        self.kept.is_stable()
        self._look_for_mirrors()

    def _look_for_mirrors(self) -> None:
        if self.kept.is_only_logged:
            self.backing.has_mirrors = False

    # Mirrors

    def mirror_joined(self, mirror: Member, place_id: int) -> None:
        """A mirror is in the ring, at this place: it starts with the decisions of this turn."""
        self.kept.joined(mirror, self.backing.turn)
        self.synchronising.joined(mirror, self.backing.joined(place_id))
        # It learns which contents are decided, but not the outcome; it may lead before senders
        # know.
        self.repeat_refusals()

    def repeat_refusals(self) -> None:
        """Tell the mirrors of earlier refusals that the senders may not know."""
        for sender, refused in self.refused.items():
            self.backing.repeat_refusals(sender, refused)

    def mirror_follows(self, mirror: Member) -> None:
        """A mirror of the former leader continues with the decisions of this turn."""
        self.backing.has_mirrors = True
        self.kept.joined(mirror, self.backing.turn)

    def mirror_lacks(self, mirror: Member, term: int, lacked: list[Range]) -> None:
        """A mirror of an earlier leader reports the positions that it lacks. term: of the leader
        that it follows; it reports again when it follows this one.
        """
        if term == self.backing.term:
            self.synchronising.lacks(mirror, lacked)

    def mirror_kept(self, mirror: Member, turn: int, batch: int) -> None:
        """A mirror has decisions and batches through these numbers on its disk.

        Before it has decisions of this leader, its batches are of the former leader.
        """
        self.kept.kept(mirror, turn)
        if turn >= self._first_turn:
            self.synchronising.kept(mirror, batch)

    def mirror_gone(self, mirror: Member) -> None:
        """The removal of a mirror from the record is stable."""
        self.kept.removed(mirror)
        self._look_for_mirrors()

    def batches(self) -> Iterator[tuple[Member, Batch]]:
        """The batches of this round, after the decisions of the turn were taken."""
        return self.synchronising.batches()

    def messages(self, start: int, end: int) -> Batch:
        """The messages at positions that a mirror asks for; after the decisions were taken."""
        cursor = self.backing.cursor(start)
        try:
            return read_batch(self.backing, start, end, end - start, cursor)
        finally:
            cursor.close()

    # Ending

    def end_mirroring(self) -> None:
        """Confirm runs that wait for mirrors: the queue continues without any."""
        self.kept.remove_all()
        self.queue.backing = self.backing.inner
        self.backing.has_mirrors = False

    def end(self) -> list[Consumer]:
        """Another member leads: returns the consumers, which are not told.

        Their unsettled messages are ready again as new entries: settling the old has no effect.
        """
        consumers = self.queue.ring.clear()
        backing = self.backing
        held = [entry for _, entry in backing.unacked_between(0, NO_POSITION)]
        backing.inner.requeue([copy_of(entry) for entry in held])
        for entry in held:
            entry.position = STALE
        self.queue.close()
        self.queue.backing = EndedQueue()
        return consumers


def copy_of(entry: Entry) -> Entry:
    """Another entry of the same message."""
    return Entry(entry.message, entry.position, True, entry.expires_at_ms)
