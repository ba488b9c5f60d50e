"""The coordinator's part in a view: it orders submissions and counts applied entries.

Each view has its own object, so views cannot be mixed up. One submission is checked at a time,
after everything that was ordered before it has been applied to the coordinator's registry. While a
member is more than `window` entries behind, nothing is ordered (V8).

A check may take several turns, and the coordinator may be about to propose the next view when it
ends. Then members are bound (V1) and would not accept the entry. So a checked submission waits here
until the coordinator may order again, or the view ends.
"""

from collections import deque

from leveret.cluster.metadata.messages import LogEntry, SubmissionId, View

WINDOW = 1000
"""Limit of entries that not all members have applied: a tenth of the entries that logs keep, so
that survivors of a coordinator always have the entries that one of them lacks."""


class Ordering:
    """The order of one view. base: the index after which the view begins.

    last: the index of the last entry. stable: all members have applied everything up to it.
    """

    def __init__(self, view: View, base: int, window: int = WINDOW) -> None:
        self._window = window
        self.base = base
        self._applied = dict.fromkeys(view.names, -1)
        self._waiting: deque[tuple[SubmissionId, bytes]] = deque()
        self._checking: SubmissionId | None = None
        self._checked: tuple[bytes, bool] | None = None
        self._view = view.id
        self.stable = -1
        self.last = base

    def __len__(self) -> int:
        """The number of submissions that wait here."""
        return len(self._waiting)

    def add(self, submission: SubmissionId, payload: bytes) -> None:
        """Queue a submission for this view."""
        self._waiting.append((submission, payload))

    def take_next(self) -> tuple[SubmissionId, bytes] | None:
        """The submission to check next, if one may be checked now."""
        is_behind = self.last - max(self.base, self.stable) >= self._window
        if self._checking is not None or not self._waiting or is_behind:
            return None
        submission, payload = self._waiting.popleft()
        self._checking = submission
        return submission, payload

    def checked(self, submission: SubmissionId, payload: bytes, is_refused: bool) -> None:
        """Note the outcome of a check. payload, is_refused: see `LogEntry`."""
        assert submission == self._checking, f"{submission} is not being checked"
        self._checked = payload, is_refused

    def take_checked(self) -> LogEntry | None:
        """The entry of the checked submission, at the end of the log; None without one."""
        submission, outcome = self._checking, self._checked
        if submission is None or outcome is None:
            return None
        self._checking = self._checked = None
        self.last += 1
        return LogEntry(self._view, self.last, submission, *outcome)

    def applied(self, name: str, index: int) -> bool:
        """Note the index up to which a member has applied entries. Returns whether `stable`
        advances.
        """
        if name not in self._applied or index < self._applied[name]:
            return False
        assert index <= self.last, f"V4: {name} has applied {index} of {self.last}"
        self._applied[name] = index
        stable = min(self._applied.values())
        if stable <= self.stable:
            return False
        self.stable = stable
        return True
