"""The identifiers that an exchange of the type x-message-deduplication has seen.

Promises:

- The identifier of a message that was confirmed is known on all nodes that are linked, and if the
  exchange keeps them on disk, it is on the disk of each.
- A message that no queue has safely may be repeated: one that a queue has refused, or that was lost
  with its node. So this node knows an identifier as soon as the message passes
  (passing_messages.py), but it is written and told to the other nodes only when the queues have
  the message. The confirm comes after that. Publishers without confirms do not repeat what is
  refused: their identifiers are kept at once.

Not promised: that no duplicate passes another node if this one dies after the queues have the
message, and before it has told the others; nor that two nodes which get the same message at the
same time do not both pass it. There is no agreement before a message passes, since each would cost
its publisher the time to a majority.

Mechanism: `KnownIdentifiers` in memory, and a backing queue with an entry for each, in the same
order. An entry is a message with the key as its body; its time of expiry is until when the key is
known. When keys are forgotten, the entries at the head whose keys are no longer known are dropped.
So a restart reads the queue from its head to its end (`restoring`).

Invariants:

SI1  Each known identifier has an entry in the backing queue, unless it is in memory only.
SI3  A message in `_passing` has passed, and was neither kept nor given up.
"""

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

from leveret.broker.amqp.content_header import ContentHeader, header_with
from leveret.broker.amqp.field_table import encode_short_string
from leveret.broker.amqp.properties import PERSISTENT
from leveret.broker.queues.contract.publication import Publication
from leveret.broker.queues.contract.status import DeduplicationStatus
from leveret.broker.queues.deduplication.identifiers import (
    FOREVER,
    KnownIdentifiers,
    key_of,
    ttl_ms_of,
)
from leveret.broker.queues.delivery.reading import read_all
from leveret.broker.runtime.clock import Clock
from leveret.broker.runtime.long_work import Step
from leveret.broker.runtime.names import EXCHANGE, resource
from leveret.broker.runtime.pending import Answer
from leveret.broker.vhost.passing_messages import PassingMessage, SeenKey
from leveret.broker.vhost.safe_waiter import SafeWaiter
from leveret.storage.contract.backing_queue import BackingQueue, Unreadable
from leveret.storage.messages.message import Address, Entry, Message
from leveret.storage.messages.message_run import run_of

READ_BYTES: Final = 256 * 1024
READ_WORK: Final = 8
"""The work of restoring one identifier, in the units of broker/runtime/turns.py."""
DROPPED_AT_ONCE: Final = 4
"""How many entries may be dropped whenever one is added: more than are added."""
_ADDRESS: Final = Address("", "", encode_short_string("") * 2)
_HEADER: Final = header_with(delivery_mode=PERSISTENT)

logger = logging.getLogger("leveret.exchange")


class ExchangePlace(NamedTuple):
    """An exchange."""

    vhost: str
    exchange: str


class SeenElsewhere(Protocol):
    """The other nodes of a cluster (cluster/deduplication)."""

    def declared(self, place: ExchangePlace) -> None:
        """An exchange is declared: ask them what they have seen at it."""

    def tell(self, place: ExchangePlace, seen: SeenKey) -> Answer[None] | None:
        """Tell them of an identifier. The answer: they have it; None if there are none."""


