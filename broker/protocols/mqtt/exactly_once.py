"""QoS 2: each message of a client is handed over once, and each message for it is sent once. Pure.

Two machines for a session, one for each direction. They know packet identifiers and positions in
queues, and return effects; their caller does these, and reports when their records are on disk. A
restart makes them of the records (`from_records`). docs/design/mqtt-exactly-once.md has the
promises, and the crash that each rule is for.

    client            Inbound                          disk
    PUBLISH 5   ───>  HandOver 5     ─── message and its record, in one batch
                <───  SendPubrec 5   <── on disk
    PUBREL 5    ───>  Record FORGET 5 ──
                <───  SendPubcomp 5  <── on disk

    client            Outbound                         disk
                      Record SENT 5  ──
    PUBLISH 5   <───  SendPublish 5  <── on disk
    PUBREC 5    ───>  Record RELEASED 5 ──
    PUBREL 5    <───  SendPubrel 5, Acknowledge <── on disk
    PUBCOMP 5   ───>  Record COMPLETED 5, when the acknowledgement is on disk, too

Invariants:

XO1  A message is handed over only for a packet identifier that is not known.
XO2  PUBREC is sent when the message and its packet identifier are on disk; PUBCOMP when it is on
     disk that the packet identifier is free.
XO3  PUBLISH is sent when it is on disk which message the packet identifier stands for; PUBREL when
     it is on disk that the client has the message.
XO4  A packet identifier stands for one message until COMPLETED, which is recorded only when the
     queue's acknowledgement of the message is on disk.
"""

from collections.abc import Iterable
from enum import Enum, auto
from typing import Final, NamedTuple

PACKET_ID_MAX: Final = 65_535


class Fact(Enum):
    """What a record says of a packet identifier."""

    RECEIVED = auto()
    FORGET = auto()
    SENT = auto()
    RELEASED = auto()
    COMPLETED = auto()


class Record(NamedTuple):
    """A record to write. position: of the message in its queue, for SENT and RELEASED."""

    fact: Fact
    packet_id: int
    position: int = -1


class HandOver(NamedTuple):
    """Publish the message, and write RECEIVED in the same batch."""

    packet_id: int


class SendPubrec(NamedTuple):
    """Send PUBREC."""

    packet_id: int


class SendPubcomp(NamedTuple):
    """Send PUBCOMP."""

    packet_id: int


class SendPublish(NamedTuple):
    """Send the message at this position. is_repeated: it may have been sent before."""

    packet_id: int
    position: int
    is_repeated: bool


class SendPubrel(NamedTuple):
    """Send PUBREL."""

    packet_id: int


class Acknowledge(NamedTuple):
    """Take a message out of its queue, if it is there, and report that this is on disk.

    The queue must not deliver it after this.
    """

    position: int


Effect = Record | HandOver | SendPubrec | SendPubcomp | SendPublish | SendPubrel | Acknowledge


class _Received(Enum):
    WRITING = auto()
    STORED = auto()
    FORGETTING = auto()


class Inbound:
    """The messages of the client whose packet identifiers it may use again."""

    __slots__ = ("_ids",)

    def __init__(self, received: Iterable[int] = ()) -> None:
        """received: the packet identifiers that are on disk."""
        self._ids = dict.fromkeys(received, _Received.STORED)

    @classmethod
    def from_records(cls, records: Iterable[Record]) -> "Inbound":
        """The machine after a restart. records: in the order in which they were written."""
        received: dict[int, None] = {}
        for record in records:
            if record.fact is Fact.RECEIVED:
                received[record.packet_id] = None
            elif record.fact is Fact.FORGET:
                received.pop(record.packet_id, None)
        return cls(received)

    def published(self, packet_id: int) -> list[Effect]:
        """PUBLISH has come, perhaps again."""
        state = self._ids.get(packet_id)
        if state is None:
            self._ids[packet_id] = _Received.WRITING
            return [HandOver(packet_id)]
        # XO1: it is known. XO2: while it is written, PUBREC follows when it is on disk.
        return [SendPubrec(packet_id)] if state is _Received.STORED else []

    def released(self, packet_id: int) -> list[Effect]:
        """PUBREL has come, perhaps again."""
        state = self._ids.get(packet_id)
        if state is None:
            return [SendPubcomp(packet_id)]
        if state is not _Received.STORED:
            return []
        self._ids[packet_id] = _Received.FORGETTING
        return [Record(Fact.FORGET, packet_id)]

    def synced(self, packet_id: int) -> list[Effect]:
        """What was last written for a packet identifier is on disk."""
        state = self._ids[packet_id]
        if state is _Received.WRITING:
            self._ids[packet_id] = _Received.STORED
            return [SendPubrec(packet_id)]
        assert state is _Received.FORGETTING, "XO2: nothing is written for a stored identifier"
        del self._ids[packet_id]
        return [SendPubcomp(packet_id)]


class _Sent(Enum):
    WRITING = auto()
    SENT = auto()
    RELEASING = auto()
    RELEASED = auto()
    ACKNOWLEDGED = auto()


class _Delivery:
    """A message under way. is_completed: PUBCOMP has come."""

    __slots__ = ("is_completed", "position", "state")

    def __init__(self, position: int, state: _Sent) -> None:
        self.position = position
        self.state = state
        self.is_completed = False


