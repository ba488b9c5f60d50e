"""A queue: it takes messages, keeps them in a backing queue, and hands them to consumers.

Publishing appends and, if a consumer may have room, wakes the queue; its turn comes after the
publisher's bytes have been read, and delivers in one go what has gathered (broker/actor.py). A
queue that has neither a limit nor anything that expires takes the short way, `publish` and
`_deliver_many`. All else happens only when it is asked for: limits when something is published or
requeued, expiry at the head of the queue (as in RabbitMQ, a message expires only when it gets
there), dead-lettering through the vhost.
"""

import logging
from typing import Any

from broker.actor import Turns
from broker.amqp.field_table import Table
from broker.clock import Clock, Timer
from broker.interfaces import Consumer, Publisher, QueueHolder
from broker.queues.arguments import (
    REJECT_PUBLISH_DLX,
    QueueOptions,
    read_options,
)
from broker.queues.counting import QueueCounts
from broker.queues.dead_letter import EXPIRED, MAXLEN, REJECTED
from broker.queues.dispatch import ConsumerRing
from broker.taps import PURGE, QUEUE_DELETED, Taps
from storage.backing_queue import BackingQueue
from storage.message import Entry, Message

TURN_MESSAGES_MAX = 2000
"""A millisecond's work or so: what one queue may do before others have their turn."""
DELIVERY_BYTES_MAX = 512 * 1024
"""About as much as one consumer is given at once, so that large bodies do not pile up on it."""

logger = logging.getLogger("leveret.queue")


class QueueOwner:
    """What a queue needs of the vhost it is in: subclassed there, so that queues stay below it."""

    turns: Turns
    clock: Clock
    tracer: Taps | None = None
    """Who is told what happens to messages; None while the vhost is not traced."""

    def make_backing(self, queue: "Queue") -> BackingQueue:
        """Where a new queue keeps its messages; what a restart found of it is in it."""
        raise NotImplementedError

    def dead_letter(self, queue: "Queue", message: Message, reason: str) -> None:
        """A message died in a queue that has a dead-letter exchange."""
        raise NotImplementedError

    def note_discarded(self, reason: str) -> None:
        """A message died in a queue that has none."""

    def delete_queue(self, queue: "Queue") -> int:
        """The queue is to go; how many ready messages go with it."""
        raise NotImplementedError


