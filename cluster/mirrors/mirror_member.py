"""A mirror on this node: its input, and its reports to the leader.

It takes contents from all nodes, and decisions and batches from the leader (mirror.py). Once a
round it reports the turn and the batch through which everything is on disk, as P1 requires of each
mirror.

A mirror whose messages turn out to differ from the leader's (MQ4) stops and leaves: its node joins
again with a new, empty mirror. If the disk cannot deliver a message, the read is repeated every
`AGAIN_MS`.

The mirror reports the positions that it lacks when it starts, when another member leads, which does
not know them, and when the leader is linked again, since batches may have been lost.

Invariants:
MM2. A turn is reported after all messages published through it are on the disk of this node.
MM3. All messages are on the disk of this node, except those reported to the leader as lacked.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, Protocol

from leveret.broker.queues.contract.publication import Publication
from leveret.cluster.mirrors import frames
from leveret.cluster.mirrors.batches import decode
from leveret.cluster.mirrors.decisions import DecisionError, Range
from leveret.cluster.mirrors.leader_session import LeaderSession
from leveret.cluster.mirrors.mirror import Contents, Mirror, Promoted
from leveret.cluster.mirrors.mirror_messages import MirrorDiffers
from leveret.cluster.mirrors.synchronisation import AGAIN_MS
from leveret.cluster.remote_queues.message_runs import RunError
from leveret.storage.contract.backing_queue import BackingQueue, BeingRead
from leveret.storage.messages.addresses import Addresses

NO_TERM: Final = -1
"""In place of a leader's term, before the first decision."""


class MirrorUser(Protocol):
    """The replica of the queue on this node. identity: the queue's."""

    identity: int

    def tell_leader(self, *pieces: bytes) -> None:
        """Send a frame to the leader, if it is linked."""

    def is_linked(self, sender: int) -> bool:
        """Whether this sender is a linked node, or this one."""

    def flush_later(self) -> None:
        """Call `report` at the end of the round."""

    def leave(self, error: Exception) -> None:
        """The mirror differs: have its node join again with another one."""

    def after_ms(self, delay_ms: int, callback: Callable[[], object]) -> None:
        """Call back after a time."""

    def make_backing(self, lacked: list[Range]) -> BackingQueue:
        """A new backing queue for a mirror that lacks these positions."""

    def work(self, steps: Iterator[int]) -> None:
        """Take the steps of freeing memory in turns of the event loop."""


class Lacking(NamedTuple):
    """The positions that the mirror lacked at a point of the stream (MM3). term: its leader's."""

    applied: tuple[int, int]
    term: int
    ranges: list[Range]


class WaitingDecisions(NamedTuple):
    """The reason why decisions wait: contents have not arrived, or the disk is being read
    (is_reading), or otherwise the leader has not answered. at: the first of them, as
    `Mirror.stands_at` returns it.
    """

    at: tuple[int, int, int]
    contents: Contents | None
    is_reading: bool


