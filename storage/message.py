"""A message, and the entry that stands for it in one queue.

A message is made once, however many queues it is routed to; each of them holds an `Entry` of its
own. Both are msgspec structs that the garbage collector does not track: they are made by the
hundred thousand a second, refer to nothing that refers back to them, and so cannot be part of a
cycle (30 ns to make one, against 80 for a class with slots; docs/performance.md).
"""

from typing import NamedTuple, Protocol

import msgspec


class Header(Protocol):
    """What storage must know of a message's properties."""

    raw: bytes
    priority: int | None

    @property
    def is_persistent(self) -> bool:
        """The publisher asked for the message to survive a restart."""


class Address:
    """Where a message was published to. One object serves all messages with the same address.

    encoded: exchange and routing key as short strings, as a delivery carries them.
    """

    __slots__ = ("encoded", "exchange", "routing_key")

    def __init__(self, exchange: str, routing_key: str, encoded: bytes) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.encoded = encoded


class StoredBody(NamedTuple):
    """Where a large body is in the message store. number: of the file; offset and size in bytes."""

    number: int
    offset: int
    size: int
    crc: int


class Message(msgspec.Struct, gc=False):
    """What was published. Shared by the queues it went to, so nothing of it is ever changed.

    stored: noted when the first of its queues has had its body put into the message store.
    number: the node's own number of it; 0 if it was published where nobody traces.
    """

    address: Address
    header: Header
    body: bytes
    stored: StoredBody | None = None
    number: int = 0


class Entry(msgspec.Struct, gc=False):
    """A message's place in one queue.

    position: grows along the queue; a requeued entry goes back by it.
    expires_at_ms: on the broker's clock; 0 if the message does not expire.
    """

    message: Message
    position: int
    redelivered: bool = False
    expires_at_ms: int = 0