class Outbound:
    """The messages that are under way to the client."""

    __slots__ = ("_by_id", "_by_position", "_last_id")

    def __init__(self) -> None:
        self._by_id: dict[int, _Delivery] = {}
        self._by_position: dict[int, int] = {}
        self._last_id = 0

    @classmethod
    def from_records(cls, records: Iterable[Record]) -> "Outbound":
        """The machine after a restart. records: in the order in which they were written."""
        machine = cls()
        for record in records:
            if record.fact in (Fact.SENT, Fact.RELEASED):
                state = _Sent.SENT if record.fact is Fact.SENT else _Sent.RELEASED
                machine._put(record.packet_id, _Delivery(record.position, state))
                machine._last_id = record.packet_id
            elif record.fact is Fact.COMPLETED:
                machine._remove(record.packet_id)
        return machine

    def _put(self, packet_id: int, delivery: _Delivery) -> None:
        # A crash may have lost COMPLETED of the message before.
        self._remove(packet_id)
        self._remove(self._by_position.get(delivery.position, 0))
        self._by_id[packet_id] = delivery
        self._by_position[delivery.position] = packet_id

    def _remove(self, packet_id: int) -> None:
        delivery = self._by_id.pop(packet_id, None)
        if delivery is not None:
            del self._by_position[delivery.position]

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, position: object) -> bool:
        """Whether a message is under way: it takes no further packet identifier."""
        return position in self._by_position

    def connected(self) -> list[Effect]:
        """The client has come back: what it has is released again; the queue delivers the rest."""
        effects: list[Effect] = []
        for packet_id, delivery in self._by_id.items():
            if delivery.state in (_Sent.RELEASED, _Sent.ACKNOWLEDGED):
                # After a restart the acknowledgement may be on disk already, and is done again.
                effects += (SendPubrel(packet_id), Acknowledge(delivery.position))
        return effects

    def restored(self, next_position: int) -> list[Effect]:
        """The queue is restored, and gives its next message this position.

        SENT of a message that a torn batch has lost stands for nothing: the client was sent
        nothing, and the next message gets its position.
        """
        effects: list[Effect] = []
        for position in [one for one in self._by_position if one >= next_position]:
            packet_id = self._by_position[position]
            self._remove(packet_id)
            effects.append(Record(Fact.COMPLETED, packet_id))
        return effects

    @property
    def positions(self) -> tuple[int, ...]:
        """The messages that are under way. `removed` is called for those that the queue lacks."""
        return tuple(self._by_position)

    def removed(self, position: int) -> list[Effect]:
        """The queue lacks a message: it has expired, or was purged, or a crash has lost it.

        The client may have it, so its packet identifier is free only after PUBREL and PUBCOMP.
        """
        packet_id = self._by_position.get(position)
        return [] if packet_id is None else self.received(packet_id)

    def delivered(self, position: int) -> list[Effect]:
        """The queue delivers a message, perhaps again."""
        packet_id = self._by_position.get(position)
        if packet_id is None:
            packet_id = self._free_id()
            self._put(packet_id, _Delivery(position, _Sent.WRITING))
            return [Record(Fact.SENT, packet_id, position)]
        state = self._by_id[packet_id].state
        if state is _Sent.SENT:
            return [SendPublish(packet_id, position, is_repeated=True)]
        if state in (_Sent.RELEASED, _Sent.ACKNOWLEDGED):
            # The client has it, and a crash came before the acknowledgement was on disk.
            return [Acknowledge(position)]
        return []

    def _free_id(self) -> int:
        assert len(self._by_id) < PACKET_ID_MAX, "the receive maximum is lower"
        while True:
            self._last_id = self._last_id % PACKET_ID_MAX + 1
            if self._last_id not in self._by_id:
                return self._last_id

    def received(self, packet_id: int) -> list[Effect]:
        """PUBREC has come, perhaps again."""
        delivery = self._by_id.get(packet_id)
        if delivery is None:
            return [SendPubrel(packet_id)]
        if delivery.state is _Sent.SENT:
            delivery.state = _Sent.RELEASING
            return [Record(Fact.RELEASED, packet_id, delivery.position)]
        return [] if delivery.state is _Sent.RELEASING else [SendPubrel(packet_id)]

    def synced(self, packet_id: int) -> list[Effect]:
        """SENT or RELEASED of a packet identifier is on disk."""
        delivery = self._by_id[packet_id]
        if delivery.state is _Sent.WRITING:
            delivery.state = _Sent.SENT
            return [SendPublish(packet_id, delivery.position, is_repeated=False)]
        assert delivery.state is _Sent.RELEASING, "XO3: nothing else waits for a record"
        delivery.state = _Sent.RELEASED
        return [SendPubrel(packet_id), Acknowledge(delivery.position)]

    def acknowledged(self, position: int) -> list[Effect]:
        """The queue's acknowledgement of a message is on disk."""
        packet_id = self._by_position.get(position)
        if packet_id is None:
            return []
        delivery = self._by_id[packet_id]
        delivery.state = _Sent.ACKNOWLEDGED
        return self._complete(packet_id, delivery)

    def completed(self, packet_id: int) -> list[Effect]:
        """PUBCOMP has come, perhaps again."""
        delivery = self._by_id.get(packet_id)
        if delivery is None or delivery.state not in (_Sent.RELEASED, _Sent.ACKNOWLEDGED):
            return []
        delivery.is_completed = True
        return self._complete(packet_id, delivery)

    def _complete(self, packet_id: int, delivery: _Delivery) -> list[Effect]:
        if not delivery.is_completed or delivery.state is not _Sent.ACKNOWLEDGED:
            return []
        # XO4: without the acknowledgement a restart would deliver the message as a new one.
        self._remove(packet_id)
        return [Record(Fact.COMPLETED, packet_id)]