class MirrorMember:
    """The `MirrorHost` of a mirror, and a `Waiter`. place_id: its place in the ring."""

    __slots__ = (
        "_addresses", "_has_left", "_is_waiting", "_lacking", "_last_unsafe", "_mirror", "_safe",
        "_term", "_told", "_unsafe", "_user", "_wall_offset_ms", "place_id",
    )  # fmt: skip

    def __init__(
        self, place_id: int, user: MirrorUser, addresses: Addresses, wall_offset_ms: int
    ) -> None:
        self._user = user
        self.place_id = place_id
        self._addresses = addresses
        self._wall_offset_ms = wall_offset_ms
        self._mirror = Mirror(place_id, user.make_backing, self, addresses, wall_offset_ms)
        self._safe = self._told = (0, 0)
        self._unsafe: dict[int, tuple[int, int]] = {}
        self._last_unsafe = 0
        self._has_left = self._is_waiting = False
        self._term = NO_TERM
        self._lacking: Lacking | None = None

    def has_led(self, leading: LeaderSession) -> None:
        """Begin as the leader that hands over, whose queue has ended."""
        backing = leading.backing
        last = backing.turn - 1
        self._mirror.has_led(backing.inner, backing.term, last, backing.decided, leading.refused)
        self.applied()

    @property
    def queue(self) -> BackingQueue | None:
        """Its messages; None before it has begun."""
        messages = self._mirror.messages
        return None if messages is None else messages.queue

    @property
    def term(self) -> int:
        """The term of the leader whose decisions were applied last. It grows with each leader."""
        return self._mirror.term

    def give_up(self) -> BackingQueue | None:
        """Return the messages of the ended member, all of them ready; None before it has begun."""
        messages = self._mirror.messages
        if messages is None:
            return None
        messages.requeue_all()
        return messages.queue

    @property
    def waiting(self) -> WaitingDecisions | None:
        """The reason why decisions are not applied; None if all are."""
        mirror = self._mirror
        at = mirror.stands_at
        return (
            None
            if at is None
            else WaitingDecisions(at, mirror.waits_for, mirror.failed_read is not None)
        )

    def ask_for_missing(self) -> None:
        """Ask the leader for the messages that the stream of decisions has waited for too long."""
        self._do(self._mirror.ask_for_missing)

    @property
    def held_bytes(self) -> int:
        """The bytes of contents that no decision has named yet."""
        return self._mirror.senders.bytes_held

    # Input

    def contents(self, publication: Publication, settled: int) -> None:
        """Contents arrived. settled: their sender knows the outcome of all below this number."""
        mirror, sender = self._mirror, publication.sender
        mirror.senders.told(sender, settled)
        if publication.number != mirror.senders.next_of(sender):
            self.sender_begins(sender, publication.number)
        self._do(lambda: mirror.contents(publication))

    def sender_begins(self, sender: int, number: int) -> None:
        """A sender continues with this number: its earlier contents never arrive.

        Raises ValueError.
        """
        self._do(lambda: self._mirror.sender_begins(sender, number))

    def sender_gone(self, sender: int) -> None:
        """The link of a sender has ended."""
        self._do(lambda: self._mirror.sender_gone(sender))

    def decided(self, payload: bytes) -> None:
        """Apply the decisions of a turn. If they cannot be read, the mirror leaves."""
        self._do(lambda: self._mirror.decided(payload))

    def batch(self, kind: int, payload: bytes) -> None:
        """Handle messages that the mirror lacks or has requested. Raises ValueError."""
        batch = decode(payload, self._addresses, self._wall_offset_ms)
        take = self._mirror.batch if kind == frames.BATCH else self._mirror.answered
        self._do(lambda: take(batch))

    def leader_changed(self) -> None:
        """Another member leads, or is linked again: repeat reports and requests to it."""
        self._told = (0, 0)
        self._note_lacking()
        self._user.flush_later()
        self._do(self._mirror.ask_again)

    def promote(self) -> Promoted | None:
        """The state for the next leader; None while decisions wait. See `Mirror.promote`."""
        promoted: list[Promoted | None] = []
        self._do(lambda: promoted.append(self._mirror.promote()))
        return promoted[0] if promoted else None

    def _do(self, action: Callable[[], object]) -> None:
        """Do something after which decisions may be applied."""
        if self._has_left:
            return
        try:
            action()
        except (MirrorDiffers, DecisionError, RunError) as error:
            # The ring does not deliver decisions again, so a mirror that cannot read them differs,
            # too.
            self._has_left = True
            self._user.leave(error)
            return
        failed = self._mirror.failed_read
        if failed is not None and not isinstance(failed, BeingRead) and not self._is_waiting:
            self._is_waiting = True
            self._user.after_ms(AGAIN_MS, self._try_again)

    def _try_again(self) -> None:
        self._is_waiting = False
        self._do(self._mirror.go_on)

    # Calls of the mirror (MirrorHost)

    def may_send(self, sender: int) -> bool:
        """Whether a sender's contents may still come: it is linked."""
        return self._user.is_linked(sender)

    def ask(self, start: int, end: int) -> None:
        """Ask the leader for messages whose contents never arrive."""
        user = self._user
        user.tell_leader(frames.wanted(user.identity, self.place_id, start, end))

    def free(self, steps: Iterator[int]) -> None:
        """Free the memory of a purge."""
        self._user.work(steps)

    def applied(self) -> None:
        """Decisions or batches were applied."""
        mirror, queue = self._mirror, self.queue
        assert queue is not None, "a mirror that has begun applies"
        applied = mirror.turn, mirror.batch_number
        if mirror.term != self._term:
            self._term = mirror.term
            self._note_lacking()
        if self._unsafe or mirror.is_unsafe:
            mirror.is_unsafe = False
            number = self._last_unsafe = self._last_unsafe + 1
            self._unsafe[number] = applied
            queue.when_safe(self, number, self)
        else:
            self._safe = applied
        self._user.flush_later()

    def confirm(self, first: int, holder: object) -> None:
        """Everything that was applied when the wait began is on disk."""
        self._safe = max(self._safe, self._unsafe.pop(first))
        self._user.flush_later()

    def _note_lacking(self) -> None:
        mirror = self._mirror
        if mirror.has_begun:
            applied = mirror.turn, mirror.batch_number
            self._lacking = Lacking(applied, mirror.term, mirror.lacks)

    def report(self) -> None:
        """End a round: report to the leader the positions lacked and the turn on disk (MM2)."""
        user, lacking = self._user, self._lacking
        if self._has_left:
            # The turn in which it differs counts as applied.
            return
        if lacking is not None and self._safe >= lacking.applied:
            self._lacking = None
            pieces = frames.lacks(user.identity, self.place_id, lacking.term, lacking.ranges)
            user.tell_leader(*pieces)
        if self._safe != self._told:
            self._told = self._safe
            turn, batch = self._safe
            user.tell_leader(frames.kept(user.identity, self.place_id, turn, batch))
