"""Publishers and readers of streams at every node, which go on whatever happens to it.

Beside the publishers of clients.py, each stream has a publisher with a name, which goes from node
to node: it sends what was not confirmed again until it is, and deduplication stores it once.
Readers begin again after some seconds: at the first or the next message, an offset, or a time. One
stores its offset through one node, and looks at it through another. Those streams that are
partitions of a super stream have groups of single active consumers, too.
"""

import asyncio
import contextlib
import struct
import time
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import aiormq

from tests.jepsen.clients import (
    LOOK_SECONDS,
    LOST,
    PUBLISH_SECONDS,
    RETRY_SECONDS,
    UNDER_WAY,
    Clients,
    end_all,
)
from tests.jepsen.group_account import GroupAccount
from tests.jepsen.group_members import Groups
from tests.jepsen.stream_account import NAMED, Reading, StoredOffset, StreamAccount
from tests.jepsen.stream_protocol import LOST as STREAM_LOST
from tests.jepsen.stream_protocol import StreamClient

READING_SECONDS, READING_MESSAGES = 8.0, 1500
NAMED_PATIENCE_SECONDS = 1.5
"""After so long without a confirm, a named publisher sends again through another node."""
PREFETCH = 100
END, READER = "end", "reader"
FIRST = b"\0\1"
SUPER_STREAM, PARTITIONS = "parts", ("all-1", "three-1", "one-1")
"""A super stream of some of the streams. Without retention, so that groups get all messages."""


