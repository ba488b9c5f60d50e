"""The classic queue: a queue in this process, which keeps its messages in a backing queue.

It is an actor (broker/runtime/turns.py). Publishing appends and, if a consumer may have room, wakes
the queue. Its turn comes when the publisher's bytes have been read, and delivers all messages that
have gathered. A queue without limits and without expiring messages takes the short path, `publish`
and `_deliver_many`. Other checks are made only when needed: limits when messages are published or
requeued, expiry at the head of the queue (as in RabbitMQ, a message expires only when it gets
there, unless the queue expires messages on time), dead-lettering through the virtual host. Retries
and refusing duplicates are parts of their own (features.py).

Every request is answered immediately; `QueueClient` describes the interface and its promises.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from leveret.broker.amqp.errors import access_refused, precondition_failed
from leveret.broker.amqp.field_table import Table
from leveret.broker.amqp.properties import TTL_MS_MAX
from leveret.broker.declarations.requester import Requester
from leveret.broker.events.taps import PURGE, QUEUE_DELETED
from leveret.broker.queues.classic.features import QueueFeatures, features_of
from leveret.broker.queues.classic.figures import ClassicFigures
from leveret.broker.queues.contract.arguments import QueueOptions
from leveret.broker.queues.contract.demand import Demand
from leveret.broker.queues.contract.placement import Placement
from leveret.broker.queues.contract.priority_levels import priority_levels
from leveret.broker.queues.contract.publication import Publication, first_of
from leveret.broker.queues.contract.queue_client import Consumer, Got, QueueLength, TimedQueue
from leveret.broker.queues.contract.queue_kind import CLASSIC_QUEUE, QueueKind
from leveret.broker.queues.contract.queue_owner import QueueOwner
from leveret.broker.queues.contract.specification import QueueSpecification
from leveret.broker.queues.contract.status import QueueFigures
from leveret.broker.queues.dead_letters.dead_lettering import NO_DEAD_LETTERING, DeadLettering
from leveret.broker.queues.delivery.age import QueueAges
from leveret.broker.queues.delivery.counting import QueueCounts
from leveret.broker.queues.delivery.dispatch import ConsumerRing
from leveret.broker.queues.delivery.expiry import UnusedExpiry
from leveret.broker.queues.delivery.failed_reads import FailedReads, reading
from leveret.broker.queues.delivery.publisher_hold import PublisherHold
from leveret.broker.queues.retries.retries import Retries
from leveret.broker.runtime.long_work import LongWork
from leveret.broker.runtime.names import QUEUE, resource
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.turns import Actor
from leveret.storage.contract.backing_queue import BackingQueue, Unreadable
from leveret.storage.messages.message import Entry, Message
from leveret.storage.messages.message_run import MessageRun

TURN_MESSAGES_MAX: Final = 2000
"""About a millisecond of work, after which other queues have their turn."""
TURN_IN_TIME_MS: Final = 1000
"""A message with a shorter time to live is delivered at once, as in RabbitMQ, not in a turn."""
DELIVERY_BYTES_MAX: Final = 512 * 1024
"""About the most that one consumer is given at once, so that large bodies do not accumulate."""


class ClassicQueue(Actor, TimedQueue):
    """A queue whose messages are kept by this process, in a backing queue.

    storage_id: the number under which a durable queue's messages are kept; 0 if they are not.
    what: its name, for texts.
    is_plain: runs are published unchecked, since there is no limit or time to live.
    features: None unless the options ask for one.
    """

    __slots__ = (
        "_clock", "_deaths", "_expiry", "_owner", "_plain_ages", "_turns", "_unused", "ages",
        "arguments", "auto_delete", "backing", "bindings", "counts", "declared", "demand",
        "durable", "features", "figures", "is_deleted", "is_exclusive", "is_plain", "may_redeliver",
        "name", "operator_policy", "options", "owner_connection", "placement", "policy",
        "publisher_hold", "reads", "ring", "storage_id", "vhost_name", "what",
    )  # fmt: skip

    is_exchange: ClassVar[bool] = False
    is_down: ClassVar[bool] = False
    kind: ClassVar[QueueKind] = CLASSIC_QUEUE

    def __init__(
        self,
        owner: QueueOwner,
        specification: QueueSpecification,
        backing: BackingQueue | None = None,
    ) -> None:
        """backing: its existing messages; None if the owner is to make its backing queue."""
        super().__init__()
        self._owner = owner
        self._turns = owner.turns
        self._clock = owner.clock
        name = specification.name
        self.vhost_name, self.name = owner.name, name
        self.durable, self.auto_delete = specification.durable, specification.auto_delete
        self.arguments: Table = specification.arguments
        self.owner_connection = specification.owner
        self.is_exclusive = specification.is_exclusive
        self.declared: QueueOptions = specification.options
        self.options: QueueOptions = self.declared
        self.policy: Any = None
        self.operator_policy: Any = None
        self.storage_id = specification.storage_id
        self.placement: Placement = specification.placement
        self.bindings: dict[Any, Any] = {}
        self.is_deleted = False
        self.demand: Demand | None = None
        self.ring = ConsumerRing(self.options.single_active_consumer)
        priority_max = self.declared.max_priority
        levels = priority_levels(priority_max) if priority_max else None
        self.backing = owner.make_backing(self, levels) if backing is None else backing
        self.what = resource(QUEUE, name, owner.name)
        self.reads = FailedReads(
            owner.clock, self.what, self.backing, self.ring, self._reading_changed
        )
        self.is_plain = self._can_publish_runs()
        self.may_redeliver = self.backing.ready_count > 0
        self.counts = QueueCounts(self._clock.wall_time_s())
        self.ages = QueueAges(levels, self._turns.now_ms)
        self._plain_ages = None if levels is not None else self.ages.plain
        self.figures: QueueFigures = ClassicFigures(
            self.counts, self.ages, self.backing, self.ring, self.owner_connection, self._clock,
            self.reads,
        )  # fmt: skip
        self.publisher_hold = PublisherHold(self.backing, self.ring, self.counts, owner.turns)
        self._deaths = DeadLettering(self, owner)
        self._expiry = self._deaths.expiry
        self.features: QueueFeatures | None = None
        self._unused = UnusedExpiry(
            self._clock,
            lambda: bool(self.ring.consumers),
            lambda _: owner.delete_unused(self, False),
        )
        self._unused.set_time(self.options.expires_ms)
        self._deaths.watch_head()
        self._configure_features()

    def __repr__(self) -> str:
        return f"classic {self.what}"

    def _can_publish_runs(self) -> bool:
        options = self.options
        is_watched = options.has_limit or options.message_ttl_ms is not None or options.deduplicates
        return not (is_watched or self.reads.has_crashed)

    def apply(self, options: QueueOptions) -> None:
        """Apply options that policies have changed, with immediate effect."""
        self.options = options
        self.is_plain = self._can_publish_runs()
        self.backing.set_lazy(options.is_lazy)
        self._unused.set_time(options.expires_ms)
        self._configure_features()
        self._deaths.enforce_limits()
        self._deaths.drop_expired()

    def _configure_features(self) -> None:
        self.features = features_of(self, self._owner, self._deaths, self.features)
        expires_on_time = self._deaths.configure_expiry()
        if isinstance(self.figures, ClassicFigures):
            self.figures.features = self.features
            self.figures.expires_on_time = expires_on_time

    # Retries

    @property
    def retries(self) -> Retries | None:
        """The retries; None unless there is a delivery limit, or retries are delayed."""
        return None if self.features is None else self.features.retries

    @property
    def waiting_count(self) -> int:
        """The messages that wait for a retry."""
        retries = self.retries
        return 0 if retries is None else len(retries.waiting)

    @property
    def waiting_bytes(self) -> int:
        """The bytes of their bodies."""
        retries = self.retries
        return 0 if retries is None else retries.waiting.bytes

    def return_waiting(self) -> None:
        """Make messages that wait ready, because the queue is to be read as a whole."""
        retries = self.retries
        if retries is not None:
            retries.return_all()

    def suspend_expiry(self) -> None:
        """Keep expired messages until `resume_expiry`. Nothing may be published meanwhile."""
        self._expiry.is_wanted = False

    def resume_expiry(self) -> None:
        """Drop the messages that have expired, and later those that expire."""
        self._expiry.resume(self.backing.has_expiring)
        self._deaths.resume_expiry()

    # Publishing

    def publish(self, publication: Publication) -> None:
        """Take messages."""
        if not self.is_plain and self._refuses_or_holds(publication):
            return
        messages = publication.messages
        self._note_published(messages)
        ttl_ms = publication.ttl_ms
        if self.is_plain and ttl_ms is None:
            if self.backing.publish(publication, 0):
                self._hold(publication)
            if not self.is_awake and self.ring.has_candidates:
                self._turns.wake(self)
            return
        ttl_ms = self.options.lower_ttl_ms(ttl_ms)
        if ttl_ms and not (self.options.has_limit or self.options.deduplicates):
            is_safe = self._publish_expiring(publication, ttl_ms)
        else:
            is_safe = True
            for place, message in enumerate(messages):
                is_safe &= self._publish_individually(publication, place, message, ttl_ms)
        if not is_safe:
            self._hold(publication)

    def _refuses_or_holds(self, publication: Publication) -> bool:
        if self.reads.refuses_publication(publication):
            return True
        return self.features is not None and self.features.holds(publication)

    def publish_each(self, publication: Publication) -> None:
        """Take messages, each with its own time to live."""
        options = self.options
        now_ms = self._clock.now_ms()
        longest_ms = TTL_MS_MAX if options.message_ttl_ms is None else options.message_ttl_ms
        times = publication.expiry_times(now_ms, longest_ms)
        ttl_ms = first_of(times) - now_ms
        if not ttl_ms or options.has_limit or options.deduplicates or self.reads.has_crashed:
            for part in publication.by_time_to_live():
                self.publish(part)
            return
        self._note_published(publication.messages)
        self._deaths.will_expire(publication, now_ms + ttl_ms, times)
        is_safe = not self.backing.publish_each(publication, times)
        self._published_expiring(len(times), ttl_ms)
        if not is_safe:
            self._hold(publication)

    def _note_published(self, messages: list[Message]) -> None:
        self.counts.published += len(messages)
        now_ms = self._turns.now_ms
        ages = self._plain_ages
        if ages is None:
            ages = self.ages.of_message(messages[0], now_ms)
        if ages.marked_ms != now_ms:
            ages.mark(now_ms, self.backing.next_position_of(messages[0]))

    def _hold(self, publication: Publication) -> None:
        """Have messages confirmed when the store has them on disk, if their publisher waits."""
        publisher, first = publication.publisher, publication.first
        if publisher is not None:
            publisher.hold(first, len(publication.messages), self)
            self.backing.when_safe(publisher, first, self)

    def _publish_expiring(self, run: MessageRun, ttl_ms: int) -> bool:
        """Publish a run that expires later, to a queue without limits; whether it is safe now."""
        expires_at_ms = self._clock.now_ms() + ttl_ms
        self._deaths.will_expire(run, expires_at_ms)
        is_safe = not self.backing.publish(run, expires_at_ms)
        self._published_expiring(len(run.messages), ttl_ms)
        return is_safe

    def _published_expiring(self, count: int, ttl_ms: int) -> None:
        """Messages were published, of which the first to expire does so after this time."""
        if ttl_ms < TURN_IN_TIME_MS:
            self.deliver_ready()
        elif not self.is_awake and self.ring.has_candidates:
            self._turns.wake(self)
        if self._plain_ages is None or self.backing.ready_count <= count:
            # Otherwise an earlier message is at the head, and is watched already.
            self._deaths.watch_head()

    def _publish_individually(
        self, publication: Publication, place: int, message: Message, ttl_ms: int | None
    ) -> bool:
        """Publish one message of a publication to a queue that must check each; whether it is safe
        now.
        """
        options, backing, features = self.options, self.backing, self.features
        if features is not None and features.refuses(message):
            # It is safe when the message that the queue has is: on disk, and on all mirrors.
            return not (self.storage_id or publication.sender)
        if options.rejects_when_full and self._would_overflow(message):
            self._deaths.refuse(message)
            if publication.publisher is not None:
                publication.publisher.refuse(publication.first + place)
            return True
        if features is not None:
            features.took(message)
        number = publication.number + place
        run = MessageRun([message], len(message.body), publication.sender, number)
        expires_at_ms = 0
        if ttl_ms is not None:
            expires_at_ms = self._clock.now_ms() + ttl_ms
            self._deaths.will_expire(run, expires_at_ms)
        is_safe = not backing.publish(run, expires_at_ms)
        if ttl_ms == 0:
            self._deliver_at_once_or_expire(expires_at_ms)
        self.deliver_ready()
        self._deaths.enforce_limits()
        self._deaths.watch_head()
        return is_safe

    @reading
    def _deliver_at_once_or_expire(self, now_ms: int) -> None:
        """Publish with a time to live of 0: only a consumer that has room now gets the message."""
        while self.backing.ready_count and self._deliver_many(TURN_MESSAGES_MAX, now_ms):
            pass
        self._deaths.drop_expired()

    def _would_overflow(self, message: Message) -> bool:
        body_bytes = self.backing.ready_bytes + self.waiting_bytes + len(message.body)
        return self.options.is_exceeded(
            self.backing.ready_count + self.waiting_count + 1, body_bytes
        )

    # Delivering

    def take_turn(self) -> None:
        """Give consumers the messages that one turn may deliver."""
        self.deliver_ready()
        self.publisher_hold.look()
        if self._deaths.is_behind:
            self._deaths.go_on()
            self.wake()
        if self.features is not None:
            self.features.go_on()

    def deliver_ready(self) -> None:
        """Deliver until there are no messages, no consumer with room, or no time left."""
        if not self.reads.is_failing:
            # This does what the decorator `reading` does, which cannot be compiled.
            try:
                self._deliver_ready()
            except Unreadable as error:
                self.reads.note(error)
        if self.demand is not None:
            self.demand.look(self.backing.ready_count, self.ring)

    def _deliver_ready(self) -> None:
        budget = TURN_MESSAGES_MAX
        backing = self.backing
        while backing.ready_count:
            if budget <= 0:
                self._turns.wake(self)
                return
            delivered = self._deliver_many(budget)
            if not delivered:
                self._deaths.watch_head()
                return
            budget -= delivered
        if self._expiry.is_wanted and not backing.unacked_count:
            self._expiry.is_wanted = False

    def _deliver_many(self, budget: int, now_ms: int = 0) -> int:
        """Deliver to the next consumer; many at once if it is the only candidate. now_ms: the time
        by which expired messages are dropped instead; if 0, the time now.
        """
        ring = self.ring
        consumer = ring.next()
        if consumer is None:
            return 0
        count = 1
        backing = self.backing
        ready_count = backing.ready_count
        if ready_count > 1 and ring.has_one_candidate:
            affordable = 1 + DELIVERY_BYTES_MAX * ready_count // (backing.ready_bytes + 1)
            count = min(consumer.room(), budget, affordable)
            if count > 1:
                count = backing.fetchable(count)
        expiry = self._expiry
        if expiry.is_wanted:
            now_ms = now_ms or self._clock.now_ms()
            if expiry.first_ms < now_ms:
                count = backing.unexpired(count, now_ms)
            if not count:
                return 1 if self._deaths.drop_expired() and backing.ready_count else 0
        features = self.features
        if features is not None:
            return self._deliver_prepared(features, count, consumer)
        entries = backing.fetch(count, not consumer.no_ack)
        self._hand_over(entries, consumer)
        return len(entries)

    def _deliver_prepared(self, features: QueueFeatures, count: int, consumer: Consumer) -> int:
        """Deliver those of the next messages that may be; how many were fetched."""
        fetched = self.backing.fetch(count, True)
        entries = features.prepare(fetched, not consumer.no_ack)
        if entries:
            self._hand_over(entries, consumer)
        return len(fetched)

    def _hand_over(self, entries: list[Entry], consumer: Consumer) -> None:
        if consumer.no_ack:
            self.counts.delivered_no_ack += len(entries)
        else:
            self.counts.delivered += len(entries)
        self.note_left(entries)
        consumer.deliver(entries)

    def note_left(self, entries: list[Entry]) -> None:
        """Count how long messages were in the queue, and which of them are redelivered."""
        plain = self._plain_ages
        if plain is not None and entries:
            plain.delivered(entries[0].position, len(entries), self._turns.now_ms)
        else:
            self.ages.note_left(entries, self._turns.now_ms)
        if self.may_redeliver:
            self.counts.redelivered += sum(entry.redelivered for entry in entries)

    def note_taken(self, entries: Sequence[Entry]) -> None:
        """Entries were taken out of their places, to be settled or requeued later."""
        if self.features is not None:
            self.features.note_taken(entries)

    def note_dropped(self, messages: Sequence[Message]) -> None:
        """Messages have left the queue in another way than by an ack."""
        if self.features is not None:
            self.features.left(messages)

    def get(self, ack_required: bool, answer: Answer[Got | None]) -> None:
        """Take the first message, as basic.get does; None if there is none."""
        self._unused.touch()
        if self.reads.holds(answer, lambda: self.get(ack_required, answer)):
            return
        self.settle_deliveries()
        if not self._deaths.drop_expired():
            self._deaths.when_done(lambda: self.get(ack_required, answer))
            return
        try:
            entries = self._fetch_one(ack_required)
        except Unreadable as error:
            self.reads.note(error)
            self.reads.wait(answer, lambda: self.get(ack_required, answer))
            return
        entry = entries[0] if entries else None
        self.counts.note_got(entry, ack_required)
        if entry is None:
            answer.give(None)
            return
        self.note_left(entries)
        self._deaths.watch_head()
        answer.give(Got(entry, self.backing.ready_count))

    def _fetch_one(self, ack_required: bool) -> list[Entry]:
        features, backing = self.features, self.backing
        if features is None:
            return backing.fetch(1, ack_required)
        entries: list[Entry] = []
        while not entries and backing.ready_count:
            entries = features.prepare(backing.fetch(1, True), ack_required)
        return entries

    def settle_deliveries(self) -> None:
        """Make the deliveries of the queue's next turn now, before the queue is inspected."""
        if self.is_awake:
            self.deliver_ready()

    # Settling

    def ack(self, entries: Sequence[Entry]) -> None:
        """Remove delivered messages, which are acknowledged."""
        self.counts.acked += len(entries)
        if self.features is not None:
            self.features.left_entries(entries)
        self.backing.ack(entries)

    def discard(self, entries: Sequence[Entry]) -> None:
        """Dead-letter or drop delivered messages, which are rejected."""
        if self.is_deleted:
            return
        self._deaths.reject(entries)

    def requeue(self, entries: Sequence[Entry], is_failed: bool = False) -> None:
        """Put delivered messages back at their positions."""
        if self.is_deleted:
            if self._owner.tracer is not None:
                for entry in entries:
                    self._owner.tracer.dropped(self, entry.message, QUEUE_DELETED)
            return
        retries = self.retries
        if retries is None:
            self.make_ready(entries)
        else:
            retries.take_back(entries, is_failed)

    def make_ready(self, entries: Sequence[Entry]) -> None:
        """Requeue entries, and have them delivered."""
        self.may_redeliver = True
        self.backing.requeue(entries)
        self.note_requeued(entries)
        if not self.is_plain or self._expiry.is_wanted:
            self._deaths.drop_expired()
            self.deliver_ready()
            self._deaths.enforce_limits()
        if self.ring.has_candidates:
            self._turns.wake(self)

    def note_requeued(self, entries: Sequence[Entry]) -> None:
        """Entries are back in the backing queue: they may expire again."""
        self._deaths.requeued(entries)

    # Consumers

    def subscribe(self, consumer: Consumer, answer: Answer[None]) -> None:
        """Add a consumer, which gets messages from the next turn on."""
        if self.reads.refuses(answer):
            return
        if not self.ring.may_add(consumer):
            answer.refuse(access_refused(f"{self.what} in exclusive use"))
            return
        self._add_consumer(consumer, answer)

    def _add_consumer(self, consumer: Consumer, answer: Answer[None]) -> None:
        self.ring.add(consumer)
        answer.give(None)
        self.wake()

    def cancel(
        self, consumer: Consumer, channel_ended: bool = False, answer: Answer[None] | None = None
    ) -> None:
        """Remove a consumer; an auto-delete queue is deleted with its last one."""
        if not self.is_deleted:
            self._remove(consumer, channel_ended)
        if answer is not None:
            answer.give(None)

    def _remove(self, consumer: Consumer, channel_ended: bool) -> None:
        if not channel_ended:
            self.settle_deliveries()
        self.ring.remove(consumer)
        self.publisher_hold.look()
        self._unused.touch()
        self.wake()
        if self.auto_delete and not self.ring.consumers:
            self._owner.delete_unused(self, is_urgent=not channel_ended)

    def credit(self, consumer: Consumer) -> None:
        """A consumer that was skipped has room again."""
        if self.ring.wake(consumer):
            self.wake()

    def watch(self, demand: Demand | None) -> None:
        """Keep this demand up to date from now on, in place of the earlier one, if any."""
        self.demand = demand
        self.wake()

    def _reading_changed(self) -> None:
        """The queue has crashed, or its messages can be read again."""
        self.is_plain = self._can_publish_runs()
        self._deaths.drop_expired()
        self._deaths.enforce_limits()
        self.wake()

    def wake(self) -> None:
        """Messages came back, or consumers have room: deliver in the next turn."""
        if self.backing.ready_count and self.ring.has_candidates:
            self._turns.wake(self)
        elif self.demand is not None:
            self.demand.look(self.backing.ready_count, self.ring)

    def have_turn(self) -> None:
        """Request a turn, which calls `DeadLettering.go_on`."""
        self._turns.wake(self)

    # The queue as a whole

    def length(self, answer: Answer[QueueLength]) -> None:
        """The numbers of messages and consumers. Counts as use of the queue (x-expires)."""
        self._unused.touch()
        self.settle_deliveries()
        if not self.reads.refuses(answer):
            answer.give(QueueLength(self.backing.ready_count, len(self.ring.consumers)))

    def age_ms(self, entry: Entry) -> int:
        """The age of an entry's message: the time since it was published to the queue."""
        now_ms = self._clock.now_ms()
        return self.ages.of_message(entry.message, now_ms).age_ms(entry.position, now_ms)

    def purge(self, answer: Answer[int]) -> None:
        """Drop every ready message; answer with their number."""
        if self.reads.refuses(answer):
            return
        self.settle_deliveries()
        count, freeing = self.backing.purge()
        if self.features is not None:
            count += self.features.purge()
        self._deaths.purged()
        self.publisher_hold.look()
        if self._owner.tracer is not None:
            self._owner.tracer.emptied(self, PURGE, count)
        LongWork(self._turns, f"the purge of {self!r}", freeing).start()
        answer.give(count)

    def delete(
        self, if_unused: bool, if_empty: bool, requester: Requester, answer: Answer[int]
    ) -> None:
        """Delete the queue; answer with the number of its ready messages."""
        self.settle_deliveries()
        is_empty = not (self.backing.ready_count or self.waiting_count)
        if if_empty and not is_empty and not self.reads.has_crashed:
            answer.refuse(precondition_failed(f"{self.what} not empty"))
        elif if_unused and self.ring.consumers:
            answer.refuse(precondition_failed(f"{self.what} in use"))
        else:
            self._owner.delete_queue(self, requester, answer.preceding(self.backing.ready_count))

    def delete_now(self) -> Sequence[Consumer]:
        """The virtual host has deleted the queue: free everything; return its consumers."""
        if self._owner.tracer is not None:
            self._owner.tracer.emptied(self, QUEUE_DELETED, self.backing.ready_count)
        consumers = self.close()
        LongWork(self._turns, f"the deletion of {self!r}", self.backing.delete()).start()
        return consumers

    def close(self) -> Sequence[Consumer]:
        """Release everything but data on disk, because the node stops or the queue is deleted."""
        self.is_deleted = True
        # Breaking these cycles frees the queue immediately, not in a full garbage collection.
        deaths, self._deaths = self._deaths, NO_DEAD_LETTERING
        deaths.close()
        if self.features is not None:
            self.features.close()
            self.features = None
        if isinstance(self.figures, ClassicFigures):
            self.figures.features = None
        self.publisher_hold.release()
        self._unused.close()
        self.reads.close()
        consumers = self.ring.clear()
        for consumer in consumers:
            consumer.queue_deleted()
        return consumers
