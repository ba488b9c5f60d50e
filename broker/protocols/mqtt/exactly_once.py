"""QoS 2: each message of a client is handed over once, and each message for it is sent once. Pure.

Two machines for a session, one for each direction. They know packet identifiers and identities of
messages, and return effects; their caller does these, and reports when their records are on disk. A
restart, and another node, make them of the records (`from_records`). The promises, and the crash
that each rule is for, are in docs/design/mqtt-exactly-once.md.

    client            Inbound                              disk
    PUBLISH 5   ───>  HandOver 5      ─── message, and RECEIVED in the same record
                <───  SendPubrec 5    <── on disk
    PUBREL 5    ───>  FORGOTTEN 5     ──
                <───  SendPubcomp 5   <── on disk

    client            Outbound                             disk
                      SENT 5          ──
    PUBLISH 5   <───  SendPublish 5   <── on disk
    PUBREC 5    ───>  RELEASED 5      ──
    PUBREL 5    <───  SendPubrel 5    <── on disk; the queue's message is acknowledged
    PUBCOMP 5   ───>  the identifier is free; Forget, when a barrier has passed the queue

An identity is the publisher's source (8 bytes) and a number that grows with each message of it (8
bytes). It is a part of the message, so a queue that delivers a message again, on whatever node,
delivers the same identity.

Invariants:

XO1  A message is handed over only for a packet identifier that is not known.
XO2  PUBREC is sent when the message and RECEIVED are on disk; PUBCOMP when FORGOTTEN is.
XO3  PUBLISH is sent when SENT is on disk, so that it has the same packet identifier each time;
     PUBREL when RELEASED is.
XO4  RELEASED is kept until PUBCOMP has come and the queue cannot deliver the message again: a
     barrier that was published after the acknowledgement is safe, and has come out of the queue.
XO5  A message that may be handed over again with the same identity (`is_repeatable`) keeps its
     records until its source has said that it will not be: it may be gone and come again.
"""

from collections.abc import Iterable
from enum import Enum, auto
from typing import Final, NamedTuple

FIRST_SENT_ID: Final = 32_768
PACKET_ID_MAX: Final = 65_535
"""The packet identifiers of deliveries of QoS 2; those of QoS 1 are lower."""
SOURCE_BYTES: Final = 8
FINISHED_MAX: Final = 65_536
"""Completed messages whose RELEASED is kept; beyond this the oldest is given up."""


class Fact(Enum):
    """The state of a packet identifier in a record."""

    RECEIVED = 1
    FORGOTTEN = 2
    SENT = 3
    RELEASED = 4


class Record(NamedTuple):
    """A record to write. is_repeatable: RECEIVED is written before the message is handed over, so
    a crash may come in between; SENT and RELEASED are of such a message (XO5).
    """

    fact: Fact
    packet_id: int
    identity: bytes
    is_repeatable: bool = False


class HandOver(NamedTuple):
    """Publish the message with this identity, and write RECEIVED with it."""

    packet_id: int
    identity: bytes


class SendPubrec(NamedTuple):
    """Send PUBREC. is_refused: a queue has refused the message."""

    packet_id: int
    is_refused: bool = False


class SendPubcomp(NamedTuple):
    """Send PUBCOMP. is_known: the packet identifier was in use."""

    packet_id: int
    is_known: bool


class SendPublish(NamedTuple):
    """Send a message. is_repeated: it may have been sent before."""

    packet_id: int
    identity: bytes
    is_repeated: bool


class SendPubrel(NamedTuple):
    """Send PUBREL. is_known: the packet identifier is in use."""

    packet_id: int
    is_known: bool = True


class Acknowledge(NamedTuple):
    """Acknowledge the message to its queue, if the queue has delivered it."""

    identity: bytes


class Completed(NamedTuple):
    """The client may be sent another message in place of this one."""

    identity: bytes


class Forget(NamedTuple):
    """The records of a message are no longer needed."""

    identity: bytes


Effect = (
    Record | HandOver | SendPubrec | SendPubcomp | SendPublish | SendPubrel | Acknowledge
    | Completed | Forget
)  # fmt: skip


def number_of(identity: bytes) -> int:
    """The number in an identity."""
    return int.from_bytes(identity[SOURCE_BYTES:])


