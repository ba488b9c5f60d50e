"""Reads the ready messages of a queue with a cursor, and waits where a thread has to read them.

The data that a thread has read exist only while its callers are called back (`BeingRead`). So each
read is repeated in that call. A caller that reads again in a later turn would start the same read
again, for ever.
"""

import asyncio
from collections.abc import Iterator
from typing import Protocol

from leveret.broker.runtime.long_work import Step
from leveret.broker.runtime.pending import Answer
from leveret.storage.contract.backing_queue import BeingRead, Cursor, Unreadable
from leveret.storage.messages.message import Entry


class ReadyReader(Protocol):
    """Takes the messages of a queue.

    wants_more: False ends the reading.
    """

    @property
    def wants_more(self) -> bool:
        """Whether the cursor may still be read."""

    def read(self, entries: list[Entry]) -> None:
        """Take the next messages."""


def read_all(reader: ReadyReader, cursor: Cursor, bytes_max: int, work: int) -> Iterator[Step]:
    """The steps (broker/runtime/long_work.py) that read all messages from the cursor's position on.

    bytes_max: of one read, as in `Cursor.read`. work: that of one message. Raises Unreadable if a
    message cannot be read; the cursor is at this message then.
    """
    while reader.wants_more:
        attempt = _Attempt(reader, cursor, bytes_max)
        attempt.read()
        if not attempt.done.is_given:
            yield attempt.done
        if attempt.error is not None:
            raise attempt.error
        if not attempt.entries:
            return
        reader.read(attempt.entries)
        yield work * len(attempt.entries)


class _Attempt:
    """One read. done: given when it has succeeded or failed, or is no longer wanted."""

    def __init__(self, reader: ReadyReader, cursor: Cursor, bytes_max: int) -> None:
        self._reader = reader
        self._cursor = cursor
        self._bytes_max = bytes_max
        self.entries: list[Entry] = []
        self.error: Unreadable | None = None
        self.done: Answer[None] = Answer()

    def read(self) -> None:
        """Read now, or be called back."""
        if self._reader.wants_more:
            try:
                self.entries = self._cursor.read(self._bytes_max)
            except BeingRead as reading:
                reading.when_done(self.read)
                return
            except Unreadable as error:
                self.error = error
        self.done.give(None)


async def read_on(cursor: Cursor, bytes_max: int) -> list[Entry]:
    """The result of `Cursor.read`, which runs in a thread if it has to wait for the disk."""
    future: asyncio.Future[list[Entry]] = asyncio.get_running_loop().create_future()

    def read() -> None:
        if future.done():
            # The caller no longer waits for the answer.
            return
        try:
            future.set_result(cursor.read(bytes_max))
        except BeingRead as error:
            error.when_done(read)
        except Exception as error:
            future.set_exception(error)

    read()
    return await future
