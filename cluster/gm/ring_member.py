"""The state machine of one member of a group: inputs of its service, and outputs for it.

**Promises.** G1 to G7 of docs/design/replication.md. **Not promised.** An order between senders;
anything for a member that the record does not have as living: it is expelled.

**Mechanism.** Each member knows the progress of every sender's broadcasts (pending.py), and once a
round sends the changes to its right neighbour, with the payloads that the neighbour lacks. A
catch-up contains everything. Both are processed in the same way: the receiver takes over the
progress that is beyond its own. So a redundant catch-up does no harm, and one is sent whenever the
right neighbour may have missed something: when the neighbour has changed, after its link was down,
and when records were skipped.

    sender ──► member ──► member ──► sender       broadcast n: kept by each
    sender ──► member ──► member                  n is acknowledged: dropped by each

Along the ring, from the sender to its left neighbour, progress never increases, since each member
gets all broadcasts from the one before. So when the left neighbour of the sender, or of its heir,
reports n, all members have n. The sender then acknowledges n, and the acknowledgement takes the
same way around the ring (GM4).

Members learn of changes at different times. Each message has the version of the record that its
sender knew. A member with an older record queues the message until it has applied that version
(early_messages.py), so versions only grow along the ring. A member with a newer record takes the
message only if it came from its left neighbour, and was sent after that member had become its left
neighbour (`_left_since`, GM3).

A new member gets its starting state, a whole catch-up, from its left neighbour, and submits this to
the record. If the member directly to its left dies before that, the record declares the new one
dead as well (group.py), and its node joins again as another member.

The service calls `flush` at the end of each round in which it called anything else, and carries out
the returned outputs, in order.

Invariants:

GM1 and GM2 are in pending.py.
GM3  Messages are sent to the right neighbour in the newest applied record, and accepted from the
     left neighbour.
GM4  Acknowledgements and broadcasts of one sender take the same way, in one message or in order.
GM6  Only the sender, or its heir, acknowledges broadcasts, once its left neighbour has them.
"""

from leveret.cluster.gm.activity import (
    ACTIVITY,
    CATCH_UP,
    CATCH_UP_END,
    CATCH_UP_WANTED,
    HEAD_BYTES,
    JOIN,
    MessageHead,
    MessageWriter,
    SenderProgress,
    check_body,
    read_head,
    read_join,
    read_progress,
    write_join,
)
from leveret.cluster.gm.early_messages import WAITING_BYTES_MAX, EarlyMessages
from leveret.cluster.gm.group import Added, Died, Erased, Group, HasJoined, Member, Place
from leveret.cluster.gm.neighbour_watch import NeighbourWatch
from leveret.cluster.gm.outputs import (
    BroadcastsConfirmed,
    DeliverBroadcasts,
    Expelled,
    Joined,
    MembersChanged,
    Output,
    SendPieces,
    StartPause,
    SubmitChange,
)
from leveret.cluster.gm.pending import PendingBroadcasts

MESSAGE_BYTES = 4 * 1024 * 1024
"""A message that reaches this size is sent: a catch-up may consist of several messages."""
NO_MEMBER = -1
"""No place has this id."""