class _Received(Enum):
    WRITING = auto()
    STORED = auto()
    DOUBTFUL = auto()
    FORGETTING = auto()
    REFUSING = auto()


class _Message:
    """A message of the client whose packet identifier is in use."""

    __slots__ = ("identity", "state")

    def __init__(self, identity: bytes, state: _Received) -> None:
        self.identity = identity
        self.state = state


class Inbound:
    """The messages of the client whose packet identifiers it may not use for others yet.

    source: the 8 bytes of the session. last_number: the number of the last message.
    """

    __slots__ = ("_ids", "last_number", "source")

    def __init__(self, source: bytes) -> None:
        assert len(source) == SOURCE_BYTES, "a source has 8 bytes"
        self.source = source
        self.last_number = 0
        self._ids: dict[int, _Message] = {}

    @classmethod
    def from_records(cls, source: bytes, records: Iterable[Record]) -> "Inbound":
        """The machine after a restart. records: in the order in which they were written."""
        machine = cls(source)
        for record in records:
            machine.last_number = max(machine.last_number, number_of(record.identity))
            if record.fact is Fact.RECEIVED:
                state = _Received.DOUBTFUL if record.is_repeatable else _Received.STORED
                machine._ids[record.packet_id] = _Message(record.identity, state)
            elif record.fact is Fact.FORGOTTEN:
                message = machine._ids.get(record.packet_id)
                if message is not None and message.identity == record.identity:
                    del machine._ids[record.packet_id]
        return machine

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, packet_id: object) -> bool:
        """Whether a packet identifier is in use."""
        return packet_id in self._ids

    @property
    def oldest_number(self) -> int:
        """The lowest number that may be handed over again, or be handed over next."""
        numbers = [number_of(message.identity) for message in self._ids.values()]
        return min(numbers, default=self.last_number + 1)

    def published(self, packet_id: int, now_us: int) -> list[Effect]:
        """PUBLISH has come, perhaps again. now_us: the wall clock; numbers follow it, so that those
        of a session that has ended are not used again.
        """
        message = self._ids.get(packet_id)
        if message is None:
            self.last_number = max(self.last_number + 1, now_us)
            identity = self.source + self.last_number.to_bytes(8)
            self._ids[packet_id] = _Message(identity, _Received.WRITING)
            return [HandOver(packet_id, identity)]
        if message.state is _Received.DOUBTFUL:
            message.state = _Received.WRITING
            return [HandOver(packet_id, message.identity)]
        # XO1: it is known. XO2: while it is written, PUBREC follows when it is on disk.
        return [SendPubrec(packet_id)] if message.state is _Received.STORED else []

    def stored(self, packet_id: int) -> list[Effect]:
        """The message and RECEIVED are on disk."""
        message = self._ids[packet_id]
        assert message.state is _Received.WRITING, "XO2: a message is stored once"
        message.state = _Received.STORED
        return [SendPubrec(packet_id)]

    def refused(self, packet_id: int) -> list[Effect]:
        """A queue has refused the message: the client is told when its identifier is free."""
        message = self._ids[packet_id]
        assert message.state is _Received.WRITING, "XO2: a message is stored, or it is refused"
        message.state = _Received.REFUSING
        return [Record(Fact.FORGOTTEN, packet_id, message.identity)]

    def released(self, packet_id: int) -> list[Effect]:
        """PUBREL has come, perhaps again."""
        message = self._ids.get(packet_id)
        if message is None:
            return [SendPubcomp(packet_id, False)]
        # After a restart PUBREL says that PUBREC was sent, so the message was handed over.
        if message.state not in (_Received.STORED, _Received.DOUBTFUL):
            return []
        message.state = _Received.FORGETTING
        return [Record(Fact.FORGOTTEN, packet_id, message.identity)]

    def forgotten(self, packet_id: int) -> list[Effect]:
        """FORGOTTEN is on disk."""
        message = self._ids.pop(packet_id)
        if message.state is _Received.REFUSING:
            return [SendPubrec(packet_id, True)]
        assert message.state is _Received.FORGETTING, "XO2: an identifier is forgotten once"
        return [SendPubcomp(packet_id, True)]


class _SendingState(Enum):
    WRITING = auto()
    SENT = auto()
    RELEASING = auto()
    RELEASED = auto()


