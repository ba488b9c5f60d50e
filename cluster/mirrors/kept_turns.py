"""The decisions that each mirror has kept, and the publishers' runs that wait for the mirrors.

A mirror has kept the decisions of a turn when it has applied them and the messages that they
published are on its disk. Mirrors report this turn by turn; the node's own log reports the messages
published here. A run is confirmed after both reports. Runs are confirmed in the order in which they
were published.

Invariants:
MQ6. A run is confirmed after every member that was in the record when its turn ended has kept that
     turn, and after this node's log has it.
MQ7. Runs wait for a member that is removed from the record until its removal is stable: applied
     on all nodes of the view, on disk. Before that the removal may be lost with its coordinator,
     and the member may be promoted without the run.
MQ10. A new leader confirms nothing before the entry by which it leads is stable. If that entry were
      lost, so would be the removal of the former leader, and everything that the former leader
      waited for.
"""

from collections import deque
from collections.abc import Callable

from leveret.cluster.gm.group import Member
from leveret.storage.contract.backing_queue import BackingQueue, Waiter


class WaitingRun:
    """A run that is not confirmed. turn: the turn whose decisions name it. is_logged: this node's
    log has it, or does not need it. number, count: the number of its first message, as the sending
    node counts, and the number of messages.
    """

    __slots__ = ("count", "first", "holder", "is_logged", "number", "turn", "waiter")

    def __init__(
        self,
        turn: int,
        is_logged: bool,
        waiter: Waiter,
        first: int,
        holder: object,
        number: int,
        count: int,
    ) -> None:
        self.turn = turn
        self.is_logged = is_logged
        self.waiter = waiter
        self.first = first
        self.holder = holder
        self.number = number
        self.count = count


class KeptTurns:
    """The turns that each mirror of a leader has kept, and the runs that wait for them."""

    __slots__ = ("_due", "_is_in_doubt", "_logged", "_logging", "_mirrors", "_runs")

    def __init__(self, logged: BackingQueue, due: Callable[[], object]) -> None:
        """logged: the messages on this node. due: called when the first decision of a turn is
        noted.
        """
        self._due = due
        self._logged = logged
        self._is_in_doubt = False
        self._mirrors: dict[Member, int] = {}
        self._runs: deque[WaitingRun] = deque()
        self._logging: dict[int, WaitingRun] = {}

    def __len__(self) -> int:
        """The number of runs that wait."""
        return len(self._runs)

    @property
    def first(self) -> WaitingRun | None:
        """The run that has waited longest; None if none waits."""
        return self._runs[0] if self._runs else None

    @property
    def is_in_doubt(self) -> bool:
        """Whether the entry by which the leader leads is not stable yet (MQ10)."""
        return self._is_in_doubt

    def behind(self) -> dict[Member, int]:
        """The mirrors that the first run waits for, and the turns that they have kept."""
        if not self._runs:
            return {}
        wanted = self._runs[0].turn
        return {mirror: turn for mirror, turn in self._mirrors.items() if turn < wanted}

    @property
    def is_only_logged(self) -> bool:
        """Whether runs wait for nothing but this node's log."""
        return not self._mirrors and not self._is_in_doubt

    @property
    def turn(self) -> int | None:
        """The last turn that all mirrors have kept; None without mirrors."""
        return min(self._mirrors.values(), default=None)

    def joined(self, mirror: Member, turn: int) -> None:
        """A mirror starts with the decisions of this turn."""
        self._mirrors[mirror] = turn - 1

    def kept(self, mirror: Member, turn: int) -> None:
        """A mirror reports a turn. Reports of a removed mirror no longer count."""
        if turn > self._mirrors.get(mirror, turn):
            self._mirrors[mirror] = turn
            self._confirm()

    def removed(self, mirror: Member) -> None:
        """The removal of a mirror from the record is stable (MQ7)."""
        if self._mirrors.pop(mirror, None) is not None:
            self._confirm()

    def remove_all(self) -> None:
        """The queue no longer has mirrors, and this is stable."""
        self._mirrors.clear()
        self.is_stable()

    def in_doubt(self) -> None:
        """A new leader starts (MQ10)."""
        self._is_in_doubt = True

    def is_stable(self) -> None:
        """The entry by which the leader leads is stable."""
        self._is_in_doubt = False
        self._confirm()

    def release(self) -> list[WaitingRun]:
        """The leader hands over: return the waiting runs, which are not confirmed here."""
        runs = list(self._runs)
        self._runs.clear()
        return runs

    def decided(self) -> None:
        """The first decision of a turn was noted."""
        self._due()

    def when_kept(
        self,
        turn: int,
        is_logged: bool,
        waiter: Waiter,
        first: int,
        holder: object,
        number: int = 0,
        count: int = 0,
    ) -> None:
        """Confirm a run to the waiter, in the holder's name, when every mirror has kept the
        decisions through this turn, and, if is_logged, all messages published so far are safe on
        this node. number, count: see `WaitingRun`.
        """
        run = WaitingRun(turn, not is_logged, waiter, first, holder, number, count)
        self._runs.append(run)
        if is_logged:
            key = id(run)
            self._logging[key] = run
            self._logged.when_safe(self, key, self)
        elif self.turn is None:
            self._confirm()

    def confirm(self, first: int, holder: object) -> None:
        """The log of this node has stored a run."""
        self._logging.pop(first).is_logged = True
        self._confirm()

    def _confirm(self) -> None:
        if self._is_in_doubt:
            return
        runs, turn = self._runs, self.turn
        while runs and runs[0].is_logged and (turn is None or runs[0].turn <= turn):
            run = runs.popleft()
            run.waiter.confirm(run.first, run.holder)
