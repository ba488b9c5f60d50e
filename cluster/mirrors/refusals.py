"""The messages of a sender that a leader has refused: a publisher without a channel behind it.

A new leader publishes contents before it learns which senders wait for confirms (`OWED` in
mirror_frames.py). Messages that it refuses before that are kept here.
"""

from leveret.storage.messages.intervals import Intervals


class Refusals:
    """A `Publisher` that keeps refusals. numbers: those of the refused messages."""

    __slots__ = ("numbers",)

    def __init__(self, numbers: Intervals) -> None:
        self.numbers = numbers

    def hold(self, first: int, count: int, holder: object) -> None:
        """Do nothing: no publisher waits here."""

    def confirm(self, first: int, holder: object) -> None:
        """Do nothing: no publisher waits here."""

    def refuse(self, number: int) -> None:
        """A queue refuses the message with this number."""
        self.numbers.add(number)

    def holder_died(self, holder: object, is_settled: bool) -> None:
        """Do nothing: no publisher waits here."""
