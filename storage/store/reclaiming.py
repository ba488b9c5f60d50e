"""Gives disk space back on a node that is idle, or whose disk is short.

The log is retired, segments are removed and the message store is swept as new messages are written.
An idle node would keep the space of its last messages. So would a node whose publishers wait
because the disk is short: nothing new is written, and the alarm would never end.

So every `CHECK_SECONDS` (store.py)

- queues whose messages have gone remove the segments that are no longer needed;
- the log begins a new file and retires all others, if little was written since the last check or
  the disk is short, and most of the log is of messages that are gone;
- the message store is swept with less garbage than otherwise.

**Promises.** A node without messages, or whose messages are consumed during a disk alarm, has no
more than `LOG_BYTES_MIN` in full log files, no segments, and `GARBAGE_BYTES_MIN` in bodies. **Not
promised.** That space is given back while most of the log is still needed, since moving it to
segments would first take the same space again, or while files of undeclared queues are kept for a
repair.
"""

import asyncio

from leveret.storage.bodies.message_store import MessageStore
from leveret.storage.log.log_files import LogFiles
from leveret.storage.log.retirement import Retirement
from leveret.storage.queue.pager import Pager
from leveret.storage.queue.tiered_queue import TieredQueue
from leveret.storage.store.sweeper import Sweeper

LOG_BYTES_MIN = 1024 * 1024
"""A log with fewer bytes is left as it is."""
GARBAGE_BYTES_MIN = 1024 * 1024
"""With less garbage than this there is no sweep."""
QUIET_BYTES = 64 * 1024
"""The node is idle if it has written fewer bytes than this to the log since the last check."""
IDLE_FACTOR, SHORT_FACTOR = 4, 2
"""The log must be this many times as large as the messages in memory."""
IDLE_SHARE, SHORT_SHARE = 0.5, 0.1
"""The share of the message store that must be garbage."""
QUEUES_AT_ONCE = 100
"""Queues that are examined in one turn of the loop."""


class Reclaiming:
    """Gives back the disk space of one store.

    is_disk_short: the disk alarm is in force.
    """

    def __init__(
        self,
        files: LogFiles,
        bodies: MessageStore,
        pager: Pager,
        retirement: Retirement,
        sweeper: Sweeper,
    ) -> None:
        self._files = files
        self._bodies = bodies
        self._pager = pager
        self._retirement = retirement
        self._sweeper = sweeper
        self.is_disk_short = False
        self._is_allowed = True
        self._is_idle = False
        self._shrunk: set[TieredQueue] = set()
        self._log_end = (0, 0)
        self._log_bytes_left = 0

    def start(self, keeps_unclaimed: bool) -> None:
        """Find the space that a restart has left to be given back, after all queues are restored.

        keeps_unclaimed: files of queues that are not declared are kept for a repair.
        """
        if keeps_unclaimed:
            self._is_allowed = self._sweeper.is_allowed = False
        queues = self._pager.queues.values()
        self._shrunk.update(queue for queue in queues if queue.has_segments)
        # A lower limit: bodies in segments may be small ones, or shared by queues.
        needed_bytes = sum(queue.ledger.segment_bytes for queue in self._shrunk)
        self._bodies.garbage_bytes = max(0, self._bodies.total_bytes - needed_bytes)

    def note(self, queue: TieredQueue) -> None:
        """Note that messages of a queue with segments have gone."""
        self._shrunk.add(queue)

    def look(self) -> None:
        """Find out whether the node is idle. Called every `CHECK_SECONDS`."""
        newest = self._files.files[-1]
        number, size = self._log_end
        self._is_idle = newest.number == number and newest.size - size < QUIET_BYTES
        self._log_end = newest.number, newest.size

    async def run(self) -> None:
        """Give back the space that is due. Raises errors of the log, its clients and the disk."""
        await self._leave_segments()
        if self._may_retire_all() and await self._retirement.retire_all():
            self._log_bytes_left = self._files.total_bytes
        share = SHORT_SHARE if self.is_disk_short else IDLE_SHARE
        if self.is_disk_short or self._is_idle:
            await self._sweeper.sweep_if_wanted(GARBAGE_BYTES_MIN, share)

    def _may_retire_all(self) -> bool:
        """Whether most of the log is of gone messages, and nothing else would retire it soon."""
        if not (self._is_allowed and (self.is_disk_short or self._is_idle)):
            return False
        factor = SHORT_FACTOR if self.is_disk_short else IDLE_FACTOR
        needed_bytes = factor * max(self._pager.memory_bytes, 0)
        # The log after the last retirement is states of queues, which are rewritten each time.
        return self._files.total_bytes > max(LOG_BYTES_MIN, needed_bytes, 2 * self._log_bytes_left)

    async def _leave_segments(self) -> None:
        shrunk, self._shrunk = self._shrunk, set()
        for number, queue in enumerate(shrunk, 1):
            async with self._pager.lock:
                queue.leave_segments()
            if number % QUEUES_AT_ONCE == 0:
                await asyncio.sleep(0)
