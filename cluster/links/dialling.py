"""Dialling one node until it is linked, again and again, with pauses.

The first attempt is made at once. After each failed attempt the pause doubles, from
PAUSE_SECONDS_MIN to PAUSE_SECONDS_MAX, with a random part, so that nodes started together do not
stay in step. After a refusal that only an operator can resolve it is REFUSED_PAUSE_SECONDS. A link
that lasted less than the longest pause counts as a failed attempt.
"""

import asyncio
import os
import random
import ssl
from collections.abc import Callable

from leveret.broker.runtime.node_address import host_of
from leveret.broker.runtime.tls_errors import reason_of
from leveret.cluster.links.handshake_connection import HandshakeConnection
from leveret.cluster.links.refusals import LinkRefusal, RefusalKind

PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.05, 2.0
REFUSED_PAUSE_SECONDS = 5.0
CONNECT_SECONDS_MAX = 3.0
"""For the TCP connection and the TLS handshake: a lost packet is sent again after one second."""
TLS_EVERYWHERE = "all nodes of a cluster need cluster.tls, or none, and the same authorities"
LASTING = {
    RefusalKind.GARBAGE, RefusalKind.COOKIE, RefusalKind.VERSION, RefusalKind.CLUSTER,
    RefusalKind.SAME_NAME, RefusalKind.WRONG_NODE, RefusalKind.DUPLICATE, RefusalKind.CERTIFICATE,
}  # fmt: skip
"""Refusals that only an operator can resolve."""


def pause_seconds(failures: int, fraction: float) -> float:
    """The pause after a number of failed attempts. fraction: random, from 0 to 1."""
    longest = min(PAUSE_SECONDS_MAX, PAUSE_SECONDS_MIN * 2.0 ** min(failures - 1, 16))
    return longest * (0.5 + fraction / 2)


class Dialler:
    """Dials one node from `begin` until it is linked, or `rest`.

    port: called at each attempt. make: makes the protocol of a connection. context: makes the TLS
    context of an attempt, None without TLS. report: called with the reason of a failed attempt.
    """

    def __init__(
        self,
        node: str,
        port: Callable[[], int],
        make: Callable[[], HandshakeConnection],
        context: Callable[[], ssl.SSLContext | None],
        report: Callable[[int, LinkRefusal], None],
    ) -> None:
        self._host = host_of(node)
        self._port = port
        self._make = make
        self._context = context
        self._report = report
        self._task: asyncio.Task[None] | None = None
        # The connection of the attempt that is under way, and the end of its handshake.
        self._connection: HandshakeConnection | None = None
        self._outcome: asyncio.Future[LinkRefusal | None] | None = None
        self.failures = 0

    @property
    def has_sent_proof(self) -> bool:
        """Whether a connection of this dialler waits for the other node's decision."""
        return self._connection is not None and self._connection.has_sent_proof

    def begin(self, *, pauses: bool = False) -> None:
        """Dial, unless an attempt or a pause is under way.

        pauses: whether the last link counts as a failed attempt, so that a pause comes first.
        """
        if self._task is None:
            self.failures = self.failures + 1 if pauses else 0
            self._task = asyncio.get_running_loop().create_task(self._dial_until_linked())

    def hurry(self) -> None:
        """End a pause: the node has a new address, or has shown a sign of life."""
        if self._task is not None and self._connection is None:
            self.rest()
            self.begin()

    def rest(self) -> None:
        """Stop: the node is linked through another connection, or must not be linked."""
        if self._connection is not None:
            self._connection.abandon()
        if self._task is not None:
            self._task.cancel()
        self._task = self._connection = self._outcome = None

    def ended(self, connection: HandshakeConnection, refusal: LinkRefusal | None) -> bool:
        """Note the end of a connection's handshake; None: the node is linked.

        Returns whether it is a connection of this dialler.
        """
        if connection is not self._connection or self._outcome is None:
            return False
        if not self._outcome.done():
            self._outcome.set_result(refusal)
        return True

    async def _dial_until_linked(self) -> None:
        if self.failures:
            await asyncio.sleep(pause_seconds(self.failures, random.random()))
        while True:
            port = self._port()
            refusal = await self._attempt(port)
            self._connection = self._outcome = None
            if refusal is None:
                self._task = None
                return
            self.failures += 1
            self._report(port, refusal)
            if refusal.kind in LASTING:
                await asyncio.sleep(REFUSED_PAUSE_SECONDS)
            else:
                await asyncio.sleep(pause_seconds(self.failures, random.random()))

    async def _attempt(self, port: int) -> LinkRefusal | None:
        """Connect, and wait for the end of the handshake."""
        loop = asyncio.get_running_loop()
        connection = self._connection = self._make()
        outcome: asyncio.Future[LinkRefusal | None] = loop.create_future()
        self._outcome = outcome
        try:
            context = self._context()
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                await loop.create_connection(
                    lambda: connection,
                    self._host,
                    port,
                    ssl=context,
                    server_hostname=self._host if context is not None else None,
                )
        except (OSError, ValueError) as error:
            connection.abandon()
            return LinkRefusal(RefusalKind.UNREACHABLE, _described(error))
        return await outcome


def _described(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"it cannot be reached within {CONNECT_SECONDS_MAX:.0f} s"
    if isinstance(error, ssl.SSLError):
        return f"TLS fails: {reason_of(error)}; {TLS_EVERYWHERE}"
    if not str(error):
        return f"it closed the connection before the handshake; {TLS_EVERYWHERE}"
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        # asyncio's own text repeats the address.
        return f"it cannot be reached: {os.strerror(error.errno)}"
    return f"it cannot be reached: {error}"
