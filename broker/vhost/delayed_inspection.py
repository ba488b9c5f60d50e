"""Reading the messages that wait at an exchange of the type x-delayed-message, and acting on them.

For operators: a message is released before its time, or cancelled, which drops it. The messages are
read in pieces, in no order, from the highest level to the lowest, and then those in memory. So
while others arrive, move and are released, each message that waits all the time is read (DM3 of
delayed_messages.py); one that moves meanwhile may be read twice, and can be taken once.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import TypeAlias

from leveret.broker.queues.delivery.reading import read_on
from leveret.broker.runtime.pending import Answer
from leveret.broker.vhost.delayed_messages import BUCKETS, Bucket, DelayedMessages, Loaded

WaitingMessage: TypeAlias = Loaded
"""A message that waits: when it is due, and its entry."""


class WaitingPiece:
    """Messages that were read together. bucket: where they wait; None if they are in memory."""

    def __init__(
        self, delayed: DelayedMessages, messages: list[WaitingMessage], bucket: Bucket | None
    ) -> None:
        self._delayed = delayed
        self.messages = messages
        self._bucket = bucket

    def _take(self, chosen: Sequence[WaitingMessage]) -> list[WaitingMessage]:
        """Those that still wait where they were read. The others have moved, or were released."""
        if not chosen:
            return []
        if self._bucket is None:
            return self._delayed.take_loaded(chosen)
        return self._delayed.take(self._bucket, [one.entry for one in chosen])

    def release(self, chosen: Sequence[WaitingMessage]) -> int:
        """Release these messages now, in the order of their times; how many still waited."""
        taken = self._take(chosen)
        self._delayed.release_now(taken)
        return len(taken)

    def cancel(self, chosen: Sequence[WaitingMessage]) -> int:
        """Drop these messages; how many still waited."""
        taken = self._take(chosen)
        self._delayed.cancel(taken)
        return len(taken)


class DelayedInspection:
    """The inspection of the messages at one exchange."""

    def __init__(self, delayed: DelayedMessages) -> None:
        self.delayed = delayed

    async def pieces(self, bytes_max: int) -> AsyncGenerator[WaitingPiece, None]:
        """All messages that wait. Raises Unreadable.

        bytes_max: the limit of what is read from disk at once, as in `Cursor.read`.
        """
        delayed = self.delayed
        level = BUCKETS
        while found := delayed.bucket_below(level):
            level, bucket = found
            cursor = bucket.backing.cursor()
            try:
                while entries := await read_on(cursor, bytes_max):
                    messages = [
                        WaitingMessage(delayed.due_ms(one), 0, one, bucket) for one in entries
                    ]
                    yield WaitingPiece(delayed, messages, bucket)
            finally:
                cursor.close()
        if loaded := delayed.loaded():
            yield WaitingPiece(delayed, loaded, None)

    def released(self) -> Answer[None]:
        """Given when the messages that were released have left for their queues."""
        answer: Answer[None] = Answer()
        self.delayed.when_released(lambda: answer.give(None))
        return answer

    def safe(self) -> Answer[None]:
        """Given when cancelled messages cannot come back after a crash: that is on disk."""
        answer: Answer[None] = Answer()
        self.delayed.when_safe(SafeWaiter(answer))
        return answer


class SafeWaiter:
    """Waits until something is on disk (`backing_queue.Waiter`)."""

    def __init__(self, answer: Answer[None]) -> None:
        self._answer = answer

    def confirm(self, first: int, holder: object) -> None:
        """It is on disk."""
        self._answer.give(None)