class SeenIdentifiers:
    """The identifiers that one exchange has seen.

    known: with times of the wall clock. duplicates: how many messages were refused on this node.
    """

    __slots__ = (
        "_backing", "_clock", "_offset_ms", "_others", "_passing", "_place", "duplicates",
        "known", "restored",
    )  # fmt: skip

    def __init__(
        self,
        place: ExchangePlace,
        known: KnownIdentifiers,
        clock: Clock,
        others: "SeenPlaces",
        backing: BackingQueue | None = None,
        wall_offset_ms: int | None = None,
    ) -> None:
        """backing: for those on disk. wall_offset_ms: that of the store, which keeps times so."""
        self._place = place
        self._clock = clock
        self._others = others
        self._backing = backing
        if wall_offset_ms is None:
            wall_offset_ms = int(clock.wall_time_s() * 1000) - clock.now_ms()
        self._offset_ms = wall_offset_ms
        self.known = known
        self.duplicates = 0
        self._passing: dict[bytes, PassingMessage] = {}
        self.restored: Answer[None] = Answer()
        if backing is None:
            self.restored.give(None)

    def _now_ms(self) -> int:
        return self._clock.now_ms() + self._offset_ms

    def has_seen(self, header: ContentHeader) -> bool:
        """Whether a message is a duplicate."""
        key = key_of(header)
        return bool(key) and (key in self._passing or self.known.has(key, self._now_ms()))

    def passes(self, header: ContentHeader, message: PassingMessage | None) -> None:
        """A message passes the exchange, before a queue gets it. message: None without confirms."""
        key = key_of(header)
        if not key:
            return
        now_ms = self._now_ms()
        ttl_ms = ttl_ms_of(header)
        if ttl_ms is None:
            ttl_ms = self.known.ttl_ms or FOREVER
        seen = SeenKey(key, min(FOREVER, now_ms + ttl_ms))
        if message is None:
            self._keep(seen, now_ms)
            self._others.tell(self._place, seen)
        elif ttl_ms:
            self._passing[key] = message
            message.passes(self, seen)

    def refused(self, publication: Publication, header: ContentHeader) -> None:
        """A message is a duplicate. Its publisher gets the outcome of the first one."""
        self.duplicates += 1
        first = self._passing.get(key_of(header))
        if first is not None and publication.publisher is not None:
            first.repeated(publication.publisher, publication.first)

    def keep(self, seen: SeenKey, message: PassingMessage) -> None:
        """A message that has passed is safe."""
        self._passing.pop(seen.key, None)
        now_ms = self._now_ms()
        is_unsafe = not self.known.has(seen.key, now_ms) and self._keep(seen, now_ms)
        if is_unsafe and self._backing is not None:
            message.hold(0, 1, self)
            self._backing.when_safe(message, 0, self)
        told = self._others.tell(self._place, seen)
        if told is not None:
            message.hold(0, 1, self.known)
            told.when_given(partial(message.confirm, 0, self.known))

    def give_up(self, seen: SeenKey) -> None:
        """A queue has refused a message that has passed."""
        self._passing.pop(seen.key, None)

    def saw_elsewhere(self, seen: Sequence[SeenKey]) -> None:
        """Another node has seen these."""
        now_ms = self._now_ms()
        for one in seen:
            if one.until_ms > now_ms and not self.known.has(one.key, now_ms):
                self._keep(one, now_ms)

    def when_safe(self, answer: Answer[None]) -> None:
        """Give the answer when all identifiers so far are safe."""
        if self._backing is None:
            answer.give(None)
        else:
            self._backing.when_safe(SafeWaiter(answer), 0, self)

    def _keep(self, seen: SeenKey, now_ms: int) -> bool:
        """Keep one that is not known; returns whether it is safe only later."""
        self.known.add_until(seen.key, seen.until_ms, now_ms)
        backing = self._backing
        if backing is None:
            return False
        expires_at_ms = 0 if seen.until_ms == FOREVER else seen.until_ms - self._offset_ms
        message = Message(_ADDRESS, _HEADER, seen.key)
        is_unsafe = backing.publish(run_of([message]), expires_at_ms)
        self._drop_forgotten(backing, now_ms)
        return is_unsafe

    def _drop_forgotten(self, backing: BackingQueue, now_ms: int) -> None:
        """Drop entries at the head that are no longer known."""
        try:
            for _ in range(DROPPED_AT_ONCE):
                head = backing.peek()
                if head is None:
                    return
                is_over = 0 < head.expires_at_ms <= now_ms - self._offset_ms
                if not is_over and self.known.has(head.message.body, now_ms):
                    return
                backing.drop()
        except Unreadable:
            # They are dropped when others are added.
            return

    def listed(self) -> Iterator[SeenKey]:
        """All that are known at this moment, in the order in which they were added."""
        for key, known in self.known.items():
            yield SeenKey(key, known.expires_at_ms)

    def status(self) -> DeduplicationStatus:
        """For management."""
        return self.known.status()

    # A restart, and the end

    def restoring(self) -> Iterator[Step]:
        """The steps of reading the identifiers on disk (broker/runtime/long_work.py)."""
        backing = self._backing
        if backing is None:
            return
        cursor = backing.cursor()
        try:
            yield from read_all(self, cursor, READ_BYTES, READ_WORK)
        except Unreadable as error:
            place = resource(EXCHANGE, self._place.exchange, self._place.vhost)
            logger.error("%s does not know all identifiers that it has seen: %s", place, error)
        finally:
            cursor.close()
        self.restored.give(None)

    @property
    def wants_more(self) -> bool:
        """Whether the identifiers on disk are still to be read (`ReadyReader`)."""
        return self._backing is not None

    def read(self, entries: Sequence[Entry]) -> None:
        """Know identifiers that were on disk."""
        for entry in entries:
            self._restore(entry)

    def _restore(self, entry: Entry) -> None:
        now_ms, expires_at_ms = self._now_ms(), entry.expires_at_ms
        until_ms = expires_at_ms + self._offset_ms if expires_at_ms else FOREVER
        key = entry.message.body
        if until_ms > now_ms and not self.known.has(key, now_ms):
            self.known.add_until(key, until_ms, now_ms)

    def freeing(self) -> Iterator[int]:
        """The exchange is deleted: the steps of freeing its entries."""
        self.known.clear()
        backing, self._backing = self._backing, None
        return iter(()) if backing is None else backing.delete()


class SeenPlaces:
    """The exchanges of a node that see identifiers. others: None outside of a cluster."""

    def __init__(self) -> None:
        self.others: SeenElsewhere | None = None
        self._places: dict[ExchangePlace, SeenIdentifiers] = {}

    def __iter__(self) -> Iterator[tuple[ExchangePlace, SeenIdentifiers]]:
        yield from tuple(self._places.items())

    def find(self, place: ExchangePlace) -> SeenIdentifiers | None:
        """What an exchange has seen; None if there is no such exchange."""
        return self._places.get(place)

    def add(self, place: ExchangePlace, seen: SeenIdentifiers) -> None:
        """An exchange was declared, or restored."""
        self._places[place] = seen
        if self.others is not None:
            self.others.declared(place)

    def remove(self, place: ExchangePlace) -> None:
        """An exchange was deleted."""
        self._places.pop(place, None)

    def tell(self, place: ExchangePlace, seen: SeenKey) -> Answer[None] | None:
        """As `SeenElsewhere.tell`."""
        return None if self.others is None else self.others.tell(place, seen)

    @property
    def unrestored(self) -> list[Answer[None]]:
        """Given when the exchanges have read what is on disk: one for each that has not."""
        answers = [seen.restored for seen in self._places.values()]
        return [answer for answer in answers if not answer.is_given]
