"""Publishers and consumers at every node, which go on whatever happens to it.

A publisher has several messages under way. One that is refused, or whose node is lost, is not
published again: it is in the account as published only. A consumer notes a message before it
acknowledges it. Both are slow on purpose, and consumers rest now and then, so that queues have
messages when something happens to their nodes.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Collection, Iterator
from itertools import count

import aiormq

from tests.cluster.hosted_nodes import Cluster
from tests.jepsen.account import Account

LOST = (OSError, RuntimeError, asyncio.TimeoutError, aiormq.exceptions.AMQPError)
RETRY_SECONDS, LOOK_SECONDS = 0.25, 0.05
UNDER_WAY = 10
PUBLISH_SECONDS = 0.06
"""Between two messages of a publisher, on average."""
LARGE_BYTES, LARGE_SHARE = 20_000, 0.02
REST_SHARE, REST_SECONDS = 0.002, 4.0
DRAINED_SECONDS, QUIET_LOOKS = 1.0, 3
"""Figures of queues may be those of the look before."""


@contextlib.contextmanager
def until_lost() -> Iterator[None]:
    """Ends when the connection is lost. To what waits then, aiormq gives a bare Exception."""
    try:
        yield
    except LOST:
        return
    except Exception as error:
        if type(error) is not Exception:
            raise


async def end_all(tasks: Collection[asyncio.Task[None]]) -> list[BaseException]:
    """Cancel tasks until all have ended, and return what they have raised.

    One that is cancelled in the turn in which `asyncio.wait_for` has its result does not notice it.
    """
    running = {*tasks}
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=2 * RETRY_SECONDS)
    raised = [task.exception() for task in tasks if not task.cancelled()]
    return [error for error in raised if error is not None]


class Clients:
    """All clients of a cluster.

    urls: of its nodes, by letter. seed: of bodies and pauses. depth: says how many messages all
    queues have, with those that are delivered and not acknowledged; it may take its time.
    """

    def __init__(
        self, urls: dict[str, str], queues: list[str], account: Account, seed: int,
        depth: Callable[[], int],
    ) -> None:  # fmt: skip
        self._urls = urls
        self._queues = queues
        self._account = account
        self._depth = depth
        self._chance = random.Random(seed)
        self._rests_until: dict[str, float] = {}
        self._under_way: dict[str, None] = {}
        self._is_publishing = True
        self._is_draining = False
        self._publishers: list[asyncio.Task[None]] = []
        self._consumers: list[asyncio.Task[None]] = []

    @staticmethod
    def prepare(cluster: Cluster) -> None:
        """Declare what clients need beside queues, before anything happens to nodes."""

    def start(self) -> None:
        """Begin to publish and to consume."""
        start = asyncio.get_running_loop().create_task
        for node in self._urls:
            for queue in self._queues:
                self._publishers.append(start(self._publish_on(node, queue)))
                self._consumers.append(start(self._consume_on(node, queue)))

    @property
    def under_way(self) -> list[str]:
        """What publishers wait for: the confirms of these messages."""
        return [*self._under_way]

    async def stop_publishing(self) -> None:
        """Publish no more, and wait for what is under way."""
        self._is_publishing = False
        await asyncio.gather(*self._publishers)

    async def drain(self) -> None:
        """Consume until no more messages come and no queue has any."""
        self._is_draining = True
        seen, quiet = -1, 0
        while quiet < QUIET_LOOKS:
            now = self._account.consumed.total()
            is_quiet = seen == now and not await asyncio.to_thread(self._depth)
            seen, quiet = now, quiet + 1 if is_quiet else 0
            await asyncio.sleep(DRAINED_SECONDS)
        await end_all(self._consumers)

    def problems(self) -> list[str]:
        """What is wrong with the clients, beside the account."""
        return []

    async def _connect(self, node):
        return await aiormq.connect(self._urls[node])

    async def _close(self, connection) -> None:
        """Close a connection, which may be lost, or to a node that does not answer now."""
        with contextlib.suppress(*LOST):
            await asyncio.wait_for(connection.close(), RETRY_SECONDS)

    # Publishers

    async def _publish_on(self, node: str, queue: str) -> None:
        names = map(f"{node}>{queue}#{{}}".format, count(1))
        while self._is_publishing:
            with until_lost():
                connection = await self._connect(node)
                try:
                    await self._publish(connection, node, queue, names)
                finally:
                    await self._close(connection)
            await asyncio.sleep(RETRY_SECONDS)

    async def _publisher(self, connection, queue):
        """A function that publishes a body, and one that tells whether the connection is lost."""
        channel = await connection.channel(publisher_confirms=True)

        async def publish(body: str) -> None:
            # The client library notes in them which message is returned.
            persistent = aiormq.spec.Basic.Properties(delivery_mode=2)
            await channel.basic_publish(
                body.encode(), routing_key=queue, properties=persistent, mandatory=True
            )

        return publish, lambda: connection.is_closed or channel.is_closed

    async def _publish(self, connection, node, queue, names) -> None:
        publish, is_lost = await self._publisher(connection, queue)
        free = asyncio.Semaphore(UNDER_WAY)
        tasks: set[asyncio.Task[None]] = set()
        while self._is_publishing and not is_lost():
            await free.acquire()
            task = asyncio.create_task(self._publish_one(publish, node, queue, next(names)))
            tasks.add(task)
            task.add_done_callback(lambda done: (tasks.discard(done), free.release()))
            await asyncio.sleep(self._chance.uniform(0, 2 * PUBLISH_SECONDS))
        if tasks:
            await asyncio.wait(tasks)

    async def _publish_one(self, publish, node, queue, message) -> None:
        size = LARGE_BYTES if self._chance.random() < LARGE_SHARE else 30
        self._account.published.add(message)
        self._under_way[message] = None
        with contextlib.suppress(*LOST):
            await publish(f"{message} " + "x" * size)
            self._account.confirm(message, node, queue, time.monotonic())
        del self._under_way[message]

    # Consumers

    async def _consume_on(self, node: str, queue: str) -> None:
        while True:
            with until_lost():
                connection = await self._connect(node)
                try:
                    await self._consume(connection, queue)
                finally:
                    await self._close(connection)
            await asyncio.sleep(RETRY_SECONDS)

    async def _consume(self, connection, queue) -> None:
        channel = await connection.channel()
        await channel.basic_qos(prefetch_count=20)
        last_of: dict[str, int] = {}

        async def take(delivery) -> None:
            message = delivery.body.split(b" ", 1)[0].decode()
            self._account.consume(message, delivery.redelivered, last_of)
            await self._rest(queue)
            with contextlib.suppress(*LOST):
                await channel.basic_ack(delivery.delivery_tag)
                self._account.acked.add(message)

        await channel.basic_consume(queue, take)
        while channel.consumers and not (connection.is_closed or channel.is_closed):
            await asyncio.sleep(LOOK_SECONDS)

    async def _rest(self, queue: str) -> None:
        """Take the time that a program needs for a message; sometimes the whole queue rests."""
        now_s = time.monotonic()
        if self._chance.random() < REST_SHARE:
            self._rests_until[queue] = now_s + REST_SECONDS
        if not self._is_draining:
            await asyncio.sleep(max(PUBLISH_SECONDS, self._rests_until.get(queue, 0.0) - now_s))
