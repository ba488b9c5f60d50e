"""Programs with rstream that outlive nodes: each resumes at the next node where it was.

A producer and a consumer of rstream reconnect to the address that they were given. A program that
is to outlive the loss of this node makes a new one, with the address of another node:

- The publisher has a name and numbers its messages. It sends a batch again, in its order and with
  its numbers, until each message is confirmed. The stream stores none of them twice.
- The consumer stores the offset that it has come to, under a name, and begins after the stored one.
  It gets messages twice that it had after that offset, and none that the stream does not have.
"""

import asyncio
import itertools
from contextlib import suppress

from rstream import (
    Consumer,
    ConsumerOffsetSpecification,
    OffsetNotFound,
    OffsetType,
    Producer,
    RawMessage,
    exceptions,
)
from rstream.recovery import BackOffRecoveryStrategy

from tests.patience import PATIENCE_SECONDS

LOGIN = {"username": "guest", "password": "guest"}
LOST = (OSError, TimeoutError, exceptions.ServerError, exceptions.ClientError)
"""What rstream raises if a node is down, goes down, or knows no leader of the stream."""
PAUSE_SECONDS = 0.1
STORED_EVERY = 50


def connecting(port):
    """The arguments of a producer or consumer that leaves it to its program to connect again."""
    return {"port": port, **LOGIN, "recovery_strategy": BackOffRecoveryStrategy(enable=False)}


class ResumingPublisher:
    """Publishes the messages 1, 2, 3 ... to a stream until it is told to stop.

    confirmed: the number of the last message up to which all are confirmed. resumed: how often it
    has connected again.
    """

    def __init__(self, ports, stream, batch=20):
        self._ports = ports
        self._stream = stream
        self._batch = batch
        self._is_over = False
        self.confirmed = 0
        self.resumed = -1

    def stop(self):
        """Publish no further batch: `run` returns when the last one is confirmed."""
        self._is_over = True

    async def run(self):
        for port in itertools.cycle(self._ports):
            with suppress(*LOST):
                async with Producer("127.0.0.1", **connecting(port)) as producer:
                    self.resumed += 1
                    while not self._is_over:
                        await self._publish(producer)
            if self._is_over:
                return
            await asyncio.sleep(PAUSE_SECONDS)

    async def _publish(self, producer):
        """Publish a batch. Raises one of `LOST` unless all of it is confirmed."""
        numbers = range(self.confirmed + 1, self.confirmed + self._batch + 1)
        waiting = set(numbers)
        outcome = asyncio.get_running_loop().create_future()

        def note(status):
            waiting.discard(status.message_id)
            if outcome.done():
                return
            if not status.is_confirmed:
                outcome.set_exception(ConnectionError(f"{status} in a batch of {self._stream}"))
            elif not waiting:
                outcome.set_result(None)

        await producer.send_batch(
            self._stream, [RawMessage(b"%d" % number, number) for number in numbers],
            publisher_name="till-7", on_publish_confirm=note,
        )  # fmt: skip
        await asyncio.wait_for(outcome, PATIENCE_SECONDS)
        self.confirmed = numbers[-1]


class ResumingConsumer:
    """Reads a stream from its first message on, until it has as many as it is told.

    found: the message at each offset. problems: a sentence for each message that came out of
    order, or was another one at its offset before. resumed: as in `ResumingPublisher`.
    """

    def __init__(self, ports, stream):
        self._ports = ports
        self._stream = stream
        self._count = None
        self._next = 0
        self._is_ended = asyncio.Event()
        self.found = {}
        self.problems = []
        self.resumed = -1

    def stop_after(self, count):
        """Stop when this many messages were read."""
        self._count = count
        self._look_at_end()

    async def run(self):
        for port in itertools.cycle(self._ports):
            with suppress(*LOST):
                async with Consumer(
                    "127.0.0.1", **connecting(port), on_close_handler=self._lose
                ) as consumer:
                    self.resumed += 1
                    await self._read(consumer)
            if self._is_complete:
                return
            await asyncio.sleep(PAUSE_SECONDS)

    @property
    def _is_complete(self):
        return self._count is not None and len(self.found) >= self._count

    async def _read(self, consumer):
        """Read on until the connection is lost, or everything is read."""
        self._is_ended.clear()
        try:
            self._next = await consumer.query_offset(self._stream, "billing") + 1
        except OffsetNotFound:
            self._next = 0
        await consumer.subscribe(
            self._stream, self._take,
            offset_specification=ConsumerOffsetSpecification(OffsetType.OFFSET, self._next),
        )  # fmt: skip
        self._look_at_end()
        await self._is_ended.wait()

    def _lose(self, info):
        self._is_ended.set()

    def _look_at_end(self):
        if self._is_complete:
            self._is_ended.set()

    async def _take(self, message, context):
        # rstream logs what this raises, and drops the rest of the chunk.
        if context.offset != self._next:
            self.problems.append(f"offset {context.offset} came instead of {self._next}")
        self._next = context.offset + 1
        if self.found.setdefault(context.offset, message) != message:
            self.problems.append(f"offset {context.offset} has another message than before")
        if context.offset % STORED_EVERY == 0:
            try:
                await context.consumer.store_offset(self._stream, "billing", context.offset)
            except LOST:
                # Messages come from a replica; offsets go to the address of the consumer.
                self._is_ended.set()
        self._look_at_end()
