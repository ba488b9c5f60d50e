"""Shared parts of the tests of the node's AMQP client: properties, and a counting receiver."""

import asyncio

from tests.patience import PATIENCE_SECONDS

PERSISTENT = b"\x10\x00\x02"
EVERYTHING = (
    b"\xff\xfc\x01t\x01e" b"\0\0\0\x0d\x01aS\0\0\0\x01x\x01bs\0\x05"
    b"\x02\x05\x01c\x01r\x0886400000"
    b"\x01m\0\0\0\0\0\0\0\x07\x01y\x05guest\x01p\x01z"
)  # fmt: skip
"""All properties. A header is a short, which a client that encodes them again makes a long. The
expiration is a day: no busy machine takes that long."""


class Taken:
    """Takes the deliveries of a consumer."""

    def __init__(self):
        self.deliveries = []
        self._arrived = asyncio.Event()

    def __call__(self, deliveries):
        self.deliveries += deliveries
        self._arrived.set()

    async def until(self, count):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.deliveries) < count:
                self._arrived.clear()
                await self._arrived.wait()
        return self.deliveries


class Confirmed:
    """Counts the confirms of a channel. acked: the last that was; nacked: all that were."""

    def __init__(self, channel):
        self.acked, self.nacked = 0, []
        self._arrived = asyncio.Event()
        channel.on_confirmed = self

    def __call__(self, tag, multiple, is_ack):
        if is_ack:
            self.acked = max(self.acked, tag)
        else:
            self.nacked.append(tag)
        self._arrived.set()

    async def until(self, tag):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self.acked < tag and tag not in self.nacked:
                self._arrived.clear()
                await self._arrived.wait()
