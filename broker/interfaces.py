"""The small protocols that keep the broker's rooms apart.

A queue delivers to consumers and confirms to publishers without knowing channels; a channel writes
to a connection without knowing sockets. Each protocol here lists all that one side needs of the
other.
"""

from typing import Protocol

from storage.message import Entry

UNLIMITED = 1 << 62
"""Credit that no client can use up: the absence of a limit, without a branch to test for it."""


class QueueHolder(Protocol):
    """The connection that an exclusive queue belongs to."""

    name: str

    def forget_queue(self, name: str) -> None:
        """The queue is gone."""


class Consumer(Protocol):
    """What a queue needs of one who consumes from it.

    owner: the connection it lives on, for exclusive access.
    is_waiting: it had no room when its turn came, and is out of the ring until it has.
    """

    tag: str
    no_ack: bool
    is_exclusive: bool
    priority: int
    is_waiting: bool

    def room(self) -> int:
        """How many messages it may be given now."""

    def deliver(self, entries: list[Entry]) -> None:
        """Send messages to the client. Not more than there is room for."""

    def queue_deleted(self) -> None:
        """There will be no more: tell the client, if it wants to know."""


class Publisher(Protocol):
    """What a queue needs of one who published with confirms, or in a transaction.

    Messages are published in runs. A run counts as confirmed by a queue as soon as `publish`
    returns, unless the queue held it or refused messages of it before.
    """

    def refuse(self, sequence: int) -> None:
        """The queue does not take the message."""

    def hold(self, sequence: int, count: int) -> None:
        """The queue will confirm a run, of so many messages, later."""

    def confirm(self, sequence: int) -> None:
        """The run that begins with this message and was held is safe now."""
