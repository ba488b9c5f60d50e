"""A mirror: applies the decisions of its queue's leader to a backing queue of its own.

The decisions of a turn are applied in order, and those of the next turn after them. The same calls
take the same messages from two queues that began alike (BQ2 in storage/contract/backing_queue.py),
so most decisions are one call for a range of positions (mirror_messages.py).

The stream of decisions waits, in order, for

- contents that a node has sent and that have not arrived (`waits_for`);
- messages that the mirror has requested from the leader, because their contents never arrive: the
  sending node is down, or sent them before it knew of this mirror;
- the disk, if messages to be fetched are on it. Fetching is retried once they were read, or with
  `go_on`.

A mirror that joins ignores all decisions before the one with which it begins. It lacks the messages
that the leader had then; batches bring them (missing_ranges.py). A batch waits until the decisions
of its turn, after which it was read, are applied.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from mypy_extensions import mypyc_attr

from leveret.broker.queues.contract.publication import Publication
from leveret.cluster.mirrors.batches import Batch
from leveret.cluster.mirrors.decisions import (
    DROPPED,
    FETCHED,
    JOINED,
    LEADS,
    PUBLISHED,
    PUBLISHED_EACH,
    PUBLISHED_HERE,
    PURGED,
    REFUSED,
    REQUEUED,
    RETURNED,
    SENDER_ENDED,
    SETTLED,
    TAKEN,
    Decision,
    DecisionReader,
    Range,
)
from leveret.cluster.mirrors.mirror_messages import MirrorDiffers, MirrorMessages
from leveret.cluster.mirrors.senders import ContentSenders
from leveret.cluster.remote_queues.message_runs import RunReader
from leveret.storage.contract.backing_queue import BackingQueue, BeingRead, Unreadable
from leveret.storage.messages.addresses import Addresses
from leveret.storage.messages.intervals import Intervals
from leveret.storage.messages.message_run import MessageRun


class MirrorHost(Protocol):
    """The services of its node that a mirror uses."""

    def ask(self, start: int, end: int) -> None:
        """Ask the leader for the messages from one position up to, not including, another.

        `answered` is called with them; when the leader has changed, `ask_again` is.
        """

    def may_send(self, sender: int) -> bool:
        """Whether contents of a sender may still come. `sender_gone` is called when they cannot."""

    def free(self, steps: Iterator[int]) -> None:
        """Take the steps of freeing the memory of a purge, in turns of the event loop."""

    def applied(self) -> None:
        """Decisions or batches were applied: see `turn` and `batch_number`."""


class Contents(NamedTuple):
    """Contents that the stream of decisions waits for. size: their number."""

    sender: int
    first: int
    size: int


class Promoted(NamedTuple):
    """The state of a mirror that the next leader takes over.

    backing: all entries that awaited settlement are ready. turn: the last that was applied.
    undecided: contents that no decision has named, to be published. decided: for each sender, the
    number below which decisions have named its contents. refused: those of them that were refused,
    which its sender may not know. void: positions of messages that the next leader may not have.
    """

    backing: BackingQueue
    turn: int
    undecided: list[Publication]
    decided: dict[int, int]
    refused: dict[int, Intervals]
    void: list[Range]


@mypyc_attr(allow_interpreted_subclasses=True)
class Mirror:
    """A mirror of one queue.

    member: its number in the group. make_queue: makes its backing queue, given the positions that
    it lacks. turn: the decisions through it are applied. is_unsafe: published messages are safe
    only later; the caller clears this when it waits for them. batch_number: that of the present
    leader's last batch that was applied. waits_for: the contents that decisions wait for.
    failed_read: why a message cannot be read.
    """

    def __init__(
        self,
        member: int,
        make_queue: Callable[[list[Range]], BackingQueue],
        host: MirrorHost,
        addresses: Addresses,
        wall_offset_ms: int,
    ) -> None:
        self.member = member
        self._make_queue = make_queue
        self._host = host
        self._addresses = addresses
        self._wall_offset_ms = wall_offset_ms
        self.senders = ContentSenders()
        self.messages: MirrorMessages | None = None
        self._turns: deque[tuple[int, list[Decision]]] = deque()
        self._at = 0
        self._asked: Range | None = None
        self._batches: deque[Batch] = deque()
        self._is_going = self._is_promoted = self._has_left_out = self.is_unsafe = False
        self.turn = self.batch_number = 0
        self.waits_for: Contents | None = None
        self.failed_read: Unreadable | None = None

    @property
    def has_begun(self) -> bool:
        """Whether the decision with which it starts was applied."""
        return self.messages is not None

    @property
    def lacks(self) -> list[Range]:
        """The positions that it lacks: it is synchronised if it has begun and lacks none."""
        return [] if self.messages is None else list(self.messages.missing.positions)

    @property
    def term(self) -> int:
        """The term of the leader whose decisions were applied last; 0 before it has begun."""
        return 0 if self.messages is None else self.messages.missing.term

    @property
    def is_behind(self) -> bool:
        """Whether some decisions were not applied yet."""
        return bool(self._turns)

    @property
    def stands_at(self) -> tuple[int, int, int] | None:
        """Where the stream of decisions waits: the turn, the decision in it, and the position;
        None if all are applied.
        """
        if not self._turns:
            return None
        turn, decisions = self._turns[0]
        return turn, self._at, decisions[self._at].position

    def has_led(
        self,
        queue: BackingQueue,
        term: int,
        turn: int,
        decided: dict[int, int],
        refused: dict[int, Intervals],
    ) -> None:
        """Begin as the leader that hands over: with its messages, all of which are ready.

        turn: its last one. decided, refused: as in `Promoted`.
        """
        self.messages = MirrorMessages(queue, [], term)
        self.turn = turn
        self.is_unsafe = True
        for sender in decided.keys() | refused.keys():
            self.senders.led(sender, decided.get(sender, 0), refused.get(sender, Intervals()))

    # Input

    def contents(self, run: Publication) -> None:
        """Contents from a sender have arrived. Their numbers follow those of its earlier ones."""
        self.senders.add(run)
        if self.waits_for is not None:
            self.go_on()

    def sender_begins(self, sender: int, first: int) -> None:
        """The first contents of a sender will have this number."""
        self.senders.begins(sender, first)
        self.go_on()

    def sender_gone(self, sender: int) -> None:
        """The link of a sender has ended: no more of its contents will come."""
        self.senders.gone(sender)
        self.go_on()

    def decided(self, data: bytes) -> None:
        """Apply the decisions of the next turn. Raises DecisionError, RunError, MirrorDiffers."""
        reader = DecisionReader(data)
        self._turns.append((reader.turn, reader.decisions()))
        if len(self._turns) == 1:
            self.go_on()

    def batch(self, batch: Batch) -> None:
        """A batch of missing messages has arrived."""
        self._batches.append(batch)
        if not self._is_going and self._apply_batches():
            self._host.applied()

    def answered(self, batch: Batch) -> None:
        """Requested messages have arrived: all that the leader has, or the first of them, since a
        batch is bounded in bytes. The mirror then asks for the rest.
        """
        asked = self._asked
        if asked is None or batch.start != asked[0] or batch.end > asked[1]:
            return
        assert self.messages is not None, "a mirror that has begun asks"
        decision = self._turns[0][1][self._at]
        self._asked = None
        if self.messages.publish_answer(batch):
            self.is_unsafe = True
        # The rest of the decision is applied next.
        count = batch.end - batch.start
        decision.first += count
        decision.position += count
        decision.count -= count
        del decision.times_wall_ms[:count]
        self.senders.skip(decision.sender, decision.first)
        if not decision.count:
            self._at += 1
        self.go_on()

    def ask_again(self) -> None:
        """Another member leads: repeat the requests that the former leader did not answer.

        Raises MirrorDiffers if this one was to lead, and has left out messages that others may
        have.
        """
        if self._has_left_out:
            raise MirrorDiffers("messages were left out for a lead that was taken back")
        if self._is_promoted:
            # This one was to lead, and no longer is.
            self._is_promoted = False
            self.go_on()
        elif self._asked is not None:
            self._host.ask(*self._asked)

    def ask_for_missing(self) -> None:
        """The stream has waited for long: ask the leader for the messages, again or instead of
        waiting for their sender. Contents that arrive later are ignored.
        """
        if self._is_promoted:
            return
        if self._asked is None and self.waits_for is not None:
            decision = self._turns[0][1][self._at]
            self.waits_for = None
            self._asked = decision.position, decision.position + decision.count
        if self._asked is not None:
            self._host.ask(*self._asked)

    # The stream of decisions

    def go_on(self) -> None:
        """Apply all decisions and batches that can be applied. Raises MirrorDiffers."""
        if self._is_going or (self._asked is not None and not self._is_promoted):
            return
        self._is_going = True
        before = self.turn
        self.waits_for = self.failed_read = None
        try:
            while self._turns and self._apply_turn(*self._turns[0]):
                self._turns.popleft()
            has_batch = self._apply_batches()
        finally:
            self._is_going = False
        if self.turn != before or has_batch:
            self._host.applied()

    def _apply_turn(self, turn: int, decisions: list[Decision]) -> bool:
        """Apply the decisions of a turn; False if the stream has to wait."""
        messages = self.messages
        if messages is not None and turn != self.turn + 1:
            raise MirrorDiffers(f"the decisions of turn {turn} follow those of turn {self.turn}")
        while self._at < len(decisions):
            decision = decisions[self._at]
            if messages is None:
                messages = self._pass_over(decision)
            elif not self._apply(messages, decision, turn):
                return False
            self._at += 1
        self._at = 0
        if messages is not None:
            self.turn = turn
        return True

    def _pass_over(self, decision: Decision) -> MirrorMessages | None:
        """Handle a decision before this mirror began, or the one with which it begins."""
        if decision.kind in (PUBLISHED, PUBLISHED_EACH, REFUSED):
            self.senders.pass_over(decision.sender, decision.first + decision.count)
        elif decision.kind == JOINED and decision.member == self.member:
            for sender, number in decision.decided.items():
                self.senders.pass_over(sender, number)
            queue = self._make_queue(decision.ranges)
            self.messages = MirrorMessages(queue, decision.ranges, decision.term)
            self.turn = self._turns[0][0] - 1
        return self.messages

    def _apply(self, messages: MirrorMessages, decision: Decision, turn: int) -> bool:
        """Apply a decision; False if it has to wait."""
        kind = decision.kind
        if kind in (PUBLISHED, PUBLISHED_EACH):
            return self._publish(messages, decision)
        if kind == SETTLED:
            messages.queue.ack(messages.settled(kind, decision.ranges))
        elif kind in (REQUEUED, RETURNED):
            entries = messages.settled(kind, decision.ranges)
            messages.queue.requeue(entries, kind == REQUEUED)
        elif kind == PUBLISHED_HERE:
            self._publish_here(messages, decision)
        elif kind == REFUSED:
            self.senders.refuse(decision.sender, decision.first, decision.count)
        elif kind == PURGED:
            self._host.free(messages.purge(turn).freeing)
        elif kind == SENDER_ENDED:
            self.senders.end(decision.sender, decision.first)
        else:
            return self._take(messages, decision, turn)
        return True

    def _take(self, messages: MirrorMessages, decision: Decision, turn: int) -> bool:
        """Apply a decision that may have to read messages; False if it waits for the disk."""
        kind = decision.kind
        try:
            if kind in (FETCHED, DROPPED):
                messages.take_first(kind, decision.ranges)
            elif kind == TAKEN:
                messages.take_anywhere(decision.ranges)
            elif kind == LEADS:
                messages.led(decision.ranges, turn, decision.term)
                self.batch_number = 0
        except Unreadable as error:
            self.failed_read = error
            if isinstance(error, BeingRead):
                error.when_done(self.go_on)
            return False
        return True

    # Publishing

    def _publish(self, messages: MirrorMessages, decision: Decision) -> bool:
        sender, first, count = decision.sender, decision.first, decision.count
        senders = self.senders
        if not senders.has(sender, first, count):
            is_coming = self._host.may_send(sender)
            if is_coming and not senders.lacks(sender, first, count):
                self.waits_for = Contents(sender, first, count)
                return False
            if not self._is_promoted:
                self._asked = decision.position, decision.position + count
                self._host.ask(*self._asked)
                return False
        place = decision.position
        offset = place - first
        for run in senders.take(sender, first, count):
            position = run.number + offset
            self._leave_out(messages, decision, place, position)
            if self._publish_run(messages, decision, run, position):
                self.is_unsafe = True
            place = run.end + offset
        self._leave_out(messages, decision, place, decision.position + count)
        return True

    def _publish_run(
        self, messages: MirrorMessages, decision: Decision, run: MessageRun, position: int
    ) -> bool:
        if decision.kind == PUBLISHED:
            return messages.publish(position, run, self._on_clock(decision.expires_wall_ms))
        start = position - decision.position
        times = decision.times_wall_ms[start : start + len(run.messages)]
        return messages.publish_each(position, run, [self._on_clock(time) for time in times])

    def _leave_out(
        self, messages: MirrorMessages, decision: Decision, start: int, end: int
    ) -> None:
        """Contents of a decision are missing, from one position up to, not including, another."""
        if start < end:
            self._has_left_out = True
            messages.leave_out(start, end)
            offset = decision.first - decision.position
            self.senders.lost(decision.sender, start + offset, end + offset)

    def _publish_here(self, messages: MirrorMessages, decision: Decision) -> None:
        reader = RunReader(decision.run, 0, self._addresses)
        run = MessageRun(reader.messages(decision.count), reader.body_bytes)
        expires_at_ms = self._on_clock(decision.expires_wall_ms)
        if messages.publish(decision.position, run, expires_at_ms):
            self.is_unsafe = True

    def _on_clock(self, wall_ms: int) -> int:
        """A time of the wall clock on the broker's clock; 0 if it is 0."""
        return wall_ms and max(1, wall_ms - self._wall_offset_ms)

    # Batches, leaders

    def _apply_batches(self) -> bool:
        """Apply the batches whose turn has come; returns whether there was one."""
        batches, messages = self._batches, self.messages
        has_batch = False
        while batches and messages is not None:
            term = messages.missing.term
            if batches[0].term > term or (batches[0].term == term and batches[0].turn > self.turn):
                break
            batch = batches.popleft()
            if batch.term < term or messages.missing.lacks_before(batch.start):
                # It is of a former leader, or follows one that was lost with a link: it is sent
                # again.
                continue
            if messages.merge(batch):
                self.is_unsafe = True
            self.batch_number = batch.number
            has_batch = True
        return has_batch

    def promote(self) -> Promoted | None:
        """Hand over the state for the next leader. None while decisions wait for contents that are
        still to come, or for the disk: call it again when they were applied.

        No leader is asked from here on: messages that never come to this mirror are missing.
        """
        self._is_promoted = True
        self._asked = None
        self.go_on()
        if self._turns:
            return None
        messages = self.messages or MirrorMessages(self._make_queue([]), [], 0)
        messages.requeue_all()
        senders, void = self.senders, messages.void()
        if void or self.messages is None:
            senders.lose_passed_over()
        return Promoted(
            messages.queue, self.turn, senders.undecided(), senders.decided(),
            senders.refusals(), void,
        )  # fmt: skip
