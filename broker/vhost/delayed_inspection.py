"""Reading the messages that wait at an exchange of the type x-delayed-message, and acting on them.

For operators: a message is released before its time, or cancelled, which drops it. The messages are
read in pieces: those in memory, then the buckets in the order of their times, and at the end what
has moved meanwhile. So while others arrive, move and are released, each message that waits all the
time is read (DM3 of delayed_messages.py); one that moves meanwhile may be read twice, and can be
taken once. A listing of the first messages stops early (`rest_due_ms`).

The messages of a replicated exchange are read by the node that leads their queue, in the order of
their times. Each act is an entry in the log of the queue.
"""

from collections.abc import AsyncGenerator, Sequence, Set
from typing import NamedTuple, Protocol

from leveret.broker.queues.contract.waiting_retries import ChosenRetries, WaitingInGroup
from leveret.broker.queues.delivery.reading import read_on
from leveret.broker.runtime.pending import Answer, given
from leveret.broker.runtime.pending_in_task import given_in_task
from leveret.broker.vhost.delayed_messages import DIGITS, Bucket, DelayedMessages, Loaded
from leveret.broker.vhost.safe_waiter import SafeWaiter
from leveret.storage.messages.message import Entry


class WaitingMessage(NamedTuple):
    """A message that waits. due_ms: in milliseconds since 1970. order: its number in its place."""

    due_ms: int
    order: int
    entry: Entry


class WaitingPiece(Protocol):
    """Messages that were read together. An act answers with the number of those that still
    waited.

    rest_due_ms: no message of the following pieces is due before this time; 0 if that is unknown.
    """

    messages: list[WaitingMessage]
    rest_due_ms: int

    def release(self, chosen: Sequence[WaitingMessage]) -> Answer[int]:
        """Release these messages now, in the order of their times."""

    def cancel(self, chosen: Sequence[WaitingMessage]) -> Answer[int]:
        """Drop these messages."""


class ExchangeInspection(Protocol):
    """The inspection of those messages that wait at one exchange and that this node has."""

    @property
    def count(self) -> int:
        """How many there are."""

    def pieces(self, bytes_max: int) -> AsyncGenerator[WaitingPiece, None]:
        """All messages. Raises Unreadable.

        bytes_max: the limit of what is read from disk at once, as in `Cursor.read`.
        """

    def released(self) -> Answer[None]:
        """Given when so few released messages are left that more may be released."""

    def safe(self) -> Answer[None]:
        """Given when cancelled messages cannot come back after a crash."""


class DelayedPiece:
    """A piece on this node. bucket: where its messages wait; None if they are in memory."""

    def __init__(
        self,
        delayed: DelayedMessages,
        messages: list[WaitingMessage],
        bucket: Bucket | None,
        rest_due_ms: int = 0,
    ) -> None:
        self._delayed = delayed
        self.messages = messages
        self._bucket = bucket
        self.rest_due_ms = rest_due_ms

    def _take(self, chosen: Sequence[WaitingMessage]) -> list[Loaded]:
        """Those that still wait where they were read. The others have moved, or were released."""
        if not chosen:
            return []
        if self._bucket is None:
            return self._delayed.take_loaded({one.order for one in chosen})
        return self._delayed.take(self._bucket, [one.entry for one in chosen])

    def release(self, chosen: Sequence[WaitingMessage]) -> Answer[int]:
        """Release these messages now, in the order of their times."""
        taken = self._take(chosen)
        self._delayed.release_now(taken)
        return given(len(taken))

    def cancel(self, chosen: Sequence[WaitingMessage]) -> Answer[int]:
        """Drop these messages."""
        taken = self._take(chosen)
        self._delayed.cancel(taken)
        return given(len(taken))


