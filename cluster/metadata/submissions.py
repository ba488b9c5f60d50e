"""The unanswered submissions of this node.

A submission goes to the coordinator of the view. When another view is installed, submissions that
are not in the log by then go to the new coordinator under the same id; the log shows which these
are, so that each is applied once (V6). Submissions are sent in order, a limited number at a time;
the rest wait here.

    submit ─► waiting ─► sent ─► in the log (at an index) ─► stable ─► answered
                 ▲        │
                 └────────┘ another view, and not in its log
"""

from collections import OrderedDict

from leveret.cluster.metadata.messages import LogEntry, SubmissionId
from leveret.cluster.metadata.outputs import DONE, REFUSED, AnswerClient

IN_FLIGHT_MAX = 500
"""Submissions of one node at the coordinator: bounds its memory, and is enough for a sync's time.
"""
PENDING_MAX = 50_000
"""Unanswered submissions of one node; above it they fail at once. Channels submit one at a time."""


class Submissions:
    """The pending submissions of one run of a node."""

    def __init__(
        self,
        origin: str,
        incarnation: int,
        in_flight_max: int = IN_FLIGHT_MAX,
        pending_max: int = PENDING_MAX,
    ) -> None:
        self._origin = origin
        self._incarnation = incarnation
        self._in_flight_max = in_flight_max
        self._pending_max = pending_max
        self._number = 0
        self._waiting: OrderedDict[SubmissionId, bytes] = OrderedDict()
        self._sent: OrderedDict[SubmissionId, bytes] = OrderedDict()
        self._in_log: OrderedDict[SubmissionId, LogEntry] = OrderedDict()

    def __len__(self) -> int:
        """The number of unanswered submissions."""
        return len(self._waiting) + len(self._sent) + len(self._in_log)

    @property
    def is_full(self) -> bool:
        """Whether no more submissions are accepted."""
        return len(self) >= self._pending_max

    def add(self, payload: bytes) -> SubmissionId:
        """Queue a new submission; return its id."""
        submission = self.next_id()
        self._waiting[submission] = payload
        return submission

    def next_id(self) -> SubmissionId:
        """An id that was not used before."""
        self._number += 1
        return SubmissionId(self._origin, self._incarnation, self._number)

    def take_next(self) -> tuple[SubmissionId, bytes] | None:
        """The next submission to send, if the coordinator has room; it then counts as sent."""
        if not self._waiting or len(self._sent) + len(self._in_log) >= self._in_flight_max:
            return None
        submission, payload = self._waiting.popitem(last=False)
        self._sent[submission] = payload
        return submission, payload

    def appeared(self, entry: LogEntry) -> None:
        """Note an entry of the log, which may be the outcome of one of these submissions."""
        submission = entry.submission
        known = self._sent.pop(submission, None)
        if known is None:
            known = self._waiting.pop(submission, None)
        if known is not None:
            self._in_log[submission] = entry

    def start_again(self) -> None:
        """Queue submissions that were sent but are not in the log first: another view holds."""
        for submission in reversed(self._sent):
            self._waiting[submission] = self._sent[submission]
            self._waiting.move_to_end(submission, last=False)
        self._sent.clear()

    def stable(self, index: int) -> list[AnswerClient]:
        """The answers to the submissions in the log up to the index."""
        answers = []
        while self._in_log:
            submission, entry = next(iter(self._in_log.items()))
            if entry.index > index:
                break
            del self._in_log[submission]
            refused = entry.is_refused
            answers.append(
                AnswerClient(submission, REFUSED, entry.payload)
                if refused
                else AnswerClient(submission, DONE)
            )
        return answers

    def drain(self) -> list[SubmissionId]:
        """Give up all submissions."""
        given_up = [*self._in_log, *self._sent, *self._waiting]
        self._in_log.clear()
        self._sent.clear()
        self._waiting.clear()
        return given_up
