"""Publishers and consumers of AMQP 1.0 at every node, which go on whatever happens to it.

Consumers accept most messages, and give some back, by `released` or as a failed delivery. A message
that was not settled comes again, with a higher count: none may come twice with one count.
"""

import asyncio
import contextlib
from collections.abc import Callable
from urllib.parse import urlsplit

from leveret.broker.amqp10.sections import Amqp10Message
from leveret.broker.protocols.amqp10.performatives import Accepted, Modified, Outcome, Released
from tests.cluster.hosted_nodes import AMQP_PORT
from tests.jepsen.account import SHOWN, Account
from tests.jepsen.amqp10_link import Amqp10Link
from tests.jepsen.clients import LOOK_SECONDS, LOST, Clients

CREDIT = 20
GIVEN_BACK_SHARE = 0.04
"""Of messages that are released, and of those that are given back as failed."""


class Amqp10Account(Account):
    """The account, with the count of each delivery.

    returns: how often messages came again. recounted: those that came twice with one count.
    """

    def __init__(self) -> None:
        super().__init__()
        self.returns = 0
        self.recounted: list[str] = []
        self._counts: set[tuple[str, int]] = set()

    def consume_counted(self, message: str, returns: int, last_of: dict[str, int]) -> None:
        """A message was delivered, which was given back this many times before."""
        if (message, returns) in self._counts:
            self.recounted.append(f"{message} with {returns}")
        self._counts.add((message, returns))
        self.returns += returns > 0
        self.consume(message, returns > 0, last_of)

    def problems(self, is_exact: bool = False) -> list[str]:
        """What must not be, after all queues were drained."""
        problems = super().problems(is_exact)
        if self.recounted:
            shown = ", ".join(self.recounted[:SHOWN])
            problems.append(f"{len(self.recounted)} came twice with one count: {shown}")
        return problems

    def more_figures(self) -> list[str]:
        """More lines to print."""
        return [f"came again with a count {self.returns}"]


class Amqp10Clients(Clients):
    """All clients. Parameters as those of Clients."""

    def __init__(
        self, urls: dict[str, str], queues: list[str], account: Amqp10Account, seed: int,
        depth: Callable[[], int],
    ) -> None:  # fmt: skip
        super().__init__(urls, queues, account, seed, depth)
        self._counted = account

    async def _connect(self, node: str) -> Amqp10Link:
        return await Amqp10Link.open(urlsplit(self._urls[node]).hostname or "", AMQP_PORT)

    async def _close(self, link: Amqp10Link) -> None:
        await link.close()

    # Publishers

    async def _publisher(
        self, link: Amqp10Link, queue: str
    ) -> tuple[Callable[[str], object], Callable[[], bool]]:
        await link.publish_to(queue)
        return link.publish, lambda: link.is_lost

    # Consumers

    async def _consume(self, link: Amqp10Link, queue: str) -> None:
        last_of: dict[str, int] = {}
        tasks: set[asyncio.Task[None]] = set()

        def received(delivery_id: int, message: Amqp10Message) -> None:
            name = message.data.split(b" ", 1)[0].decode()
            returns = message.annotation("x-acquired-count").value or 0
            self._counted.consume_counted(name, returns, last_of)
            task = asyncio.create_task(self._settle(link, queue, delivery_id, name))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        link.received = received
        await link.consume_from(queue, CREDIT)
        while not link.is_lost:
            await asyncio.sleep(LOOK_SECONDS)

    async def _settle(self, link: Amqp10Link, queue: str, delivery_id: int, name: str) -> None:
        await self._rest(queue)
        outcome = self._outcome()
        with contextlib.suppress(*LOST):
            link.settle(delivery_id, outcome)
            if isinstance(outcome, Accepted):
                self._account.acked.add(name)

    def _outcome(self) -> Outcome:
        chance = self._chance.random() / GIVEN_BACK_SHARE
        if self._is_draining or chance > 2:
            return Accepted()
        return Released() if chance < 1 else Modified(delivery_failed=True)
