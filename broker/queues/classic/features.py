"""What a classic queue does only if its options ask for it: retries, and refusing duplicates.

A queue that uses neither has no `QueueFeatures`. Its message path tests one attribute for a run of
messages that is delivered or settled, and none for one that is published. With features, the
queue's own methods say when messages come, are fetched, leave and return; retries/ and
deduplication/ decide what this means.

Invariant:

QF1  Duplicates are told of entries before retries put some of them aside: an identifier is known
     as long as its message is in the queue, also while it waits.
"""

from collections.abc import Sequence
from typing import Protocol

from leveret.broker.events.taps import DUPLICATE
from leveret.broker.queues.contract.publication import Publication
from leveret.broker.queues.contract.queue_owner import QueueOwner
from leveret.broker.queues.dead_letters.dead_lettering import DeadLettering
from leveret.broker.queues.deduplication.queue_duplicates import DeduplicatingQueue, QueueDuplicates
from leveret.broker.queues.delivery.counting import QueueCounts
from leveret.broker.queues.retries.configuring import ConfiguredQueue, configured
from leveret.broker.queues.retries.retries import Retries, are_wanted
from leveret.storage.messages.message import Entry, Message


class FeaturedQueue(ConfiguredQueue, DeduplicatingQueue, Protocol):
    """The queue."""

    counts: QueueCounts


class QueueFeatures:
    """The features of one queue.

    retries: None without a delivery limit and delayed retries. duplicates: None if they are taken.
    """

    __slots__ = ("_deaths", "_owner", "_queue", "duplicates", "retries")

    def __init__(self, queue: FeaturedQueue, owner: QueueOwner, deaths: DeadLettering) -> None:
        self._queue = queue
        self._owner = owner
        self._deaths = deaths
        self.retries: Retries | None = None
        self.duplicates: QueueDuplicates | None = None

    def configure(self) -> bool:
        """Use the queue's present options. Returns whether they, or messages, need a feature."""
        options = self._queue.options
        self.retries = configured(self._queue, self._owner, self._deaths, self.retries)
        duplicates = self.duplicates
        if not options.deduplicates:
            self.duplicates = None
            if duplicates is not None:
                duplicates.end()
        elif duplicates is not None:
            duplicates.configure(options)
        else:
            duplicates = QueueDuplicates(self._queue, self._owner.turns, self._owner.clock)
            duplicates.configure(options)
            self.duplicates = duplicates
            duplicates.begin()
            if self.retries is not None:
                duplicates.read(self.retries.held)
        return self.retries is not None or self.duplicates is not None

    def go_on(self) -> None:
        """In the queue's turn: handle the returned messages that were left for it."""
        if self.retries is not None and self.retries.is_behind:
            self.retries.go_on()

    # Messages that come

    def holds(self, publication: Publication) -> bool:
        """Whether a publication has to wait; it is published later."""
        return self.duplicates is not None and self.duplicates.holds(publication)

    def refuses(self, message: Message) -> bool:
        """Whether a message is a duplicate, which is counted and is not to be added."""
        if self.duplicates is None or not self.duplicates.is_duplicate(message):
            return False
        self._queue.counts.duplicates += 1
        if self._owner.tracer is not None:
            self._owner.tracer.dropped(self._queue, message, DUPLICATE)
        return True

    def took(self, message: Message) -> None:
        """The queue takes a message."""
        if self.duplicates is not None:
            self.duplicates.took(message)

    # Messages that are in the queue, and leave

    def prepare(self, fetched: list[Entry], ack_required: bool) -> list[Entry]:
        """The entries that may be delivered of those that were fetched as if acks were required.

        Without acks they are settled.
        """
        self.note_taken(fetched)
        entries = fetched if self.retries is None else self.retries.prepare(fetched)
        if not ack_required:
            self.left_entries(entries)
            self._queue.backing.ack(entries)
        return entries

    def note_taken(self, entries: Sequence[Entry]) -> None:
        """Entries are no longer at their places, perhaps before their identifiers were read."""
        if self.duplicates is not None:
            self.duplicates.delivered(entries)

    def left_entries(self, entries: Sequence[Entry]) -> None:
        """Entries have left the queue."""
        if self.duplicates is not None:
            self.duplicates.left([entry.message for entry in entries])

    def left(self, messages: Sequence[Message]) -> None:
        """Messages have left the queue."""
        if self.duplicates is not None:
            self.duplicates.left(messages)

    def purge(self) -> int:
        """All ready messages are dropped, and so are those that wait. Returns their number."""
        if self.duplicates is not None:
            self.duplicates.known.clear()
        return 0 if self.retries is None else self.retries.purge()

    def close(self) -> None:
        """The queue ends."""
        if self.retries is not None:
            self.retries.close()
        if self.duplicates is not None:
            self.duplicates.close()


def features_of(
    queue: FeaturedQueue,
    owner: QueueOwner,
    deaths: DeadLettering,
    present: QueueFeatures | None,
) -> QueueFeatures | None:
    """The features that a queue's present options ask for; None if they ask for none.

    present: those that it has had so far.
    """
    options = queue.options
    if present is None:
        if not (options.deduplicates or are_wanted(options)):
            return None
        present = QueueFeatures(queue, owner, deaths)
    return present if present.configure() else None
