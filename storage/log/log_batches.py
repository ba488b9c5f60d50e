"""Which of a queue's messages the log has on disk, by the batches in which they were appended.

The position of a queue's first message in each batch is kept. One batch gathers while another is
written, so two are enough: messages appended before both are on disk.

Invariants:

LB1  Every persistent message of the queue below `logged_to` is in the log, on disk.
LB2  Of the two batches kept, the later one has the higher position.
"""


class LogBatches:
    """The last two batches of the log with messages of one queue.

    batch: the last of them; the queue compares it with the log's when it publishes.
    """

    __slots__ = ("_before", "_before_from", "_from", "batch")

    def __init__(self) -> None:
        self.batch = self._from = 0
        self._before = self._before_from = 0

    def begin(self, position: int, batch: int) -> None:
        """Note the position of the queue's first message in a batch of the log."""
        assert position >= self._from, "LB2"
        self._before, self._before_from = self.batch, self._from
        self.batch, self._from = batch, position

    def logged_to(self, written: int, next_position: int) -> int:
        """The position below which the log has all of the queue's persistent messages on disk.

        written: the last batch on disk. next_position: the queue's.
        """
        if self._before > written:
            return self._before_from
        return self._from if self.batch > written else next_position
