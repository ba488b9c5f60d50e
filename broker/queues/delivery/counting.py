"""A queue's counts of its messages: totals since it was declared, or since the node started.

Counts grow by a run or a batch at a time. A sampler computes rates from them
(mgmt/statistics).
"""

from leveret.storage.messages.message import Entry


class QueueCounts:
    """The counts of one queue. Deliveries and gets without acks are counted apart.

    declared_at_s: wall-clock time; the start of the node if the queue is older. duplicates:
    messages that were not added. expired_on_time: those that left at their times, wherever they
    were in the queue.
    """

    __slots__ = (
        "acked", "declared_at_s", "delivered", "delivered_no_ack", "duplicates",
        "expired_on_time", "got", "got_empty", "got_no_ack", "published", "redelivered",
    )  # fmt: skip

    def __init__(self, now_s: float) -> None:
        self.published = self.delivered = self.delivered_no_ack = 0
        self.got = self.got_no_ack = self.got_empty = 0
        self.redelivered = self.acked = self.duplicates = self.expired_on_time = 0
        self.declared_at_s = now_s

    def note_got(self, entry: Entry | None, ack_required: bool) -> None:
        """A basic.get took an entry, or found none."""
        if entry is None:
            self.got_empty += 1
        elif ack_required:
            self.got += 1
        else:
            self.got_no_ack += 1
