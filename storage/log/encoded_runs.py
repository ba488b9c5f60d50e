"""Messages that wait for the log's next batch, and their RUN records.

Messages of one run have one address, but each may have properties of its own. A record has
consecutive messages with the same properties; messages that a queue no longer needs are found when
the record is encoded.
"""

from functools import partial
from typing import Protocol

from leveret.storage.log.large_records import LARGE_BODIES_BYTES, LargeRecord, LogRecord
from leveret.storage.messages.formats import PERSISTENT, encode_run, run_bytes
from leveret.storage.messages.message import Message


class RecordedQueue(Protocol):
    """The queue as a record needs it. key: its number in the log."""

    key: int

    def are_gone(self, start: int, end: int) -> bool:
        """Whether all messages from position `start` up to, not including, `end` are gone."""


class PendingRun:
    """Messages that wait to be encoded, and their queues, each with the first position.

    expires_wall_ms: when the first one expires. times: when each does, on the broker's clock; None
    if all expire at the same time.
    """

    __slots__ = ("body_bytes", "expires_wall_ms", "messages", "targets", "times")

    def __init__(
        self,
        messages: list[Message],
        body_bytes: int,
        expires_wall_ms: int,
        times: list[int] | None,
    ) -> None:
        self.messages = messages
        self.body_bytes = body_bytes
        self.expires_wall_ms = expires_wall_ms
        self.times = times
        self.targets: list[tuple[RecordedQueue, int]] = []


class EncodedRuns:
    """Records that wait to be written.

    published: for each queue, by its key, the position after its last message in them. messages,
    records: the numbers that a restart would read.
    """

    __slots__ = ("messages", "pieces", "published", "records")

    def __init__(self) -> None:
        self.pieces: list[LogRecord] = []
        self.published: dict[int, int] = {}
        self.messages = self.records = 0

    def add(self, run: PendingRun) -> None:
        """Encode a run for the queues that still have messages of it."""
        messages = run.messages
        count = len(messages)
        targets = []
        for queue, position in run.targets:
            if not queue.are_gone(position, position + count):
                targets.append((queue.key, position))
                self.published[queue.key] = position + count
        if not targets:
            return
        is_large = run.body_bytes >= LARGE_BODIES_BYTES
        start = 0
        while start < count:
            end = _equal_to(messages, start)
            at = [(key, first + start) for key, first in targets] if start else targets
            # Messages with the same properties expire at the same time.
            expires_wall_ms = run.expires_wall_ms
            if run.times is not None:
                expires_wall_ms += run.times[start] - run.times[0]
            self._encode(messages[start:end], at, expires_wall_ms, is_large)
            start = end
        self.messages += count

    def _encode(
        self,
        messages: list[Message],
        targets: list[tuple[int, int]],
        expires_wall_ms: int,
        is_large: bool,
    ) -> None:
        """Append the RUN record of messages with the same properties. is_large: see LargeRecord."""
        self.records += 1
        first = messages[0]
        bodies = [message.body for message in messages]
        address, header, number = first.address.encoded, first.header.stored, first.number
        if not is_large:
            self.pieces.append(
                encode_run(expires_wall_ms, PERSISTENT, targets, address, header, bodies, number)
            )
            self.pieces += bodies
            return
        size = run_bytes(len(targets), len(bodies), len(address) + len(header), number)
        encode = partial(
            encode_run, expires_wall_ms, PERSISTENT, targets, address, header, bodies, number
        )
        self.pieces.append(LargeRecord(size + sum(map(len, bodies)), encode, bodies))


def _equal_to(messages: list[Message], start: int) -> int:
    """The end of the messages that have the same properties as the one at `start`: one record."""
    header, count = messages[start].header, len(messages)
    for end in range(start + 1, count):
        if messages[end].header is not header:
            return end
    return count