class DelayedInspection:
    """The inspection of the messages that wait on this node."""

    def __init__(self, delayed: DelayedMessages) -> None:
        self._delayed = delayed

    @property
    def count(self) -> int:
        """How many there are."""
        return self._delayed.count

    async def pieces(self, bytes_max: int) -> AsyncGenerator[WaitingPiece, None]:
        """All messages that wait. Raises Unreadable."""
        delayed = self._delayed
        moved_count = delayed.moved_count
        filled = delayed.buckets_by_time()
        first = self._loaded(set(), filled[0][1].begins_ms if filled else 0)
        yield first
        positions: dict[int, int] = {}
        for _ in range(DIGITS + 1):
            is_new = False
            for level, bucket in delayed.buckets_by_time():
                cursor = bucket.backing.cursor(positions.get(level, 0))
                try:
                    while entries := await read_on(cursor, bytes_max):
                        is_new = True
                        messages = [WaitingMessage(delayed.due_ms(one), 0, one) for one in entries]
                        positions[level] = cursor.position
                        are_in_place = delayed.moved_count == moved_count
                        rest_due_ms = bucket.begins_ms if are_in_place else 0
                        yield DelayedPiece(delayed, messages, bucket, rest_due_ms)
                finally:
                    cursor.close()
            if not is_new:
                break
        yield self._loaded({one.order for one in first.messages})

    def _loaded(self, known: Set[int], rest_due_ms: int = 0) -> DelayedPiece:
        """The messages in memory, without those whose orders are known."""
        delayed = self._delayed
        messages = [
            WaitingMessage(one.due_ms, one.order, one.entry)
            for one in delayed.loaded()
            if one.order not in known
        ]
        return DelayedPiece(delayed, messages, None, rest_due_ms)

    def released(self) -> Answer[None]:
        """Given when the messages that were released have left for their queues."""
        answer: Answer[None] = Answer()
        self._delayed.when_released(lambda: answer.give(None))
        return answer

    def safe(self) -> Answer[None]:
        """Given when cancelled messages cannot come back after a crash: that is on disk."""
        answer: Answer[None] = Answer()
        self._delayed.when_safe(SafeWaiter(answer))
        return answer


class ReplicatedPiece:
    """A piece of the messages of a replicated exchange. `order` is their position in the queue."""

    def __init__(self, waiting: WaitingInGroup, messages: list[WaitingMessage]) -> None:
        self._waiting = waiting
        self.messages = messages
        self.rest_due_ms = messages[-1].due_ms if messages else 0

    def release(self, chosen: Sequence[WaitingMessage]) -> Answer[int]:
        """Release these messages now, in the order of their times."""
        return self._end(chosen, is_discarded=False)

    def cancel(self, chosen: Sequence[WaitingMessage]) -> Answer[int]:
        """Drop these messages. Answers when a majority of the members has this on disk."""
        return self._end(chosen, is_discarded=True)

    def _end(self, chosen: Sequence[WaitingMessage], *, is_discarded: bool) -> Answer[int]:
        answer: Answer[int] = Answer()
        if chosen:
            positions = [one.order for one in chosen]
            # The messages of a piece are in the order of their times.
            first_ms, last_ms = chosen[0].due_ms, chosen[-1].due_ms
            retries = ChosenRetries(positions, first_ms=first_ms, last_ms=last_ms)
            self._waiting.end(retries, is_discarded, answer)
        else:
            answer.give(0)
        return answer


class ReplicatedInspection:
    """The inspection of the messages of a replicated exchange, if this node leads their queue.

    waiting: None if it does not.
    """

    def __init__(self, waiting: WaitingInGroup | None) -> None:
        self._waiting = waiting

    @property
    def count(self) -> int:
        """How many there are."""
        return 0 if self._waiting is None else self._waiting.count

    async def pieces(self, bytes_max: int) -> AsyncGenerator[WaitingPiece, None]:
        """All messages that wait. Raises the fault of a message that cannot be read."""
        if self._waiting is None:
            return
        for page in self._waiting.pages(bytes_max):
            messages = [
                WaitingMessage(one.due_ms, one.position, Entry(one.message, one.position))
                for one in await given_in_task(page)
            ]
            yield ReplicatedPiece(self._waiting, messages)

    def released(self) -> Answer[None]:
        """At once: released messages wait on disk."""
        return given(None)

    def safe(self) -> Answer[None]:
        """At once: each act was answered when it was on disk."""
        return given(None)