class Queue(QueueCounts):
    """One queue, by whatever name and with whatever arguments it was declared.

    owner_connection: the only connection that may use it, if it is exclusive.
    storage_id: the number under which a durable queue's messages are kept; 0 if they are not.
    declared: the options that its arguments ask for; options: those that its policies make of them.
    """

    __slots__ = (
        "_expires_timer", "_expiry_timer", "_expiry_watched_ms", "_has_expiring", "_last_used_ms",
        "_vhost", "arguments", "auto_delete", "backing", "bindings", "declared", "durable",
        "had_consumer", "is_awake", "is_deleted", "is_exclusive", "is_plain", "name",
        "operator_policy", "options", "owner_connection", "policy", "ring", "storage_id",
    )  # fmt: skip

    is_exchange = False

    def __init__(
        self,
        vhost: QueueOwner,
        name: str,
        durable: bool,
        auto_delete: bool,
        arguments: Table,
        owner_connection: QueueHolder | None = None,
        storage_id: int = 0,
    ) -> None:
        self._vhost = vhost
        self.name = name
        self.durable = durable
        self.auto_delete = auto_delete
        self.arguments = arguments
        self.owner_connection = owner_connection
        self.is_exclusive = owner_connection is not None
        self.declared = read_options(arguments)
        self.options: QueueOptions = self.declared
        self.policy: Any = None
        self.operator_policy: Any = None
        self.storage_id = storage_id
        self.backing: BackingQueue = vhost.make_backing(self)
        self.ring = ConsumerRing(self.options.single_active_consumer)
        self.bindings: dict[Any, Any] = {}
        self.is_awake = False
        self.is_deleted = False
        self.had_consumer = False
        super().__init__(vhost.turns, vhost.clock, self.declared.max_priority)
        self._has_expiring = self.backing.has_expiring
        self._expiry_timer: Timer | None = None
        self._expiry_watched_ms = 0
        self._expires_timer: Timer | None = None
        self.is_plain = self._has_plain_options()
        self._last_used_ms = 0
        self.touch()
        self._watch_head()

    def __repr__(self) -> str:
        return f"<Queue {self.name!r}>"

    # Policies

    def _has_plain_options(self) -> bool:
        return not self.options.has_limit and self.options.message_ttl_ms is None

    def apply(self, options: QueueOptions) -> None:
        """Policies have changed what is asked of the queue: it counts at once."""
        had_expiry = self.options.expires_ms
        self.options = options
        self.is_plain = self._has_plain_options()
        self.backing.set_lazy(options.is_lazy)
        if options.expires_ms != had_expiry:
            if self._expires_timer is not None:
                self._expires_timer.cancel()
                self._expires_timer = None
            self.touch()
        self._enforce_limits()
        self._drop_expired()

    # Publishing

    def publish(
        self, messages: list[Message], body_bytes: int, publisher: Publisher | None, sequence: int
    ) -> None:
        """Take messages that were published one after the other.

        body_bytes: the sum of their bodies' sizes. publisher: who wants to know what becomes of
        them, and `sequence` is the first one's number; None if nobody does.
        """
        count = len(messages)
        self.published_count += count
        ages = self._ages_of(messages[0]) if self.level_ages is not None else self.ages
        now_ms = self._vhost.turns.now_ms
        if ages.marked_ms != now_ms:
            ages.mark(now_ms)
        ages.next_position += count
        if self.is_plain:
            if self.backing.publish(messages, body_bytes, 0) and publisher is not None:
                self._hold(publisher, sequence, count)
            if not self.is_awake and self.ring.has_candidates:
                self._vhost.turns.wake(self)
            return
        is_safe = True
        for number, message in enumerate(messages, sequence):
            is_safe &= self._publish_with_care(message, publisher, number)
        if not is_safe and publisher is not None:
            self._hold(publisher, sequence, count)

    def _hold(self, publisher: Publisher, sequence: int, count: int) -> None:
        """Confirm a run when the store has it on disk."""
        publisher.hold(sequence, count)
        self.backing.when_safe(publisher, sequence)

    def publish_expiring(
        self, message: Message, ttl_ms: int, publisher: Publisher | None, sequence: int
    ) -> None:
        """Take one message that has a time to live of its own."""
        self.published_count += 1
        self._note_published(message)
        is_safe = self._publish_with_care(message, publisher, sequence, ttl_ms)
        if not is_safe and publisher is not None:
            self._hold(publisher, sequence, 1)

    def _publish_with_care(
        self,
        message: Message,
        publisher: Publisher | None,
        sequence: int,
        ttl_ms: int | None = None,
    ) -> bool:
        """Publish to a queue with limits or with messages that expire; whether it is safe now."""
        options = self.options
        if options.rejects_when_full and self._would_overflow(message):
            if self._vhost.tracer is not None:
                self._vhost.tracer.dropped(self, message, MAXLEN)
            if options.overflow == REJECT_PUBLISH_DLX:
                self._dead_letter(message, MAXLEN)
            if publisher is not None:
                publisher.refuse(sequence)
            return True
        if ttl_ms is None or (
            options.message_ttl_ms is not None and options.message_ttl_ms < ttl_ms
        ):
            ttl_ms = options.message_ttl_ms
        expires_at_ms = 0
        if ttl_ms is not None:
            expires_at_ms = self._vhost.clock.now_ms() + ttl_ms
            self._has_expiring = True
        is_safe = not self.backing.publish([message], len(message.body), expires_at_ms)
        if ttl_ms == 0:
            self._deliver_at_once_or_expire()
        else:
            self.deliver_ready()
        self._enforce_limits()
        self._watch_head()
        return is_safe

    def _deliver_at_once_or_expire(self) -> None:
        """A time to live of 0: whoever has room now gets the message, or nobody."""
        while self.backing.ready_count and self._deliver_one():
            pass
        self._drop_expired()

    def _would_overflow(self, message: Message) -> bool:
        options, backing = self.options, self.backing
        if options.max_length is not None and backing.ready_count + 1 > options.max_length:
            return True
        size = backing.ready_bytes + len(message.body)
        return options.max_length_bytes is not None and size > options.max_length_bytes

    def _enforce_limits(self) -> None:
        """Drop from the head until the queue is within its limits (overflow drop-head)."""
        options, backing = self.options, self.backing
        if not options.has_limit or options.rejects_when_full:
            return
        count_max = options.max_length
        bytes_max = options.max_length_bytes
        while backing.ready_count and (
            (count_max is not None and backing.ready_count > count_max)
            or (bytes_max is not None and backing.ready_bytes > bytes_max)
        ):
            message = backing.drop().message
            if self._vhost.tracer is not None:
                self._vhost.tracer.dropped(self, message, MAXLEN)
            self._dead_letter(message, MAXLEN)

    # Delivering

    def wake(self) -> None:
        """There may be something for consumers."""
        if self.backing.ready_count and self.ring.has_candidates:
            self._vhost.turns.wake(self)

    def take_turn(self) -> None:
        """Give consumers what there is, up to a turn's worth."""
        self.deliver_ready()

    def deliver_ready(self) -> None:
        """Deliver until there are no messages, no consumer with room, or no time left."""
        budget = TURN_MESSAGES_MAX
        backing = self.backing
        while backing.ready_count:
            if budget <= 0:
                self._vhost.turns.wake(self)
                return
            delivered = self._deliver_one() if self._has_expiring else self._deliver_many(budget)
            if not delivered:
                self._watch_head()
                return
            budget -= delivered
        if self._has_expiring and not backing.unacked_count:
            self._has_expiring = False

    def _deliver_many(self, budget: int) -> int:
        """Deliver to the next consumer; many at once if it is the only candidate."""
        ring = self.ring
        consumer = ring.next()
        if consumer is None:
            return 0
        count = 1
        if ring.has_one_candidate:
            backing = self.backing
            affordable = 1 + DELIVERY_BYTES_MAX * backing.ready_count // (backing.ready_bytes + 1)
            count = min(consumer.room(), budget, affordable)
        entries = self.backing.fetch(count, not consumer.no_ack)
        self._hand_over(entries, consumer)
        return len(entries)

    def _hand_over(self, entries: list[Entry], consumer: Consumer) -> None:
        if consumer.no_ack:
            self.delivered_no_ack_count += len(entries)
        else:
            self.delivered_count += len(entries)
        self._note_left(entries)
        consumer.deliver(entries)

    def _deliver_one(self) -> int:
        """Deliver one message to the next consumer, unless what is left has expired."""
        consumer = self.ring.next()
        if consumer is None:
            return 0
        head = self.backing.peek()
        if head is not None and self._is_expired_before_delivery(head):
            self._drop_expired()
            return 1 if self.backing.ready_count else 0
        self._hand_over(self.backing.fetch(1, not consumer.no_ack), consumer)
        return 1

    def _is_expired_before_delivery(self, head: Entry) -> bool:
        return 0 < head.expires_at_ms < self._vhost.clock.now_ms()

    def get(self, ack_required: bool) -> Entry | None:
        """Take the first message, as basic.get does; None if there is none."""
        self.touch()
        self.settle_deliveries()
        self._drop_expired()
        entries = self.backing.fetch(1, ack_required)
        if not entries:
            self.got_empty_count += 1
            return None
        if ack_required:
            self.got_count += 1
        else:
            self.got_no_ack_count += 1
        self._note_left(entries)
        self._watch_head()
        return entries[0]

    def settle_deliveries(self) -> None:
        """Give consumers now what their next turn would give them, before somebody looks."""
        if self.is_awake:
            self.deliver_ready()

    # Settling

    def ack(self, entry: Entry) -> None:
        """A delivered message is done with."""
        self.acked_count += 1
        self.backing.ack(entry)

    def reject(self, entry: Entry) -> None:
        """A delivered message is not wanted: it goes to the dead-letter exchange, if any."""
        if self.is_deleted:
            return
        self._dead_letter(entry.message, REJECTED)
        self.backing.ack(entry)

    def requeue(self, entries: list[Entry]) -> None:
        """Delivered messages go back to their places, if there still are any."""
        if self.is_deleted:
            if self._vhost.tracer is not None:
                for entry in entries:
                    self._vhost.tracer.dropped(self, entry.message, QUEUE_DELETED)
            return
        self.may_redeliver = True
        self.backing.requeue(entries)
        if not self.is_plain or self._has_expiring:
            self.deliver_ready()
            self._enforce_limits()
            self._drop_expired()
        if self.ring.has_candidates:
            self._vhost.turns.wake(self)

    def _dead_letter(self, message: Message, reason: str) -> None:
        if self.options.dead_letter_exchange is not None:
            self._vhost.dead_letter(self, message, reason)
        else:
            self._vhost.note_discarded(reason)

    # Consumers

    def add_consumer(self, consumer: Consumer) -> None:
        """A new consumer, which gets messages from the next turn on."""
        self.had_consumer = True
        self.ring.add(consumer)
        if self.backing.ready_count:
            self._vhost.turns.wake(self)

    def remove_consumer(self, consumer: Consumer) -> None:
        """A consumer leaves; an auto-delete queue goes with its last one."""
        self.ring.remove(consumer)
        self.touch()
        if self.auto_delete and not self.ring.consumers:
            self._vhost.delete_queue(self)
        else:
            self.wake()

    def consumer_has_room(self, consumer: Consumer) -> None:
        """A consumer that was full may take messages again."""
        if self.ring.wake(consumer) and self.backing.ready_count:
            self._vhost.turns.wake(self)

    # Expiry

    def _drop_expired(self) -> None:
        """Drop the messages at the head whose time is over."""
        if not self._has_expiring:
            return
        now_ms = self._vhost.clock.now_ms()
        backing = self.backing
        budget = TURN_MESSAGES_MAX
        while (head := backing.peek()) is not None and 0 < head.expires_at_ms <= now_ms and budget:
            backing.drop()
            if self._vhost.tracer is not None:
                self._vhost.tracer.expired(self, head.message)
            self._dead_letter(head.message, EXPIRED)
            budget -= 1
        self._watch_head()

    def _watch_head(self) -> None:
        """Be called back when the message at the head expires."""
        if not self._has_expiring:
            return
        head = self.backing.peek()
        if head is None or not head.expires_at_ms:
            return
        if self._expiry_timer is not None:
            if self._expiry_watched_ms <= head.expires_at_ms:
                return
            self._expiry_timer.cancel()
        self._expiry_watched_ms = head.expires_at_ms
        delay_ms = max(0, head.expires_at_ms - self._vhost.clock.now_ms())
        self._expiry_timer = self._vhost.clock.call_later_ms(delay_ms, self._head_expires)

    def _head_expires(self) -> None:
        self._expiry_timer = None
        if not self.is_deleted:
            self._drop_expired()

    def touch(self) -> None:
        """The queue is being used: its x-expires time starts again."""
        if self.options.expires_ms is None:
            return
        self._last_used_ms = self._vhost.clock.now_ms()
        if self._expires_timer is None:
            self._watch_use(self.options.expires_ms)

    def _watch_use(self, delay_ms: int) -> None:
        self._expires_timer = self._vhost.clock.call_later_ms(delay_ms, self._expire_if_unused)

    def _expire_if_unused(self) -> None:
        self._expires_timer = None
        expires_ms = self.options.expires_ms
        if self.is_deleted or expires_ms is None:
            return
        unused_ms = self._vhost.clock.now_ms() - self._last_used_ms
        if self.ring.consumers:
            self._watch_use(expires_ms)
        elif unused_ms >= expires_ms:
            logger.info("%r was not used for %d ms and is deleted", self, unused_ms)
            self._vhost.delete_queue(self)
        else:
            self._watch_use(expires_ms - unused_ms)

    # Ending

    def purge(self) -> int:
        """Drop every ready message; how many there were."""
        self.settle_deliveries()
        count = self.backing.purge()
        if self._vhost.tracer is not None:
            self._vhost.tracer.emptied(self, PURGE, count)
        return count

    def delete(self) -> int:
        """The queue is deleted: tell its consumers. How many ready messages were lost."""
        count = self.backing.ready_count
        if self._vhost.tracer is not None:
            self._vhost.tracer.emptied(self, QUEUE_DELETED, count)
        self.close()
        self.backing.delete()
        return count

    def close(self) -> None:
        """Let go of timers and consumers; what is on disk stays there."""
        self.is_deleted = True
        for timer in (self._expiry_timer, self._expires_timer):
            if timer is not None:
                timer.cancel()
        consumers, self.ring = self.ring.consumers, ConsumerRing()
        for consumer in consumers:
            consumer.queue_deleted()