class _Delivery:
    """A message under way. is_seen: the queue has delivered it since the client connected.

    is_refused: the client does not want it. ack_epoch: when it was last acknowledged, in barriers.
    """

    __slots__ = (
        "ack_epoch", "identity", "is_refused", "is_repeatable", "is_seen", "packet_id", "state",
    )  # fmt: skip

    def __init__(
        self,
        packet_id: int,
        identity: bytes,
        state: _SendingState,
        is_repeatable: bool,
        is_seen: bool,
    ) -> None:
        self.packet_id = packet_id
        self.identity = identity
        self.state = state
        self.is_repeatable = is_repeatable
        self.is_seen = is_seen
        self.is_refused = False
        self.ack_epoch = 0


class Outbound:
    """The messages that are under way to the client.

    finished_count: completed messages that the queue might deliver again.
    """

    __slots__ = ("_by_id", "_by_identity", "_epoch", "_finished", "_last_id", "_oldest_of")

    def __init__(self) -> None:
        self._by_id: dict[int, _Delivery] = {}
        self._by_identity: dict[bytes, _Delivery] = {}
        self._finished: dict[bytes, _Delivery] = {}
        self._oldest_of: dict[bytes, int] = {}
        self._last_id = FIRST_SENT_ID - 1
        self._epoch = 0

    @classmethod
    def from_records(cls, records: Iterable[Record]) -> "Outbound":
        """The machine after a restart. records: in the order in which they were written."""
        machine = cls()
        for record in records:
            if record.fact is Fact.SENT:
                machine._restore(record, _SendingState.SENT)
            elif record.fact is Fact.RELEASED:
                machine._restore(record, _SendingState.RELEASED)
        return machine

    def _restore(self, record: Record, state: _SendingState) -> None:
        packet_id, identity = record.packet_id, record.identity
        former = self._by_id.pop(packet_id, None)
        if former is not None:
            del self._by_identity[former.identity]
            if former.identity != identity and former.state is _SendingState.RELEASED:
                # Its identifier was used again, so it was completed.
                self._finished[former.identity] = former
        self._finished.pop(identity, None)
        delivery = _Delivery(packet_id, identity, state, record.is_repeatable, False)
        self._by_id[packet_id] = self._by_identity[identity] = delivery
        self._last_id = packet_id

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, identity: object) -> bool:
        """Whether a message is under way."""
        return identity in self._by_identity

    @property
    def released(self) -> list[bytes]:
        """The identities of the messages that wait for PUBCOMP only."""
        return [one.identity for one in self._by_id.values() if one.state is _SendingState.RELEASED]

    @property
    def finished_count(self) -> int:
        """Completed messages that are remembered."""
        return len(self._finished)

    def connected(self) -> list[Effect]:
        """The client has come back: release the messages that it has; the queue sends the rest."""
        return [
            SendPubrel(packet_id)
            for packet_id, delivery in self._by_id.items()
            if delivery.state is _SendingState.RELEASED
        ]

    def delivered(
        self, identity: bytes, is_repeatable: bool = False, oldest_number: int = 0
    ) -> list[Effect]:
        """The queue delivers a message, perhaps again. oldest_number: the lowest number that its
        source may still use.
        """
        if is_repeatable:
            source = identity[:SOURCE_BYTES]
            self._oldest_of[source] = max(self._oldest_of.get(source, 0), oldest_number)
        delivery = self._by_identity.get(identity)
        if delivery is None:
            finished = self._finished.get(identity)
            if finished is None:
                return self._send(identity, is_repeatable)
            finished.ack_epoch = self._epoch
            return [Acknowledge(identity)]
        delivery.is_seen = True
        if delivery.state is _SendingState.SENT:
            return [SendPublish(delivery.packet_id, identity, True)]
        if delivery.state is _SendingState.RELEASED:
            # The client has it; the acknowledgement was lost.
            delivery.ack_epoch = self._epoch
            return [Acknowledge(identity)]
        return []

    def _send(self, identity: bytes, is_repeatable: bool) -> list[Effect]:
        packet_id = self._free_id()
        delivery = _Delivery(packet_id, identity, _SendingState.WRITING, is_repeatable, True)
        self._by_id[packet_id] = self._by_identity[identity] = delivery
        return [Record(Fact.SENT, packet_id, identity, is_repeatable)]

    def _free_id(self) -> int:
        assert len(self._by_id) <= PACKET_ID_MAX - FIRST_SENT_ID, "the receive maximum is lower"
        while True:
            self._last_id += 1
            if self._last_id > PACKET_ID_MAX:
                self._last_id = FIRST_SENT_ID
            if self._last_id not in self._by_id:
                return self._last_id

    def received(self, packet_id: int, is_refused: bool = False) -> list[Effect]:
        """PUBREC has come, perhaps again. is_refused: it has the code of an error."""
        delivery = self._by_id.get(packet_id)
        if delivery is None:
            return [] if is_refused else [SendPubrel(packet_id, False)]
        if delivery.state is _SendingState.SENT:
            return self._release(delivery, is_refused)
        return [SendPubrel(packet_id)] if delivery.state is _SendingState.RELEASED else []

    def _release(self, delivery: _Delivery, is_refused: bool) -> list[Effect]:
        delivery.state, delivery.is_refused = _SendingState.RELEASING, is_refused
        return [
            Record(
                Fact.RELEASED, delivery.packet_id, delivery.identity, delivery.is_repeatable
            )
        ]  # fmt: skip

    def synced(self, packet_id: int) -> list[Effect]:
        """SENT or RELEASED of a packet identifier is on disk."""
        delivery = self._by_id[packet_id]
        if delivery.state is _SendingState.WRITING:
            delivery.state = _SendingState.SENT
            return [SendPublish(packet_id, delivery.identity, False)]
        assert delivery.state is _SendingState.RELEASING, "XO3: nothing else waits for a record"
        delivery.state = _SendingState.RELEASED
        delivery.ack_epoch = self._epoch
        acknowledge = Acknowledge(delivery.identity)
        if delivery.is_refused:
            return [acknowledge, *self.completed(packet_id)]
        return [SendPubrel(packet_id), acknowledge]

    def completed(self, packet_id: int) -> list[Effect]:
        """PUBCOMP has come, perhaps again."""
        delivery = self._by_id.get(packet_id)
        if delivery is None or delivery.state is not _SendingState.RELEASED:
            return []
        del self._by_id[packet_id]
        identity = delivery.identity
        del self._by_identity[identity]
        self._finished[identity] = delivery
        effects: list[Effect] = [Completed(identity)]
        if len(self._finished) > FINISHED_MAX:
            oldest = next(iter(self._finished))
            del self._finished[oldest]
            effects.append(Forget(oldest))
        return effects

    # Barriers: messages that the caller publishes to the queue

    @property
    def wants_barrier(self) -> bool:
        """Whether a barrier would show that messages are gone or that records are not needed."""
        return any(not self._may_come_again(one) for one in self._finished.values()) or any(
            not one.is_seen and not self._may_come_again(one) for one in self._by_id.values()
        )

    def barrier_published(self) -> int:
        """A barrier is published to the queue; returns its number, for `barrier_passed`."""
        self._epoch += 1
        return self._epoch

    def barrier_passed(self, barrier: int) -> list[Effect]:
        """A barrier is safe, and the queue has delivered it, after everything before it.

        A message that the queue has not delivered by now is gone: it has expired, was purged, or
        was lost in a torn batch. The client may have it, so its packet identifier is free only
        after PUBREL and PUBCOMP.
        """
        effects: list[Effect] = []
        for delivery in tuple(self._by_id.values()):
            is_gone = delivery.state is _SendingState.SENT and not delivery.is_seen
            if is_gone and not self._may_come_again(delivery):
                effects += self._release(delivery, False)
        for identity, delivery in tuple(self._finished.items()):
            # XO4: an acknowledgement after the barrier may be lost.
            if delivery.ack_epoch < barrier and not self._may_come_again(delivery):
                del self._finished[identity]
                effects.append(Forget(identity))
        return effects

    def _may_come_again(self, delivery: _Delivery) -> bool:
        """XO5."""
        if not delivery.is_repeatable:
            return False
        oldest = self._oldest_of.get(delivery.identity[:SOURCE_BYTES], 0)
        return number_of(delivery.identity) >= oldest
