"""A queue's behaviour when its next message cannot be read from disk, or not immediately.

Such a failure (no file handle is free, an input error) says nothing about the message, which stays
in the queue. Nothing is delivered until a read succeeds; it is tried again every RETRY_MS. After
CRASHED_AFTER_MS the queue counts as crashed, in RabbitMQ's terms: its consumers are cancelled,
clients that ask for anything but its deletion get RabbitMQ's 404, publishers with confirms get
nacks, and management shows the state. The queue keeps trying to read; a success ends the crash.

A message that cannot be read immediately is read by a thread of the store; the queue waits for it
in the same way.

Source: `rabbit_misc:absent` and `rabbit_amqqueue:delete_with` of RabbitMQ, for a queue whose
process ended and could not be started again.

Invariants:

FR1  While `is_failing`, the queue reads only the message that is tried again.
FR2  A get that waits is answered once: with a message, or with the 404.
"""

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from leveret.broker.amqp.errors import not_found
from leveret.broker.queues.contract.publication import Publication
from leveret.broker.queues.delivery.dispatch import ConsumerRing
from leveret.broker.runtime.clock import Clock, Timer
from leveret.broker.runtime.pending import Answer
from leveret.storage.contract.backing_queue import BackingQueue, BeingRead, Unreadable

RETRY_MS = 100
CRASHED_AFTER_MS = 10_000
"""Less than the 15 seconds after which an unanswered get fails its channel."""
CRASHED_RETRY_MS = 5_000

logger = logging.getLogger("leveret.queue")


class FailedReads:
    """The failed reads of one queue.

    is_failing: the last read failed, or is not done. has_crashed: reads have failed for
    CRASHED_AFTER_MS. what: the queue, for texts. changed: called when the queue has crashed, and
    when reading works again.
    """

    __slots__ = (
        "_backing", "_changed", "_clock", "_failing_since_ms", "_is_closed", "_ring", "_timer",
        "_waiting", "has_crashed", "is_failing", "what",
    )  # fmt: skip

    def __init__(
        self,
        clock: Clock,
        what: str,
        backing: BackingQueue,
        ring: ConsumerRing,
        changed: Callable[[], object],
    ) -> None:
        self._clock = clock
        self.what = what
        self._backing = backing
        self._ring = ring
        self._changed = changed
        self._failing_since_ms: int | None = None
        self._timer: Timer | None = None
        self._waiting: list[tuple[Answer[Any], Callable[[], object]]] = []
        self.is_failing = self.has_crashed = self._is_closed = False

    def note(self, error: Unreadable) -> None:
        """A read failed, or is not done: try again later."""
        if not self.is_failing:
            self.is_failing = True
            self._try_later(error)

    def wait(self, answer: Answer[Any], ask_again: Callable[[], object]) -> None:
        """Ask again when reading works; refuse the answer if the queue crashes first (FR2)."""
        self._waiting.append((answer, ask_again))

    def refuses(self, answer: Answer[Any]) -> bool:
        """Refuse the answer with RabbitMQ's 404, if the queue has crashed."""
        if self.has_crashed:
            answer.refuse(not_found(f"{self.what} has crashed and failed to restart"))
        return self.has_crashed

    def holds(self, answer: Answer[Any], ask_again: Callable[[], object]) -> bool:
        """Refuse the answer if the queue has crashed; while reads fail, have it asked again later.

        So gets of the next message are answered in the order in which they were made.
        """
        if self.is_failing and not self.has_crashed:
            self.wait(answer, ask_again)
        return self.refuses(answer) or self.is_failing

    def refuses_publication(self, publication: Publication) -> bool:
        """Refuse a publication if the queue has crashed and the publisher wants confirms.

        Other publications (dead letters) are kept: they would not be sent again.
        """
        publisher, first = publication.publisher, publication.first
        if not self.has_crashed or publisher is None:
            return False
        for number in range(first, first + len(publication.messages)):
            publisher.refuse(number)
        return True

    def _try_later(self, error: Unreadable) -> None:
        if isinstance(error, BeingRead):
            error.when_done(self._try_again)
            return
        now_ms = self._clock.now_ms()
        if self._failing_since_ms is None:
            self._failing_since_ms = now_ms
            logger.error("%s: %s; its messages are kept, and reading is retried", self.what, error)
        if not self.has_crashed and now_ms - self._failing_since_ms >= CRASHED_AFTER_MS:
            self._crash(error)
        delay_ms = CRASHED_RETRY_MS if self.has_crashed else RETRY_MS
        self._timer = self._clock.call_later_ms(delay_ms, self._try_again)

    def _try_again(self) -> None:
        self._timer = None
        if self._is_closed:
            return
        try:
            self._backing.peek()
        except Unreadable as error:
            self._try_later(error)
            return
        if self._failing_since_ms is not None:
            self._failing_since_ms = None
            logger.warning("%s: its messages can be read again", self.what)
        self.is_failing = self.has_crashed = False
        # This drops expired messages and those over the limit: no get receives them.
        self._changed()
        if not self.is_failing:
            for answer, ask_again in self._take_waiting():
                if not answer.is_given:
                    ask_again()

    def _crash(self, error: Unreadable) -> None:
        self.has_crashed = True
        logger.critical(
            "%s has crashed: %s, for %d seconds; its messages are kept, and reading is retried "
            "every %d seconds: fix the cause, or delete the queue",
            self.what, error, CRASHED_AFTER_MS // 1000, CRASHED_RETRY_MS // 1000,
        )  # fmt: skip
        for answer, _ in self._take_waiting():
            self.refuses(answer)
        for consumer in tuple(self._ring.consumers):
            self._ring.remove(consumer)
            consumer.queue_deleted()
            consumer.tell_cancelled()
        self._changed()

    def _take_waiting(self) -> list[tuple[Answer[Any], Callable[[], object]]]:
        waiting, self._waiting = self._waiting, []
        return waiting

    def close(self) -> None:
        """The queue ends: answers that wait are refused."""
        self._changed = _do_nothing
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for answer, _ in self._take_waiting():
            answer.refuse(not_found(f"no {self.what}"))


def _do_nothing() -> None:
    """The queue has ended."""


class QueueReader(Protocol):
    """An object that reads messages of a queue. reads: the queue's failed reads."""

    reads: FailedReads


SomeReader = TypeVar("SomeReader", bound=QueueReader)
Arguments = ParamSpec("Arguments")


def reading(
    method: Callable[Concatenate[SomeReader, Arguments], bool | None],
) -> Callable[Concatenate[SomeReader, Arguments], bool]:
    """The method reads messages: it stops at an unreadable message, and waits for it (FR1).

    It returns False only if the method itself did.
    """

    @wraps(method)
    def guarded(
        reader: SomeReader, /, *arguments: Arguments.args, **named: Arguments.kwargs
    ) -> bool:
        if reader.reads.is_failing:
            return True
        try:
            return method(reader, *arguments, **named) is not False
        except Unreadable as error:
            reader.reads.note(error)
            return True

    return guarded
