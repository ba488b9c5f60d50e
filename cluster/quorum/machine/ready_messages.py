"""The messages that wait for a consumer: returned ones first, then those of each priority.

Returned messages are delivered first, in the order of their returns, whatever their priority is.
With two priorities (RabbitMQ 4.0), two messages of high priority are delivered before each other
one, unless that one is younger; priorities above 4 are high. With more (4.3), each priority is
delivered before all lower ones.

A queue that is to succeed another one has its messages sorted by priority, too, but they are taken
in the order in which they were published, and none expires. So its rules apply at once when it gets
its name.
"""

from typing import Final

from leveret.cluster.quorum.machine.run_queue import RunQueue
from leveret.cluster.quorum.machine.runs import NEVER, Run

NORMAL: Final = 0
HIGH: Final = 1
NORMAL_MAX: Final = 4
HIGH_IN_A_ROW: Final = 2


class Level:
    """The messages of one level of priority."""

    __slots__ = ("level", "queue")

    def __init__(self, level: int) -> None:
        self.level = level
        self.queue = RunQueue()


class ReadyMessages:
    """Ready messages. priorities: how many levels there are. levels: the highest one first.

    taken: with two priorities, how many messages were taken since the last turn of normal priority.
    is_successor: see `Options`.
    """

    __slots__ = (
        "bytes", "count", "expiring", "is_successor", "levels", "priorities", "returned", "taken",
    )  # fmt: skip

    def __init__(self, priorities: int) -> None:
        self.priorities = priorities
        self.is_successor = False
        self.returned = RunQueue()
        self.levels = [Level(0)]
        self.taken = 0
        self.count = 0
        self.bytes = 0
        self.expiring = 0

    def append(self, run: Run) -> None:
        """Add messages behind all others of their priority."""
        self._added(run)
        self.level_of(run.priority).append(run)

    def append_returned(self, run: Run) -> None:
        """Add messages behind those that were returned before."""
        self._added(run)
        self.returned.append(run)

    def _added(self, run: Run) -> None:
        self.count += run.count
        self.bytes += run.count * run.size
        if run.expires_at_ms:
            self.expiring += 1

    def level_of(self, priority: int) -> RunQueue:
        """The queue of the messages of a priority."""
        if self.priorities == 1:
            return self.levels[0].queue
        if self.priorities == HIGH + 1:
            wanted = HIGH if priority > NORMAL_MAX else NORMAL
        else:
            wanted = min(priority, self.priorities - 1)
        for at, level in enumerate(self.levels):
            if level.level == wanted:
                return level.queue
            if level.level < wanted:
                return self._insert(at, wanted)
        return self._insert(len(self.levels), wanted)

    def _insert(self, at: int, wanted: int) -> RunQueue:
        level = Level(wanted)
        self.levels.insert(at, level)
        return level.queue

    def after(self, index: int) -> tuple[int, int]:
        """How many messages were published by later entries than this one, and their bytes.

        Those that were returned since are not counted.
        """
        count = octets = 0
        for level in self.levels:
            found, found_bytes = level.queue.after(index)
            count += found
            octets += found_bytes
        return count, octets

    def take(self, count_max: int, now_ms: int = NEVER) -> Run:
        """Take the next run, or its first `count_max` messages. There must be a run.

        now_ms: of the run, those before the first that has expired; `NEVER` for any. Expired
        messages at the heads are taken before (`take_expired`).
        """
        queue = self._next()
        head = queue.head
        assert head is not None
        if now_ms != NEVER and not self.is_successor:
            count_max = head.unexpired(count_max, now_ms)
        if self.priorities == HIGH + 1 and queue is not self.returned and not self.is_successor:
            if len(self.levels) > 1 and self._both():
                count_max = min(count_max, max(1, HIGH_IN_A_ROW - self.taken))
            self.taken = (self.taken + min(count_max, head.count)) % (HIGH_IN_A_ROW + 1)
        return self._taken(queue, count_max)

    def _next(self) -> RunQueue:
        """The queue that has the next message."""
        queue = self.returned
        if not queue.count:
            if self.is_successor:
                queue = self._earliest()
            elif len(self.levels) == 1:
                queue = self.levels[0].queue
            elif self.priorities == HIGH + 1:
                queue = self._weighted()
            else:
                for level in self.levels:
                    queue = level.queue
                    if queue.count:
                        break
        return queue

    def _earliest(self) -> RunQueue:
        """The queue that has the message that was published first."""
        earliest, position = self.returned, 0
        for level in self.levels:
            head = level.queue.head
            if head is not None and (not position or head.position < position):
                earliest, position = level.queue, head.position
        return earliest

    def _both(self) -> bool:
        return self.levels[0].queue.count > 0 and self.levels[1].queue.count > 0

    def _weighted(self) -> RunQueue:
        """The queue that has the next message, with two priorities."""
        high, normal = self.levels[0].queue, self.levels[1].queue
        first, second = high.head, normal.head
        if first is None or second is None:
            return normal if first is None else high
        if self.taken < HIGH_IN_A_ROW or first.position < second.position:
            return high
        return normal

    def _taken(self, queue: RunQueue, count_max: int) -> Run:
        expiring = queue.expiring
        run = queue.take(count_max)
        self.count -= run.count
        self.bytes -= run.count * run.size
        self.expiring += queue.expiring - expiring
        return run

    def take_expired(self, now_ms: int) -> list[Run]:
        """Take expired messages from the heads of the returned ones and of each priority."""
        expired: list[Run] = []
        if self.is_successor:
            return expired
        for queue in self.queues():
            while queue.expiring and (head := queue.head) is not None:
                count = head.expired(now_ms)
                if not count:
                    break
                expired.append(self._taken(queue, count))
        return expired

    def take_all_expired(self, now_ms: int, runs_max: int) -> list[Run]:
        """Take expired messages from wherever they are, in the order of their times: about
        `runs_max` runs at most.
        """
        expired: list[Run] = []
        if self.is_successor:
            return expired
        for queue in self.queues():
            if len(expired) < runs_max:
                expiring = queue.expiring
                expired += queue.take_expired(now_ms, runs_max - len(expired))
                self.expiring += queue.expiring - expiring
        for run in expired:
            self.count -= run.count
            self.bytes -= run.count * run.size
        expired.sort(key=_expiry_and_position)
        return expired

    def earliest_ms(self) -> int:
        """A time before which no message expires, wherever it is; 0 if none does."""
        if not self.expiring or self.is_successor:
            return NEVER
        times = [queue.earliest_ms for queue in self.queues() if queue.expiring]
        return min([at_ms for at_ms in times if at_ms != NEVER], default=NEVER)

    def next_expiry_ms(self) -> int:
        """When the first of the messages at the heads expires; 0 if none does."""
        next_ms = 0
        if self.expiring and not self.is_successor:
            for queue in self.queues():
                head = queue.head
                if head is not None and head.expires_at_ms:
                    expires_at_ms = head.expiry_of(0)
                    next_ms = min(next_ms or expires_at_ms, expires_at_ms)
        return next_ms

    def queues(self) -> list[RunQueue]:
        """The queue of returned messages, and then the queue of each level."""
        return [self.returned, *[level.queue for level in self.levels]]

    def set_priorities(self, priorities: int) -> None:
        """Sort all messages again, with another number of levels."""
        if priorities == self.priorities:
            return
        runs = [run for level in self.levels for run in level.queue.runs()]
        runs.sort(key=_position)
        self.priorities, self.taken = priorities, 0
        self.levels = [Level(0)]
        for run in runs:
            self.level_of(run.priority).append(run)

    def clear(self) -> int:
        """Drop all messages. Returns how many there were."""
        count = self.count
        self.returned = RunQueue()
        self.levels = [Level(0)]
        self.count = self.bytes = self.expiring = self.taken = 0
        return count


def _position(run: Run) -> int:
    return run.position


def _expiry_and_position(run: Run) -> tuple[int, int]:
    return run.expires_at_ms, run.position
