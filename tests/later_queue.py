"""A kind of queue that answers ten milliseconds later, as a queue on another node would.

It is a classic queue behind a mailbox: whatever is asked of it is done, in order, ten milliseconds
after it was asked, and answers come from there by call-back. Everything that a client does with
such a queue exercises what waits: pending operations, confirms of a named holder, late credit.
"""

from collections import deque

from leveret.broker.amqp.errors import not_found
from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.queues.contract.confirm_holder import ConfirmHolder
from leveret.broker.queues.contract.queue_client import Consumer
from leveret.broker.queues.contract.queue_factory import QueueFactory
from leveret.broker.queues.contract.queue_kind import CLASSIC, CLASSIC_ARGUMENTS, QueueKind
from leveret.broker.runtime.names import QUEUE, resource

DELAY_MS = 10
LATER_QUEUE = QueueKind(CLASSIC, "later_queue", CLASSIC_ARGUMENTS, policy_target="classic_queues")
"""It takes the place of classic queues, so that any program uses it without knowing."""


class LaterOwner:
    """The virtual host, as the queue behind the mailbox sees it."""

    def __init__(self, owner, front):
        self._owner = owner
        self._front = front

    def __getattr__(self, name):
        return getattr(self._owner, name)

    def dead_letter(self, _queue, messages, reason):
        self._owner.dead_letter(self._front, messages, reason)

    def delete_queue(self, _queue, *arguments):
        self._owner.delete_queue(self._front, *arguments)


class LaterConsumer(Consumer):
    """A consumer, as the queue behind the mailbox knows it: without room once it is cancelled."""

    def __init__(self, consumer):
        super().__init__(
            consumer.tag, consumer.no_ack, consumer.is_exclusive, consumer.priority,
            consumer.cancels_on_failover,
        )  # fmt: skip
        self._consumer = consumer
        self.is_cancelled = False

    def figures(self, activity):
        return self._consumer.figures(activity)

    def room(self):
        room = 0 if self.is_cancelled else self._consumer.room()
        # The queue marks this consumer as waiting; the one that it stands for reports room.
        self._consumer.is_waiting = room == 0
        return room

    def deliver(self, entries):
        self._consumer.deliver(entries)

    def queue_deleted(self):
        if not self.is_cancelled:
            self._consumer.queue_deleted()

    def tell_cancelled(self):
        if not self.is_cancelled:
            self._consumer.tell_cancelled()


class LaterPublisher:
    """Publisher of one run to the queue behind the mailbox; passes on what becomes of it."""

    def __init__(self, holder, publisher, first):
        self._holder = holder
        self._publisher = publisher
        self._first = first
        self.is_held = False

    def hold(self, first, count, holder):
        self.is_held = True

    def confirm(self, first, holder):
        self._holder.confirm(self._publisher, self._first)

    def refuse(self, number):
        self._publisher.refuse(number)


class LaterQueue:
    """A queue of the kind that a later release would add."""

    is_exchange = False
    kind = LATER_QUEUE

    def __init__(self, owner, specification):
        name = specification.name
        self.__dict__["_queue"] = ClassicQueue(LaterOwner(owner, self), specification)
        self.__dict__["_clock"] = owner.clock
        self.__dict__["mailbox"] = deque()
        self.__dict__["holder"] = ConfirmHolder(f"the queue behind the mailbox of {name}")
        self.__dict__["_consumers"] = {}
        self.__dict__["_missing"] = not_found(f"no {resource(QUEUE, name, owner.name)}")

    def __repr__(self):
        return f"<LaterQueue {self.name!r}>"

    def __getattr__(self, name):
        return getattr(self._queue, name)

    def __setattr__(self, name, value):
        setattr(self._queue, name, value)

    def fall_silent(self):
        """Stop answering."""
        self.__dict__["_do"] = lambda: None

    def _later(self, action, answer=None):
        self.mailbox.append((action, answer))
        self._clock.call_later_ms(DELAY_MS, self._do)

    def _do(self):
        action, answer = self.mailbox.popleft()
        if not self._queue.is_deleted:
            action()
        elif answer is not None:
            answer.refuse(self._missing)

    def publish(self, publication):
        publisher, first = publication.publisher, publication.first
        if publisher is None:
            self._later(lambda: self._queue.publish(publication))
            return
        self.holder.hold(publisher, first, len(publication.messages))

        def pass_on():
            relay = LaterPublisher(self.holder, publisher, first)
            self._queue.publish(publication.by(relay))
            if not relay.is_held:
                relay.confirm(first, None)

        self._later(pass_on)

    def get(self, ack_required, answer):
        self._later(lambda: self._queue.get(ack_required, answer), answer)

    def ack(self, entries):
        self._later(lambda: self._queue.ack(entries))

    def requeue(self, entries, is_failed=False):
        self._later(lambda: self._queue.requeue(entries, is_failed))

    def discard(self, entries):
        self._later(lambda: self._queue.discard(entries))

    def subscribe(self, consumer, answer):
        behind = self._consumers[consumer] = LaterConsumer(consumer)
        self._later(lambda: self._queue.subscribe(behind, answer), answer)

    def cancel(self, consumer, channel_ended=False, answer=None):
        behind = self._consumers.pop(consumer)
        behind.is_cancelled = True
        self._later(lambda: self._queue.cancel(behind, channel_ended))
        if answer is not None:
            answer.give(None)

    def credit(self, consumer):
        behind = self._consumers[consumer]
        self._later(lambda: self._queue.credit(behind))

    def length(self, answer):
        self._later(lambda: self._queue.length(answer), answer)

    def purge(self, answer):
        self._later(lambda: self._queue.purge(answer), answer)

    def delete(self, if_unused, if_empty, user, answer):
        self._later(lambda: self._queue.delete(if_unused, if_empty, user, answer), answer)

    def delete_now(self):
        consumers = self._queue.delete_now()
        self.holder.die(is_settled=True)
        return consumers


LATER_QUEUES = QueueFactory(LATER_QUEUE, LaterQueue)
"""A node that serves them makes each classic queue a later one."""