class RingMember:
    """One member of one group.

    is_joined: it has its starting state. is_expelled: it has returned `Expelled`, and does nothing
    after that. early_bytes_max: the limit for the bytes of messages that wait for a newer record.
    """

    def __init__(self, member: Member, early_bytes_max: int = WAITING_BYTES_MAX) -> None:
        self.member = member
        self.is_joined = self.is_expelled = False
        self._group: Group | None = None
        self._version = 0
        self._place: Place | None = None
        self._place_id = 0
        self._left: Place | None = None
        self._left_id = NO_MEMBER
        self._left_since = 0
        self._right: Place | None = None
        self._own = PendingBroadcasts(0, member)
        self._senders: dict[int, PendingBroadcasts] = {}
        self._news: list[PendingBroadcasts] = []
        self._is_catch_up_due = False
        self._asked: Member | None = None
        self._early = EarlyMessages(early_bytes_max)
        self._watch = NeighbourWatch(member)

    # For the service

    @property
    def group(self) -> Group | None:
        """The newest record that was applied."""
        return self._group

    @property
    def left(self) -> Member | None:
        """The left neighbour; None if there is none."""
        return self._left.member if self._left is not None else None

    @property
    def right(self) -> Member | None:
        """The right neighbour; None if there is none."""
        return self._right.member if self._right is not None else None

    @property
    def pending_count(self) -> int:
        """The number of kept broadcasts, of all senders."""
        return sum([one.delivered - one.acknowledged for one in self._senders.values()])

    @property
    def early(self) -> list[tuple[str, bytes]]:
        """The messages that wait for a newer record, in their order, with their nodes."""
        return self._early.messages

    def senders(self) -> list[PendingBroadcasts]:
        """The progress of each sender's broadcasts here. They must not be changed."""
        return list(self._senders.values())

    # Broadcasts

    def broadcast(self, payload: bytes) -> int:
        """Broadcast at the end of the round; returns the number for `BroadcastsConfirmed`."""
        assert self.is_joined, "only a member that has joined broadcasts"
        number = self._own.add(payload)
        self._note(self._own)
        return number

    def flush(self) -> list[Output]:
        """End a round: send the right neighbour the news that it lacks."""
        if not self.is_joined or self.is_expelled:
            return []
        right = self._right
        if right is None:
            return self._settle_alone()
        if not self._watch.is_reachable(right.member):
            return []
        if not self._is_catch_up_due:
            return self._send_news(right) if self._news else []
        self._is_catch_up_due = False
        writer = self._message(CATCH_UP, right)
        for sender in self._senders.values():
            sender.sent = sender.acknowledged
            writer.add(sender.place_id, sender.acknowledged, sender.acknowledged, [])
            if sender.delivered > sender.sent:
                self._note(sender)
        end = self._message(CATCH_UP_END, right)
        return [
            SendPieces(right.member, writer.end()),
            *self._send_news(right),
            SendPieces(right.member, end.end()),
        ]

    def _note(self, sender: PendingBroadcasts) -> None:
        """Send a sender's progress to the right neighbour at the end of the round."""
        if not sender.has_news:
            sender.has_news = True
            self._news.append(sender)

    def _message(self, kind: int, target: Place) -> MessageWriter:
        group = self._group
        assert group is not None
        return MessageWriter(
            MessageHead(kind, group.identity, self._version, self._place_id, target.place_id)
        )

    def _send_news(self, right: Place) -> list[Output]:
        """Send the right neighbour the progress of senders with news, in one or more messages.

        A payload goes to all members except the one that acknowledges it, which has it.
        """
        outputs: list[Output] = []
        writer = self._message(ACTIVITY, right)
        for sender in self._news:
            sender.has_news = False
            payloads = [] if sender.acknowledged_right else sender.after(sender.sent)
            sent = sender.delivered - len(payloads)
            while (count := _count_within(payloads, MESSAGE_BYTES - writer.size)) < len(payloads):
                sent += count
                writer.add(sender.place_id, sender.acknowledged, sent, payloads[:count])
                payloads = payloads[count:]
                outputs.append(SendPieces(right.member, writer.end()))
                writer = self._message(ACTIVITY, right)
            writer.add(sender.place_id, sender.acknowledged, sender.delivered, payloads)
            sender.sent = sender.delivered
        self._news.clear()
        outputs.append(SendPieces(right.member, writer.end()))
        return outputs

    def _settle_alone(self) -> list[Output]:
        """There is no other member: acknowledge all broadcasts that this one has."""
        for sender in self._news:
            sender.has_news = False
        self._news.clear()
        outputs: list[Output] = []
        for sender in self._senders.values():
            is_more = sender.acknowledge(sender.delivered)
            if is_more and sender is self._own:
                outputs.append(BroadcastsConfirmed(sender.delivered))
        return outputs + self._erase()

    def _erase(self) -> list[Output]:
        """Erase dead members whose broadcasts all members have.

        An heir has the most of them, and acknowledges those that have passed around the ring to it.
        """
        if not self.is_joined:
            return []
        erased: list[Member] = []
        for sender in self._senders.values():
            if sender.is_alive or not sender.acknowledged_here or sender.is_erasure_asked:
                continue
            if sender.acknowledged == sender.delivered:
                sender.is_erasure_asked = True
                erased.append(sender.member)
        return [SubmitChange(Erased(tuple(erased)))] if erased else []

    # Messages

    def received(self, node: str, message: bytes) -> list[Output]:
        """Handle a message of a linked node. A damaged one raises ValueError and has no effect."""
        head = read_head(message)
        if self.is_expelled:
            return []
        if head.version > self._version:
            check_body(head, message)
            self._early.add(node, head, message)
            return []
        return self._take(node, head, message)

    def _take(self, node: str, head: MessageHead, message: bytes) -> list[Output]:
        place = self._place
        if place is None or head.target != self._place_id:
            return []
        if head.kind == JOIN:
            incarnation, number = read_join(message)
            return [SubmitChange(Added(Member(node, incarnation, number), self.member))]
        if head.kind == CATCH_UP_WANTED:
            right = self._right
            self._is_catch_up_due |= right is not None and right.place_id == head.origin
            return []
        if head.origin != self._left_id or head.version < self._left_since:
            return []  # GM3
        progress = read_progress(message)
        if head.kind == CATCH_UP:
            self._early.caught_up(head.version)
        if 0 < self._early.lost_from <= head.version:
            return []
        if head.kind == CATCH_UP_END:
            return [] if self.is_joined else self._join()
        if self.is_joined:
            return self._advance(progress)
        for one in progress:
            self._start(one, head.kind == CATCH_UP)
        return []

    def _advance(self, progress: list[SenderProgress]) -> list[Output]:
        """Take over the progress of the left neighbour."""
        outputs: list[Output] = []
        confirmed = has_settled = False
        for one in progress:
            sender = self._senders.get(one.place_id)
            if sender is None:
                continue  # It is erased: all members have all of it.
            if not sender.acknowledged_here:
                new = self._take_over(sender, one)
                if new:
                    outputs.append(DeliverBroadcasts(sender.member, new))
                continue
            assert one.delivered <= sender.delivered, "GM6: it acknowledges what it does not have"
            if sender.acknowledge(one.delivered):
                self._note(sender)
                confirmed |= sender is self._own
                has_settled |= not sender.is_alive
        if confirmed:
            # After all broadcasts that the same message delivers: G7.
            outputs.append(BroadcastsConfirmed(self._own.acknowledged))
        return outputs + self._erase() if has_settled else outputs

    def _take_over(self, sender: PendingBroadcasts, one: SenderProgress) -> list[bytes]:
        """Take over the progress of a sender that another member acknowledges, and return its new
        broadcasts.
        """
        new = sender.extend(one.delivered, one.payloads)
        is_acknowledged = sender.acknowledge(one.acknowledged)
        # The acknowledgement comes from the member that acknowledges the broadcasts.
        if new or (is_acknowledged and not sender.acknowledged_right):
            self._note(sender)
        return new

    # Joining

    def _start(self, one: SenderProgress, is_first: bool) -> None:
        """Take over a part of the starting state, the first part of a sender or a later one."""
        sender = self._senders.get(one.place_id)
        if sender is None:
            return
        if is_first:
            sender.begin(one.acknowledged)
        else:
            self._take_over(sender, one)

    def _join(self) -> list[Output]:
        """The starting state is complete."""
        self.is_joined = self._is_catch_up_due = True
        others = [one for one in self._senders.values() if one is not self._own]
        outputs: list[Output] = [Joined(tuple([(one.member, one.acknowledged) for one in others]))]
        for sender in others:
            payloads = sender.after(sender.acknowledged)
            if payloads:
                outputs.append(DeliverBroadcasts(sender.member, payloads[:]))
        outputs.append(SubmitChange(HasJoined(self.member)))
        return outputs

    def _ask(self) -> list[Output]:
        """Ask a member of the record to add this one on its right, unless one is asked already."""
        group = self._group
        if group is None or self._place is not None:
            return []
        places = [
            one for one in group.living if one.has_joined and self._watch.is_reachable(one.member)
        ]
        if self._asked in [one.member for one in places]:
            return []
        if not places:
            self._asked = None
            return []
        place = places[-1]
        self._asked = place.member
        head = MessageHead(JOIN, group.identity, group.version, 0, place.place_id)
        pieces = write_join(head, self.member.incarnation, self.member.number)
        return [SendPieces(place.member, pieces)]

    # Links

    def link_up(self, node: str, incarnation: int) -> list[Output]:
        """A node is linked. incarnation: the number of its start (`Peer.incarnation`)."""
        if self.is_expelled:
            return []
        self._watch.link_up(node, incarnation)
        if self._right is not None and self._right.member.node == node:
            self._is_catch_up_due = True
        return self._look() + self._ask()

    def link_down(self, node: str) -> list[Output]:
        """The link to a node is down."""
        if self.is_expelled:
            return []
        self._watch.link_down(node)
        return self._look() + self._ask()

    def pause_over(self, member: Member) -> list[Output]:
        """The pause that was asked for with `StartPause` is over."""
        if self.is_expelled:
            return []
        self._watch.pause_over(member)
        return self._look()

    def _look(self) -> list[Output]:
        """Look for neighbours that have died."""
        group, place = self._group, self._place
        if group is None or place is None:
            return []
        others = [one.member for one in group.circle(place)[:-1] if one.is_alive]
        to_wait, dead = self._watch.look(others)
        outputs: list[Output] = [StartPause(member) for member in to_wait]
        if dead:
            outputs.append(SubmitChange(Died(tuple(dead), self.member)))
        return outputs

    # The record

    def group_changed(self, group: Group) -> list[Output]:
        """The record has changed: a newer one is applied on this node."""
        before = self._group
        if self.is_expelled or group.version <= self._version:
            return []
        place, is_new = group.place_of(self.member), self._place is None
        self._group, self._version = group, group.version
        if place is None and not group.has_had(self.member):
            return self._ask()
        if place is None or not place.is_alive:
            self.is_expelled = True
            return [Expelled()]
        self._enter(place)
        outputs = self._members_changed(before, group)
        self._set_neighbours(group, place, before)
        self._set_senders(group)
        if place.has_joined and not self.is_joined:
            # No other member could give it a starting state.
            self.is_joined = self._is_catch_up_due = True
            outputs.append(Joined(()))
        for node, head, message in self._early.take(group.version):
            outputs += self._take(node, head, message)
        # This node may have dropped messages that arrived before this member existed.
        is_wanted = (is_new and not self.is_joined) or 0 < self._early.lost_from <= group.version
        if is_wanted and self._left is not None:
            wanted = self._message(CATCH_UP_WANTED, self._left)
            outputs.append(SendPieces(self._left.member, wanted.end()))
        return outputs + self._erase() + self._look()

    def _enter(self, place: Place) -> None:
        """Take the place that the record gives this member."""
        if not self._place_id:
            self._place_id = place.place_id
            self._own = self._senders[place.place_id] = PendingBroadcasts(
                place.place_id, self.member
            )
        self._place = place

    def _members_changed(self, before: Group | None, group: Group) -> list[Output]:
        if before is None or before.place_of(self.member) is None:
            return []
        old = [place.member for place in before.living]
        new = [place.member for place in group.living]
        added = tuple([member for member in new if member not in old])
        died = tuple([member for member in old if member not in new])
        return [MembersChanged(added, died)] if added or died else []

    def _set_senders(self, group: Group) -> None:
        """Take the senders of the record, and note which member acknowledges their broadcasts."""
        right = self._right.place_id if self._right is not None else NO_MEMBER
        senders: dict[int, PendingBroadcasts] = {}
        for place in group.places:
            sender = self._senders.get(place.place_id) or PendingBroadcasts(
                place.place_id, place.member
            )
            senders[place.place_id] = sender
            acting = group.sender_or_heir(place).place_id
            sender.is_alive = place.is_alive
            sender.acknowledged_here = acting == self._place_id
            sender.acknowledged_right = acting == right
        self._senders = senders
        self._news = [sender for sender in self._news if sender.place_id in senders]

    def _set_neighbours(self, group: Group, place: Place, before: Group | None) -> None:
        left, right = group.left_of(place), group.right_of(place)
        is_alone = right.place_id == self._place_id
        if is_alone:
            self._left, self._left_id, self._right = None, NO_MEMBER, None
            return
        if left.place_id != self._left_id:
            self._left_id = left.place_id
            self._left_since = before.version + 1 if before is not None else 1
        is_another = self._right is None or self._right.place_id != right.place_id
        # In a skipped record the right neighbour may have had another left neighbour.
        if is_another or before is None or group.version > before.version + 1:
            self._is_catch_up_due = True
        self._left, self._right = left, right


def _count_within(payloads: list[bytes], room: int) -> int:
    """The number of payloads that fit into the rest of a message; at least one if it is empty."""
    is_empty = room == MESSAGE_BYTES - HEAD_BYTES
    for index, payload in enumerate(payloads):
        room -= len(payload)
        if room < 0 and (index or not is_empty):
            return index
    return len(payloads)
