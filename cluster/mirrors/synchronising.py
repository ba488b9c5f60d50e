"""The mirrors of a leader that lack messages: what each lacks, and the batches that bring it.

A mirror lacks what the queue had when it joined. It is synchronised when it has kept batches about
all of that, or when the leader has none of it any more. Batches are sent if the policy says so
(`ha-sync-mode: automatic`) or an operator does (`sync_queue`); one for each mirror in a round, so
that the queue goes on between them.

A mirror that joined under an earlier leader says what it lacks when it follows this one, and one
that was not linked for a while says it again: batches may have been lost.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from leveret.cluster.gm.group import Member
from leveret.cluster.mirrors.batches import Batch
from leveret.cluster.mirrors.decisions import Range
from leveret.cluster.mirrors.leading_queue import LeadingQueue
from leveret.cluster.mirrors.planning import Mirroring
from leveret.cluster.mirrors.synchronisation import Synchronisation
from leveret.storage.backing_queue import Unreadable

ReadAgain = Callable[[Unreadable, Callable[[], object]], object]
"""Calls back when what could not be read may be, and has `batches` called right after that."""


class Progress(NamedTuple):
    """How far the synchronising of a mirror is: messages that were sent, and about how many there
    were to be sent. is_running: batches are sent.
    """

    messages: int
    expected: int
    is_running: bool


class Synchronising:
    """See the module."""

    __slots__ = (
        "_done", "_failing", "_lacking", "_last", "_leading", "_mirroring", "_read_again",
        "_reported", "_running", "_wake",
    )  # fmt: skip

    def __init__(
        self,
        leading: LeadingQueue,
        mirroring: Callable[[], Mirroring],
        done: Callable[[Member], object],
        wake: Callable[[], object],
        read_again: ReadAgain,
    ) -> None:
        """mirroring: what the policies ask for now. done: called with a mirror that has become
        synchronised. wake: has `batches` called at the end of the round. read_again: see there.
        """
        self._leading = leading
        self._mirroring = mirroring
        self._done = done
        self._wake = wake
        self._read_again = read_again
        self._failing: set[Member] = set()
        self._lacking: dict[Member, Synchronisation] = {}
        self._running: dict[Member, None] = {}
        self._reported: dict[Member, Progress] = {}
        # The number of the last batch, which a mirror that is done says again after its link broke.
        self._last: dict[Member, int] = {}

    # Who lacks what

    def joined(self, mirror: Member, lacked: list[Range]) -> None:
        """A mirror has joined, and lacks these positions."""
        self._begin(mirror, lacked, 0)

    def lacks(self, mirror: Member, lacked: list[Range]) -> None:
        """A mirror that was there before lacks these positions."""
        number, before = self._last.get(mirror, 0), self._lacking.get(mirror)
        if before is not None:
            before.cancel()
            number = before.sent
        self._begin(mirror, lacked, number)

    def _begin(self, mirror: Member, lacked: list[Range], number: int) -> None:
        mirroring = self._mirroring()
        self._lacking[mirror] = Synchronisation(self._leading, lacked, mirroring.batch_size, number)
        if mirroring.is_automatic:
            self._running[mirror] = None
        if mirror in self._running:
            self._wake()

    def died(self, mirror: Member) -> None:
        """A mirror is gone."""
        self._reported.pop(mirror, None)
        self._last.pop(mirror, None)
        self._running.pop(mirror, None)
        lacking = self._lacking.pop(mirror, None)
        if lacking is not None:
            lacking.cancel()

    # What is asked for

    def start(self) -> None:
        """Bring all mirrors what they lack."""
        self._running.update(dict.fromkeys(self._lacking))
        self._wake()

    def cancel(self) -> None:
        """Send no more batches. Mirrors keep what they have."""
        self._running.clear()

    def policies_changed(self) -> None:
        """Other policies are in force."""
        mirroring = self._mirroring()
        for lacking in self._lacking.values():
            lacking.messages_max = mirroring.batch_size
        if mirroring.is_automatic:
            self.start()

    @property
    def progress(self) -> dict[Member, Progress]:
        """Of the mirrors that were not synchronised when this leader began with them.

        One that has become synchronised is so for others when the record says it.
        """
        return self._reported | {
            mirror: Progress(one.messages, one.expected, mirror in self._running)
            for mirror, one in self._lacking.items()
        }

    # Batches

    @property
    def has_batches(self) -> bool:
        """Some mirror may be sent a batch now."""
        lacking, failing = self._lacking, self._failing
        return any(lacking[one].may_send for one in self._running if one not in failing)

    def batches(self) -> Iterator[tuple[Member, Batch]]:
        """The batches of this round. To be called between two turns (synchronisation.py)."""
        for mirror in self._running:
            if mirror in self._failing:
                continue
            try:
                batch = self._lacking[mirror].next_batch()
            except Unreadable as error:
                self._failing.add(mirror)
                self._read_again(error, partial(self._failing.discard, mirror))
                continue
            if batch is not None:
                yield mirror, batch

    def kept(self, mirror: Member, batch: int) -> None:
        """A mirror has kept its batches through a number; 0 if it has none."""
        lacking = self._lacking.get(mirror)
        if lacking is None:
            return
        lacking.kept(batch)
        if lacking.is_complete or (mirror not in self._running and lacking.is_used_up()):
            progress = self.progress[mirror]
            self.died(mirror)
            self._reported[mirror] = progress
            self._last[mirror] = lacking.sent
            self._done(mirror)
        elif mirror in self._running and lacking.may_send:
            self._wake()
