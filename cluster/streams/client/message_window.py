"""Reads the messages of a stream between two offsets, in parts of limited size."""

import asyncio
from typing import Final, NamedTuple, Protocol

from leveret.broker.queues.contract.stream_arguments import ALL_MESSAGES
from leveret.cluster.streams.client.entry_reading import ChunkEntries, StoredMessageReader
from leveret.cluster.streams.client.stream_readers import StreamReaders
from leveret.storage.messages.message import Message

MESSAGES_MAX: Final = 1000
BYTES_MAX: Final = 4 * 1024 * 1024
"""A part ends after the message that reaches one of these."""


class ReadableStream(Protocol):
    """The stream that is read. entry_reader: decodes its messages."""

    readers: StreamReaders
    entry_reader: StoredMessageReader


class WindowMessage(NamedTuple):
    """A message, its offset, and the time of its chunk."""

    offset: int
    time_ms: int
    message: Message


class WindowPart(NamedTuple):
    """A part of the messages. next_offset: where the next part begins.

    Messages that retention has removed, and those of batches that cannot be read, are left out.
    """

    messages: list[WindowMessage]
    next_offset: int


class _Waiting:
    """The reports of the reader: that there are chunks, or that it has failed."""

    def __init__(self) -> None:
        self._told: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def ready(self) -> None:
        """There are chunks to take."""
        if not self._told.done():
            self._told.set_result(None)

    def failed(self, error: Exception) -> None:
        """The stream cannot be read."""
        if not self._told.done():
            self._told.set_exception(error)

    async def wait(self) -> None:
        """Wait for a report of the reader. Raises the error with which it failed."""
        await self._told
        self._told = asyncio.get_running_loop().create_future()


async def read_part(
    stream: ReadableStream, first: int, end: int, seconds: float, messages_max: int = MESSAGES_MAX
) -> WindowPart:
    """Read messages from `first` on, and before `end`, which are all committed.

    Raises TimeoutError if there are none after these seconds, a Fault if the stream is deleted, and
    ValueError if it is damaged.
    """
    waiting = _Waiting()
    reader = stream.readers.open(first, ALL_MESSAGES, waiting)
    messages: list[WindowMessage] = []
    octets = 0
    try:
        while first < end and len(messages) < messages_max and octets < BYTES_MAX:
            chunks = reader.take_stored(1)
            if not chunks:
                async with asyncio.timeout(seconds):
                    await waiting.wait()
                continue
            chunk = ChunkEntries(stream.entry_reader, chunks[0], first)
            while not chunk.is_empty and len(messages) < messages_max and octets < BYTES_MAX:
                for entry in chunk.take(messages_max - len(messages)):
                    if entry.position < end:
                        found = WindowMessage(entry.position, chunk.time_ms, entry.message)
                        messages.append(found)
                        octets += len(entry.message.body)
                first = max(first, chunk.next_offset)
                if first >= end:
                    break
    finally:
        reader.close()
    return WindowPart(messages, min(first, end))
