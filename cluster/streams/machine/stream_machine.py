"""The state of a stream: the last sequence numbers, stored offsets, and commands that are done.

All members apply the same chunks in the same order, so they have the same state. It is small: it
has no messages.

**Promise.** A new leader knows which commands of each client are in the log, the last sequence
number of each of the last `NAMES_MAX` publishers, and as many stored offsets.

Invariants:

STM1  Chunks are applied in the order of their entries, each one once.
STM2  The commands of a client are in the log in the order of their numbers, each one once.
"""

from typing import Final

import msgspec

from leveret.cluster.streams.machine.tracking import (
    JOIN,
    OFFSET,
    SENDER,
    SEQUENCE,
    TrackingRecord,
    decode_records,
    sender_of,
)

NAMES_MAX: Final = 10_000
"""How many publishers, and how many consumers, are remembered; in RabbitMQ 255 publishers."""


class StateError(ValueError):
    """The bytes are not a state of this version."""


class Sender(msgspec.Struct, array_like=True):
    """A client on a node. applied: the number of its last command in the log."""

    node: str
    applied: int


class _State(msgspec.Struct, array_like=True):
    """The whole state, for a snapshot."""

    applied: int
    next_offset: int
    senders: dict[int, Sender]
    sequences: dict[bytes, int]
    offsets: dict[bytes, int]


class StreamMachine:
    """The state of one stream.

    applied: the last entry that was applied. next_offset: the offset after the last committed
    message. senders: by number. sequences: of named publishers. offsets: by the names of consumers.
    """

    def __init__(self) -> None:
        self.applied = 0
        self.next_offset = 0
        self.senders: dict[int, Sender] = {}
        self.sequences: dict[bytes, int] = {}
        self.offsets: dict[bytes, int] = {}

    def apply(self, entry: int, next_offset: int, tracking: bytes) -> None:
        """Apply a chunk. next_offset: the offset after its messages. Raises TrackingError."""
        assert entry > self.applied, "STM1"
        self.applied = entry
        self.next_offset = next_offset
        for record in decode_records(tracking):
            self._apply(record)

    def _apply(self, record: TrackingRecord) -> None:
        kind, name, number = record
        if kind == SENDER:
            sender = self.senders[sender_of(name)]
            assert number > sender.applied, "STM2"
            sender.applied = number
        elif kind == SEQUENCE:
            _remember(self.sequences, name, number)
        elif kind == OFFSET:
            _remember(self.offsets, name, number)
        elif kind == JOIN:
            self._join(number, name.decode())

    def _join(self, sender: int, node: str) -> None:
        """A client has begun. It takes the place of earlier ones of its node."""
        for number, one in list(self.senders.items()):
            if one.node == node:
                del self.senders[number]
        self.senders[sender] = Sender(node, 0)

    def snapshot(self) -> bytes:
        """The state as bytes."""
        return msgspec.msgpack.encode(
            _State(self.applied, self.next_offset, self.senders, self.sequences, self.offsets)
        )


def restore(data: bytes) -> StreamMachine:
    """The machine with a state that `snapshot` has made. Raises StateError."""
    try:
        state = msgspec.msgpack.decode(data, type=_State)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StateError(f"the state of a stream cannot be read: {error}") from error
    machine = StreamMachine()
    machine.applied, machine.next_offset = state.applied, state.next_offset
    machine.senders = state.senders
    machine.sequences, machine.offsets = state.sequences, state.offsets
    return machine


def _remember(numbers: dict[bytes, int], name: bytes, number: int) -> None:
    """Set a number. Beyond the limit, the name that was set first is forgotten."""
    numbers.pop(name, None)
    numbers[name] = number
    if len(numbers) > NAMES_MAX:
        del numbers[next(iter(numbers))]
