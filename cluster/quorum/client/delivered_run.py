"""Deliveries that have arrived at this node and are not decoded yet."""

from leveret.cluster.quorum.machine.runs import Run


class DeliveredRun:
    """One run of deliveries to a consumer.

    data: the bytes of a run of messages (remote_queues/message_runs.py), which begins at `start`;
    `run.place` is the place of the first delivery in it.
    """

    __slots__ = ("data", "run", "start")

    def __init__(self, run: Run, data: bytes, start: int) -> None:
        self.run = run
        self.data = data
        self.start = start

    def __repr__(self) -> str:
        return f"<{self.run.count} deliveries from position {self.run.position}>"

    def after(self, skipped: int) -> "DeliveredRun":
        """The run without its first deliveries."""
        run = self.run
        return DeliveredRun(run.part(skipped, run.count - skipped), self.data, self.start)
