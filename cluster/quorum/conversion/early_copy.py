"""Copies most of a long queue while clients use it, so that little is left for the pause.

In each round it copies the messages that follow, in the order of their positions, and then settles
the copies of those that clients have taken and settled meanwhile. It ends when little is left.
"""

import asyncio
import logging
import time

from leveret.cluster.quorum.conversion.copied_messages import UNKNOWN_HOLDERS, CopiedMessages
from leveret.cluster.quorum.conversion.copying import Copying
from leveret.cluster.rpc.refused import Refused

LEFT_MAX, LEFT_BYTES_MAX = 2000, 4 * 1024 * 1024
"""How much is left for the pause, besides messages that are published until then."""
PIECES_OF_A_ROUND = 20
WAIT_SECONDS, WAITS_MAX = 0.02, 1000
SAYS_SECONDS = 10.0
SECONDS_MAX = 3600.0

logger = logging.getLogger("leveret.cluster")


class EarlyCopy:
    """The copy of one queue. what: its name, for the log."""

    def __init__(self, messages: CopiedMessages, copying: Copying, what: str) -> None:
        self._messages = messages
        self._copying = copying
        self._what = what
        self._waits = 0

    @property
    def is_needed(self) -> bool:
        """Whether the queue has many messages that are not copied."""
        messages = self._messages
        ready, ready_bytes = messages.ready_count, messages.ready_bytes
        left = min(messages.end - self._copying.copied_to, ready)
        return left > LEFT_MAX or left * ready_bytes > LEFT_BYTES_MAX * max(1, ready)

    async def run(self) -> None:
        """Copy until little is left. Raises Refused."""
        begun_s = said_s = time.monotonic()
        while self.is_needed:
            for _ in range(PIECES_OF_A_ROUND):
                if not await self._copy_piece():
                    break
            await self._settle_gone()
            now_s = time.monotonic()
            if now_s - said_s > SAYS_SECONDS:
                said_s = now_s
                left = self._messages.end - self._copying.copied_to
                logger.info("%s is copied except for at most %d messages", self._what, left)
            if now_s - begun_s > SECONDS_MAX:
                raise Refused("its messages are published faster than they are copied")

    async def _copy_piece(self) -> bool:
        """Copy the next messages, whether clients hold them or not.

        Returns whether there may be more.
        """
        piece = await self._messages.piece(self._copying.copied_to)
        if piece is None:
            self._waits += 1
            if self._waits == WAITS_MAX:
                raise Refused(UNKNOWN_HOLDERS)
            await asyncio.sleep(WAIT_SECONDS)
            return True
        self._waits = 0
        await self._copying.add(piece.entries, piece.end)
        return piece.has_more

    async def _settle_gone(self) -> None:
        """Settle the copies of messages that have left the queue."""
        copying, messages = self._copying, self._messages
        taken_to = await messages.taken_to(copying.taken_to)
        await copying.take_below(min(taken_to, copying.copied_to))
        alive = await messages.alive_below(copying.taken_to)
        if alive is not None:
            copying.settle_gone(alive)
