"""A limit on log lines that clients can cause: a few a minute for each subject.

Omitted lines are counted, and the next line of their subject states the count. Clients choose the
subjects, so their number is limited, too: those beyond the limit share one subject.
"""

LINES_A_MINUTE = 3
MINUTE_MS = 60_000
SUBJECTS_MAX = 200
OTHERS = "others"


class LogLimit:
    """Decides which lines are logged."""

    def __init__(self) -> None:
        # By subject: the start of its minute, the lines in it, and the omitted lines.
        self._minutes: dict[str, tuple[int, int, int]] = {}

    def permit(self, subject: str, now_ms: int) -> str | None:
        """Return the text to append to the line, possibly empty; None: do not log it."""
        self._forget_old(now_ms)
        if subject not in self._minutes and len(self._minutes) >= SUBJECTS_MAX:
            subject = OTHERS
        began, lines, left_out = self._minutes.get(subject, (now_ms, 0, 0))
        if now_ms - began >= MINUTE_MS:
            began, lines = now_ms, 0
        if lines >= LINES_A_MINUTE:
            self._minutes[subject] = (began, lines, left_out + 1)
            return None
        self._minutes[subject] = (began, lines + 1, 0)
        return f" ({left_out} more such lines were left out)" if left_out else ""

    def _forget_old(self, now_ms: int) -> None:
        """Make room: forget subjects whose last line is two minutes old."""
        if len(self._minutes) >= SUBJECTS_MAX:
            self._minutes = {
                subject: one
                for subject, one in self._minutes.items()
                if now_ms - one[0] < 2 * MINUTE_MS
            }
