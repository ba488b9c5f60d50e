"""A message, and its entry in one queue.

A message is created once for all queues that it is routed to; each queue has an `Entry` of its
own. Neither is tracked by the garbage collector (leveret/records.py): hundreds of thousands are
made a second, and they cannot be part of a reference cycle.
"""

from typing import Final, NamedTuple, Protocol

from mypy_extensions import i64, mypyc_attr

from leveret.records import use_structs

ENTRY_BYTES: Final = 260
"""The approximate memory of an entry and its message, without the body."""


class Header(Protocol):
    """A message's properties as storage needs them.

    raw: as consumers get them. stored: their form on disk.
    """

    raw: bytes
    stored: bytes

    @property
    def priority(self) -> int | None:
        """The priority; None if the publisher set none."""

    @property
    def is_persistent(self) -> bool:
        """Whether the message is to survive a restart."""

    def as_persistent(self) -> "Header":
        """The same properties, of a message that is to survive a restart."""


class Address:
    """The exchange and routing key of a message. One object serves all messages with the same ones.

    encoded: exchange and routing key as short strings, as a delivery carries them.
    """

    __slots__ = ("encoded", "exchange", "routing_key")

    def __init__(self, exchange: str, routing_key: str, encoded: bytes) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.encoded = encoded


NO_CRC = -1
"""Stands for the checksum of a body that has not been written."""


class StoredBody(NamedTuple):
    """The place of a large body in the store. number: the file's; offset and size in bytes."""

    number: int
    offset: int
    size: int
    crc: int


@mypyc_attr(acyclic=True)
class Message:
    """A published message. All queues that it was routed to share it, so it is not changed.

    stored: set when the first of its queues has its body written to the message store.
    number: its identity on the node that it was published on (broker/runtime/message_numbers.py); 0
    until it is needed.
    """

    __slots__ = ("address", "body", "header", "number", "stored")

    def __init__(
        self,
        address: Address,
        header: Header,
        body: bytes,
        stored: StoredBody | None = None,
        number: int = 0,
    ) -> None:
        self.address = address
        self.header = header
        self.body = body
        self.stored = stored
        self.number = number


@mypyc_attr(acyclic=True)
class Entry:
    """A message's place in one queue.

    position: grows along the queue; a requeued entry keeps it.
    expires_at_ms: on the broker's clock; 0 if the message does not expire.
    """

    __slots__ = ("expires_at_ms", "message", "position", "redelivered")

    def __init__(
        self, message: Message, position: int, redelivered: bool = False, expires_at_ms: int = 0
    ) -> None:
        self.message = message
        self.position = position
        self.redelivered = redelivered
        self.expires_at_ms = expires_at_ms


use_structs(__name__, Message, Entry)


def bytes_of(entries: list[Entry]) -> int:
    """The bytes of the bodies of entries."""
    # For `sum` compiled code calls the interpreter: 800 instructions, as many as the rest of
    # fetching one entry.
    size: i64 = 0
    for entry in entries:
        size += len(entry.message.body)
    return size


def entries_from(messages: list[Message], position: int, expires_at_ms: int) -> list[Entry]:
    """The entries of messages that were never fetched, the first one at this position."""
    # mypyc compiles a zip with a range; for `enumerate` with a start it calls the interpreter.
    end = position + len(messages)
    return [
        Entry(message, place, False, expires_at_ms)
        for message, place in zip(messages, range(position, end))  # noqa: B905 - as many
    ]


def expiring_entries_from(
    messages: list[Message], position: int, expire_at_ms: list[int]
) -> list[Entry]:
    """The same, for messages of which each expires at its own time."""
    end = position + len(messages)
    return [
        Entry(message, place, False, expires_at_ms)
        for message, place, expires_at_ms in zip(  # noqa: B905 - as many
            messages, range(position, end), expire_at_ms
        )
    ]
