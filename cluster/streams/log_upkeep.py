"""The upkeep of a member's log as it grows and ages: retention, and snapshots of the state.

A snapshot lets a restart begin with the chunks after it, so one is due for each sealed segment, and
each `CHUNKS_MAX` chunks. Retention removes segments that a snapshot on disk covers; if there is
none yet, it takes one first. A timer looks at the age of the oldest segment, so segments are also
removed while nothing is published. There is no timer if nothing can become too old.

A leader keeps the segments that a member which is catching up still lacks: without them the member
would begin again. They are kept only while the member can be reached, and while the stream has at
most `PINNED` times the size and the age that retention allows.
"""

from collections.abc import Callable

from leveret.broker.queues.contract.arguments import QueueOptions
from leveret.cluster.groups.group_member import GroupMember
from leveret.cluster.groups.groups import Groups
from leveret.cluster.streams.machine.filters import BYTES_MIN
from leveret.cluster.streams.stream_machines import StreamGroupMachine
from leveret.storage.stream_log.retention import Retention, is_last_too_old, look_at_ms, too_many
from leveret.storage.stream_log.stream_log import SEGMENT_BYTES
from leveret.storage.stream_log.stream_store import StoredStream

CHUNKS_MAX = 5_000
"""About as many are read by a restart. Each takes some 10 microseconds."""
PINNED = 2
PINNED_LOOK_MS = 1000
"""The interval at which is looked again whether members still lack the oldest segments."""


class LogUpkeep:
    """The upkeep of one member.

    save: takes a snapshot of it, and calls `saved`. removed: called when retention has removed
    segments.
    """

    def __init__(
        self, groups: Groups, member: GroupMember, machine: StreamGroupMachine,
        stored: StoredStream, write: Callable[[StoredStream], object],
        save: Callable[["LogUpkeep"], object], removed: Callable[[], object],
    ) -> None:  # fmt: skip
        self.group = member.group
        self._groups = groups
        self._member = member
        self._machine = machine
        self._stored = stored
        self._write = write
        self._save = save
        self._removed = removed
        self._kept = Retention()
        self._saved = groups.log.groups[self.group].snapshot.index
        self._segments = len(stored.log.segments)
        self._is_saving = False
        self._wake = self._wake_ms = 0

    def configure(self, options: QueueOptions) -> None:
        """Take the options of arguments and policies."""
        self._kept = Retention(options.max_length_bytes, options.max_age_ms)
        self._stored.log.segment_bytes = options.segment_bytes or SEGMENT_BYTES
        self._machine.filter_bytes = options.filter_bytes or BYTES_MIN
        self.look()

    def applied(self) -> None:
        """The member has applied chunks."""
        segments = len(self._stored.log.segments)
        has_no_timer = self._wake_ms == 0 and self._kept.age_max_ms is not None
        if segments != self._segments or has_no_timer:
            self._segments = segments
            self.look()
        is_sealed = self._stored.log.segments[-1].first_entry > self._saved + 1
        if is_sealed or self._member.applied - self._saved > CHUNKS_MAX:
            self._begin_save()

    def _begin_save(self) -> None:
        if not self._is_saving and self._member.applied > self._saved:
            self._is_saving = True
            self._save(self)

    def saved(self) -> None:
        """A snapshot was taken, if that was possible."""
        self._is_saving = False
        state = self._groups.log.groups.get(self.group)
        if state is None or self._member.damage or state.snapshot.index <= self._saved:
            return
        self._saved = state.snapshot.index
        self.look()

    @property
    def expires_ms(self) -> int | None:
        """When the first segment becomes too old, by the wall clock; None if it does not."""
        log = self._stored.log
        return look_at_ms(log.segments, log.next_offset, self._kept) or None

    def look(self) -> None:
        """Remove the segments that are too many or too old."""
        log, kept, now_ms = self._stored.log, self._kept, self._groups.wall_ms()
        if is_last_too_old(log.segments[-1], log.next_offset, kept, now_ms):
            log.begin_segment(now_ms)
            self._segments = len(log.segments)
            self._write(self._stored)
        due = too_many(log.segments, kept, now_ms)
        wanted = min(due, max(self._unpinned(), too_many(log.segments, kept.times(PINNED), now_ms)))
        possible = sum(one.first_entry <= self._saved + 1 for one in log.segments[1 : wanted + 1])
        if possible:
            log.remove_segments(possible)
            self._segments = len(log.segments)
            self._write(self._stored)
            self._member.raft.discarded(log.first_entry - 1)
            self._removed()
        if possible < wanted:
            self._begin_save()
        self._plan_look(now_ms, is_pinned=wanted < due)

    def _unpinned(self) -> int:
        """How many of the oldest segments no member in reach lacks."""
        leading, segments = self._member.raft.leading, self._stored.log.segments
        if leading is None:
            return len(segments)
        if self._groups.log.groups[self.group].pins:
            return 0  # A snapshot that begins with the oldest one is on its way.
        needed = leading.needed_from()
        return sum(one.first_entry <= needed for one in segments[1:])

    def _plan_look(self, now_ms: int, *, is_pinned: bool) -> None:
        log = self._stored.log
        at_ms = look_at_ms(log.segments, log.next_offset, self._kept)
        if is_pinned:
            at_ms = now_ms + PINNED_LOOK_MS
        if at_ms == self._wake_ms:
            return
        self.close()
        if at_ms:
            self._wake_ms = at_ms
            due_ms = self._groups.now_ms() + max(1, at_ms - now_ms)
            self._wake = self._groups.wake_at(due_ms, self._woken)

    def _woken(self, now_ms: int) -> None:
        self._wake_ms = 0
        self.look()

    def close(self) -> None:
        """The member has ended, or has another log."""
        if self._wake_ms:
            self._groups.cancel_wake(self._wake)
            self._wake_ms = 0