class StreamClients(Clients):
    """All clients of a cluster with streams. Parameters as those of Clients."""

    def __init__(
        self, urls: dict[str, str], queues: list[str], account: StreamAccount, seed: int,
        depth: Callable[[], int],
    ) -> None:  # fmt: skip
        super().__init__(urls, queues, account, seed, depth)
        self._streams = account
        self._offsets: dict[str, StoredOffset] = {}
        account.groups = {queue: GroupAccount(account, queue) for queue in PARTITIONS}
        self._groups = Groups(SUPER_STREAM, account.groups, self._chance, self._any_host)

    def start(self) -> None:
        """Begin to publish and to read."""
        super().start()
        start = asyncio.get_running_loop().create_task
        for queue in self._queues:
            self._publishers.append(start(self._publish_named(queue)))
            self._publishers.append(start(self._store_offsets(queue)))
            for node in self._urls:
                self._consumers.append(start(self._read_chunks_on(node, queue)))
        self._groups.start()

    async def drain(self) -> None:
        """Read all of all streams on all nodes."""
        for error in await end_all(self._consumers):
            self._streams.wrong.append(f"a reader has failed: {error!r}")
        for queue in self._queues:
            for node in self._urls:
                with self._waiting_for(f"the stored offset of {queue} at {node}"):
                    await self._look_at_offset(node, queue)
            with self._waiting_for(f"the confirm of the last message of {queue}"):
                await self._publish_end(queue)
            readings = [
                Reading(self._streams, queue, f"the last one at {one}") for one in self._urls
            ]
            self._streams.last[queue] = readings
            with self._waiting_for(f"all messages of {queue}"):
                await asyncio.gather(
                    *(
                        self._read_all(node, queue, reading)
                        for node, reading in zip(self._urls, readings, strict=True)
                    )
                )
        last = {queue: max(self._streams.last[queue][0].messages) for queue in PARTITIONS}
        with self._waiting_for("the groups, which have not got the last messages"):
            await self._groups.finish(last)

    @contextlib.contextmanager
    def _waiting_for(self, what: str) -> Iterator[None]:
        """What a run tells whose clients wait for ever: it stays if the block is cancelled."""
        self._under_way[what] = None
        yield
        del self._under_way[what]

    # Publishing

    async def _publish_named(self, queue: str) -> None:
        name = f"{NAMED}>{queue}"
        nodes = [*self._urls]
        waiting: dict[int, None] = {}
        last = 0
        while self._is_publishing or waiting:
            node = self._chance.choice(nodes)
            with contextlib.suppress(*STREAM_LOST):
                async with StreamClient(self._host(node)) as client:
                    known = await client.declare_publisher(queue, name)
                    for number in [one for one in waiting if one <= known]:
                        self._confirmed(name, number, node, queue, waiting)
                    for number in waiting:
                        client.publish(number, self._body(name, number))
                    while self._is_publishing or waiting:
                        if self._is_publishing and len(waiting) < UNDER_WAY:
                            last += 1
                            waiting[last] = None
                            self._account.published.add(f"{name}#{last}")
                            self._under_way[f"{name}#{last}"] = None
                            client.publish(last, self._body(name, last))
                            await asyncio.sleep(self._chance.uniform(0, PUBLISH_SECONDS))
                        if len(waiting) >= UNDER_WAY / 2 or not self._is_publishing:
                            for number in await client.confirmed(NAMED_PATIENCE_SECONDS):
                                self._confirmed(name, number, node, queue, waiting)
            await asyncio.sleep(RETRY_SECONDS)

    def _confirmed(
        self, name: str, number: int, node: str, queue: str, waiting: dict[int, None]
    ) -> None:
        if number in waiting:
            del waiting[number]
            self._under_way.pop(f"{name}#{number}", None)
            self._account.confirm(f"{name}#{number}", node, queue, time.monotonic())

    @staticmethod
    def _body(name: str, number: int) -> bytes:
        return f"{name}#{number} ".encode() + b"n" * (number % 100)

    async def _publish_end(self, queue: str) -> None:
        message = f"{END}>{queue}#1"
        self._account.published.add(message)
        while message not in self._account.confirmed:
            with contextlib.suppress(*LOST):
                connection = await aiormq.connect(next(iter(self._urls.values())))
                channel = await connection.channel(publisher_confirms=True)
                await channel.basic_publish(f"{message} ".encode(), routing_key=queue)
                self._account.confirm(message, "", queue, time.monotonic())
                await self._close(connection)

    # Stored offsets

    async def _store_offsets(self, queue: str) -> None:
        offset = self._offsets[queue] = StoredOffset(self._streams, queue)
        number = 1
        while self._is_publishing:
            with contextlib.suppress(*STREAM_LOST):
                await self._store(queue, offset, number)
                number = offset.stored + 1
            await asyncio.sleep(RETRY_SECONDS)

    async def _store(self, queue: str, offset: StoredOffset, number: int) -> None:
        """Store an offset through one node until another one shows it, or for a while."""
        storing, asked = self._chance.sample([*self._urls], 2)
        is_first = number not in offset.doubtful
        offset.doubtful.add(number)
        async with (
            StreamClient(self._host(storing)) as one, StreamClient(self._host(asked)) as other
        ):  # fmt: skip
            offset.through[storing] = number
            one.store_offset(queue, READER, number)
            until_s = time.monotonic() + NAMED_PATIENCE_SECONDS
            found = 0
            while found != number and time.monotonic() < until_s:
                found = await other.stored_offset(queue, READER)
                offset.found(found, asked)
                await asyncio.sleep(PUBLISH_SECONDS)
        if found == number:
            offset.stored = number
            if is_first:
                offset.doubtful.discard(number)

    async def _look_at_offset(self, node: str, queue: str) -> None:
        while True:
            with contextlib.suppress(*STREAM_LOST):
                async with StreamClient(self._host(node)) as client:
                    found = await client.stored_offset(queue, READER)
                    self._offsets[queue].found(found, node)
                    return
            await asyncio.sleep(RETRY_SECONDS)

    # Readers

    async def _consume(self, connection, queue) -> None:
        """Read by AMQP 0-9-1 for a while."""
        reading = Reading(self._streams, queue, "a consumer")
        start = self._chance.choice(["first", "next", "last", self._offset(queue), "5s"])
        if isinstance(start, int):
            reading.next_offset = start
        channel = await connection.channel()
        await channel.basic_qos(prefetch_count=PREFETCH)
        until_s = time.monotonic() + READING_SECONDS

        async def take(delivery) -> None:
            offset = delivery.header.properties.headers["x-stream-offset"]
            reading.take(offset, delivery.body)
            with contextlib.suppress(*LOST):
                await channel.basic_ack(delivery.delivery_tag)

        await channel.basic_consume(queue, take, arguments={"x-stream-offset": start})
        while channel.consumers and not (connection.is_closed or channel.is_closed):
            await asyncio.sleep(LOOK_SECONDS)
            if time.monotonic() > until_s or len(reading.messages) > READING_MESSAGES:
                return

    def _offset(self, queue: str) -> int:
        """An offset that a reader may have read before."""
        known = self._streams.bodies.get(queue)
        return self._chance.randint(0, max(known)) if known else 0

    async def _read_chunks_on(self, node: str, queue: str) -> None:
        """Read by the stream protocol, for a while from each place."""
        while True:
            with contextlib.suppress(*STREAM_LOST):
                async with StreamClient(self._host(node)) as client:
                    await self._read_chunks(client, queue)
            await asyncio.sleep(RETRY_SECONDS)

    async def _read_chunks(self, client: StreamClient, queue: str) -> None:
        reading = Reading(self._streams, queue, "a subscription")
        first = self._offset(queue)
        five_seconds_ago = int(1000 * (time.time() - 5))
        offset = self._chance.choice([
            FIRST, b"\0\2", b"\0\3", struct.pack(">HQ", 4, first),
            struct.pack(">HQ", 5, five_seconds_ago),
        ])  # fmt: skip
        least = first if offset[1] == 4 else 0
        reading.next_offset = least if offset[1] == 4 else None
        await client.subscribe(queue, offset)
        until_s = time.monotonic() + READING_SECONDS
        while time.monotonic() < until_s and len(reading.messages) < READING_MESSAGES:
            at, entries = await client.chunk()
            for number, entry in enumerate(entries, at):
                if number >= least:
                    # The first chunk may begin before the offset.
                    reading.take(number, entry)
            await asyncio.sleep(self._chance.uniform(0, PUBLISH_SECONDS))

    async def _read_all(self, node: str, queue: str, reading: Reading) -> None:
        end = f"{END}>{queue}#1"
        while end not in reading.messages.values():
            reading.messages.clear()
            reading.next_offset = None
            with contextlib.suppress(*STREAM_LOST):
                async with StreamClient(self._host(node)) as client:
                    await client.subscribe(queue, FIRST)
                    while reading.messages.get((reading.next_offset or 0) - 1) != end:
                        at, entries = await client.chunk()
                        for number, entry in enumerate(entries, at):
                            reading.take(number, entry)

    def _any_host(self) -> str:
        return self._host(self._chance.choice([*self._urls]))

    def _host(self, node: str) -> str:
        host = urlsplit(self._urls[node]).hostname
        assert host is not None, "a node has an address"
        return host
