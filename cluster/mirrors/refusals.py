"""The messages of a sender that a leader has refused: a publisher without a channel behind it.

A new leader publishes contents whose senders wait for the confirm, but it learns only later which
of them do (`OWED` in mirror_frames.py). What it refuses meanwhile is kept here.
"""

from leveret.storage.intervals import Intervals


class Refusals:
    """See `leveret.broker.queues.queue_client.Publisher`. numbers: of the refused messages."""

    __slots__ = ("numbers",)

    def __init__(self, numbers: Intervals) -> None:
        self.numbers = numbers

    def hold(self, first: int, count: int, holder: object) -> None:
        """Do nothing: nobody is confirmed."""

    def confirm(self, first: int, holder: object) -> None:
        """Do nothing: nobody is confirmed."""

    def refuse(self, number: int) -> None:
        """A queue refuses the message with this number."""
        self.numbers.add(number)

    def holder_died(self, holder: object, is_settled: bool) -> None:
        """Do nothing: nobody is confirmed."""
