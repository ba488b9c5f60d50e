"""The duplicates that a classic queue refuses, with priorities and mirrors or without.

A message is a duplicate if the queue knows its identifier (identifiers.py): it is not added, and is
confirmed when the message that the queue has is safe. So a publisher that repeats a message after a
failover or a restart learns that the queue has it.

Identifiers of messages are nowhere but in the messages, on disk and on mirrors. A queue that begins
with messages, after a restart, as the new leader, or because of a policy, reads them. Until this is
done, publications wait, except those to a mirrored queue, whose turn decides at once: there, a
duplicate of a message that was not read yet is not recognised. So the last messages of each
priority are read at once, if they are in memory: they are those that publishers repeat after a
failover. A message that is delivered before it is read counts as read.

With a time (`x-cache-ttl`) identifiers are known for longer than their messages are in the queue.
Those are in memory only: a restart or another leader does not know them.
"""

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, Protocol

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.queues.contract.arguments import QueueOptions
from leveret.broker.queues.contract.publication import Publication
from leveret.broker.queues.deduplication.identifiers import SIZE_DEFAULT, KnownIdentifiers, key_of
from leveret.broker.queues.delivery.reading import read_all
from leveret.broker.runtime.clock import Clock
from leveret.broker.runtime.long_work import LongWork, Step
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.turns import Turns
from leveret.storage.contract.backing_queue import BackingQueue, Unreadable
from leveret.storage.messages.message import Entry, Message

READ_BYTES: Final = 128 * 1024
READ_WORK: Final = 8
"""The work of reading the identifier of a message, in the units of broker/runtime/turns.py."""
READ_AGAIN_MS: Final = 1000
READ_AT_ONCE: Final = 2000
"""The messages that are read at once, of each priority: some milliseconds."""

logger = logging.getLogger("leveret.queue")


class DeduplicatingQueue(Protocol):
    """The queue."""

    @property
    def backing(self) -> BackingQueue:
        """Its messages."""

    @property
    def what(self) -> str:
        """Its name, for texts."""

    def publish(self, publication: Publication) -> None:
        """Take messages."""


class QueueDuplicates:
    """The duplicates of one queue."""

    __slots__ = ("_clock", "_is_reading", "_queue", "_turns", "_waiting", "known")

    def __init__(self, queue: DeduplicatingQueue, turns: Turns, clock: Clock) -> None:
        self._queue: DeduplicatingQueue | None = queue
        self._turns = turns
        self._clock = clock
        self._waiting: list[Publication] = []
        self._is_reading = False
        self.known = KnownIdentifiers()

    def configure(self, options: QueueOptions) -> None:
        """Use the limits of these options."""
        self.known.configure(options.cache_size or SIZE_DEFAULT, options.cache_ttl_ms or 0)

    # Publishing

    def holds(self, publication: Publication) -> bool:
        """Whether a publication has to wait; it is published later."""
        if not self._is_reading or publication.sender:
            return False
        if publication.publisher is not None:
            publication.publisher.hold(publication.first, len(publication.messages), self)
        self._waiting.append(publication)
        return True

    def is_duplicate(self, message: Message) -> bool:
        """Whether a message that is published is one."""
        key = _key_of(message)
        return bool(key) and self.known.has(key, self._clock.now_ms())

    def took(self, message: Message) -> None:
        """The queue takes a message, which is not a duplicate."""
        key = _key_of(message)
        if key:
            self.known.add_present(key, self._clock.now_ms())

    # Messages that leave

    def delivered(self, entries: Sequence[Entry]) -> None:
        """Messages are delivered, perhaps before they were read."""
        if self._is_reading:
            self.read(entries)

    def left(self, messages: Sequence[Message]) -> None:
        """Messages have left the queue."""
        now_ms = self._clock.now_ms()
        for message in messages:
            key = _key_of(message)
            if key:
                self.known.left(key, now_ms)

    # Messages that the queue has

    def begin(self) -> None:
        """Read the messages that the queue has."""
        queue = self._queue
        if queue is not None and queue.backing.ready_count:
            self._is_reading = True
            self._read_last(queue.backing)
            name = f"reading the identifiers of {queue.what}"
            LongWork(self._turns, name, self._reading(queue)).start()

    def _read_last(self, backing: BackingQueue) -> None:
        """Know the last messages of each priority that are in memory."""
        for start, end in backing.given_positions():
            position = max(start, end - min(READ_AT_ONCE, self.known.size))
            cursor = backing.cursor(position)
            try:
                while position < end and (entries := cursor.read(READ_BYTES)):
                    self.read(entries)
                    position = backing.position_of(entries[-1]) + 1
            except Unreadable:
                # They are read later, with all others.
                continue
            finally:
                cursor.close()

    def _reading(self, queue: DeduplicatingQueue) -> Iterator[Step]:
        cursor = queue.backing.cursor(self._start(queue.backing))
        reported = ""
        try:
            while self.wants_more:
                try:
                    yield from read_all(self, cursor, READ_BYTES, READ_WORK)
                    break
                except Unreadable as error:
                    trouble = f"{queue.what}: {error}"
                if trouble != reported:
                    logger.error("%s; reading identifiers is retried", trouble)
                    reported = trouble
                again: Answer[None] = Answer()
                self._clock.call_later_ms(READ_AGAIN_MS, partial(again.give, None))
                yield again
        finally:
            cursor.close()
        if self.wants_more:
            self._is_reading = False
            self._publish_waiting(queue)

    @property
    def wants_more(self) -> bool:
        """Whether messages are still to be read (`ReadyReader`)."""
        return self._queue is not None

    def read(self, entries: Sequence[Entry]) -> None:
        """Know the identifiers of messages that the queue has."""
        now_ms = self._clock.now_ms()
        for entry in entries:
            key = _key_of(entry.message)
            if key and not self.known.has(key, now_ms):
                self.known.add_present(key, now_ms)

    def _start(self, backing: BackingQueue) -> int:
        """Where to begin: only the last messages, if not all of their identifiers can be known."""
        given = backing.given_positions()
        if len(given) != 1:
            return 0
        start, end = given[0]
        return max(start, end - self.known.size)

    def _publish_waiting(self, queue: DeduplicatingQueue) -> None:
        waiting, self._waiting = self._waiting, []
        for publication in waiting:
            queue.publish(publication)
            if publication.publisher is not None:
                publication.publisher.confirm(publication.first, self)

    def end(self) -> None:
        """The queue takes duplicates from now on, and the publications that wait."""
        queue, self._queue = self._queue, None
        if self._is_reading and queue is not None:
            self._is_reading = False
            self._publish_waiting(queue)

    def close(self) -> None:
        """The queue ends. Publications that wait are refused, since it has not taken them."""
        self._queue = None
        for publication in self._waiting:
            publisher = publication.publisher
            if publisher is not None:
                for place in range(len(publication.messages)):
                    publisher.refuse(publication.first + place)
                publisher.confirm(publication.first, self)
        self._waiting.clear()


def _key_of(message: Message) -> bytes:
    assert isinstance(message.header, ContentHeader), "messages have content headers"
    return key_of(message.header)
