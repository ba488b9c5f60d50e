"""The two sides of at-least-once dead-lettering: the queue that retains letters, and its worker.

The queue (cluster/quorum/queue_groups/dead_letters.py) knows where its letters are stored. The
worker (worker.py), which belongs to the virtual host, knows exchanges and routes. It takes letters,
publishes them, and settles each when every target queue has confirmed it.
"""

from typing import NamedTuple, Protocol

from leveret.storage.messages.message import Entry, Message


class RetainedDeadLetter(NamedTuple):
    """A message that died, as it was published, and the reason. entry: its place in the source."""

    entry: Entry
    message: Message
    reason: str


class DeadLetterSource(Protocol):
    """The dead letters of one queue, as its worker sees them."""

    @property
    def has_ready(self) -> bool:
        """Whether there are letters that were not taken."""

    def take(self) -> RetainedDeadLetter | None:
        """The next letter; None if there is none, or if it cannot be read now."""

    def settle(self, letter: RetainedDeadLetter) -> None:
        """A letter that was taken is safe at its targets: forget it."""


class DeadLetterWorker(Protocol):
    """Publishes the letters of one source."""

    def wake(self) -> None:
        """There are letters to be taken."""

    def look_again(self) -> None:
        """The dead-letter exchange or routing key may have changed."""

    def forget(self) -> None:
        """The source has dropped all its letters, including those that were taken."""

    def close(self) -> None:
        """The queue ends."""
