"""A message, and its entry in one queue.

A message is created once, however many queues it is routed to; each queue has an `Entry` of its
own. Both are msgspec structs that the garbage collector does not track: hundreds of thousands are
created a second, and they cannot be part of a reference cycle (30 ns to create one, against 80 for
a class with slots; docs/performance.md).
"""

from typing import Final, NamedTuple, Protocol

import msgspec

ENTRY_BYTES: Final = 260
"""About how much memory an entry and its message take, without the body."""


class Header(Protocol):
    """What storage needs of a message's properties.

    raw: as consumers get them. stored: their form on disk.
    """

    raw: bytes
    stored: bytes

    @property
    def priority(self) -> int | None:
        """None if the publisher set none."""

    @property
    def is_persistent(self) -> bool:
        """The message is to survive a restart."""

    def as_persistent(self) -> "Header":
        """The same properties, of a message that is to survive a restart."""


class Address:
    """Where a message was published to. One object serves all messages with the same address.

    encoded: exchange and routing key as short strings, as a delivery carries them.
    """

    __slots__ = ("encoded", "exchange", "routing_key")

    def __init__(self, exchange: str, routing_key: str, encoded: bytes) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.encoded = encoded


NO_CRC = -1
"""In place of the checksum of a body that was not written yet."""


class StoredBody(NamedTuple):
    """Where a large body is in the message store. number: of the file; offset and size in bytes."""

    number: int
    offset: int
    size: int
    crc: int


class Message(msgspec.Struct, gc=False):
    """What was published. All queues that it was routed to share it, so it is not changed.

    stored: set when the first of its queues has its body written to the message store.
    number: its identity on the node that it was published on (broker/message_numbers.py); 0 until
    it is needed.
    """

    address: Address
    header: Header
    body: bytes
    stored: StoredBody | None = None
    number: int = 0


class Entry(msgspec.Struct, gc=False):
    """A message's place in one queue.

    position: grows along the queue; a requeued entry keeps it.
    expires_at_ms: on the broker's clock; 0 if the message does not expire.
    """

    message: Message
    position: int
    redelivered: bool = False
    expires_at_ms: int = 0
