"""Contents that nodes have sent to a mirror, kept until the leader's decision about them arrives.

A sender is a node on one link. It numbers its messages to a queue, counting up, and
sends the same runs to the leader and to every mirror. The leader decides on them in the order in
which they were sent. A decision and its contents take different paths, so either may arrive first.

Invariants:

MQ5  Contents are published once: by the decision that names them, or by the next leader. Those of a
     sender are undecided from `decided` on; contents that a decision has named are in no run.
SE1  The runs of a sender are in the order of their numbers.
SE2  `bytes_held` is the sum of the bodies' sizes in all runs.
"""

from collections import deque
from typing import Final

from leveret.broker.queues.contract.publication import Publication
from leveret.storage.messages.intervals import NO_POSITION, Intervals


class ContentSender:
    """The contents of one sender.

    runs: the undecided ones. decided: decisions have named all numbers below. begin, arrived: the
    contents from `begin` up to `arrived` have arrived. end: contents from this number on are void.
    is_gone: its link to this node has ended, and it has not started again over another one.
    refused: numbers that decisions have refused. passed_over: numbers below were decided before
    this member began. told: the sender knows the outcome of numbers below.
    """

    __slots__ = (
        "arrived", "begin", "decided", "end", "is_gone", "passed_over", "refused", "runs", "told",
    )  # fmt: skip

    def __init__(self) -> None:
        self.runs: deque[Publication] = deque()
        self.decided = 0
        self.begin = 0
        self.arrived = 0
        self.end = NO_POSITION
        self.is_gone = False
        self.passed_over = 0
        self.refused = Intervals()
        self.told = 0


NO_RUNS: Final[list[Publication]] = []


class ContentSenders:
    """All senders to one queue. bytes_held: the bytes of the bodies of undecided contents."""

    __slots__ = ("_senders", "bytes_held")

    def __init__(self) -> None:
        self._senders: dict[int, ContentSender] = {}
        self.bytes_held = 0

    def _sender(self, number: int) -> ContentSender:
        sender = self._senders.get(number)
        if sender is None:
            sender = self._senders[number] = ContentSender()
        return sender

    # From the senders

    def led(self, number: int, decided: int, refused: Intervals) -> None:
        """Begin as a leader, which has decided on a sender's contents below a number."""
        sender = self._sender(number)
        sender.begin = sender.arrived = sender.decided = decided
        sender.refused.update(refused)

    def begins(self, number: int, first: int) -> None:
        """A sender sends its contents from a number on; earlier ones went only to other members.

        Raises ValueError.
        """
        sender = self._sender(number)
        if first < sender.arrived:
            raise ValueError(f"contents begin at {first}, after {sender.arrived - 1} has come")
        sender.is_gone = False
        if first > sender.arrived:
            sender.begin = sender.arrived = first

    def next_of(self, number: int) -> int:
        """The number of a sender's next contents, if none before them are missing."""
        return self._sender(number).arrived

    def add(self, run: Publication) -> None:
        """A run has arrived. Raises ValueError if it does not follow its sender's last one."""
        sender = self._sender(run.sender)
        if run.number != sender.arrived:
            raise ValueError(f"contents {run.number} follow those before {sender.arrived}")
        sender.arrived = run.end
        for part in self._wanted(sender, run):
            sender.runs.append(part)
            self.bytes_held += part.body_bytes

    def _wanted(self, sender: ContentSender, run: Publication) -> list[Publication]:
        """The parts of a run that decisions have not refused, voided, or named before."""
        if sender.decided <= run.number and run.end <= sender.end:
            return [run]
        start, end = max(sender.decided, run.number), min(sender.end, run.end)
        return [run.numbered(start, end)] if start < end else NO_RUNS

    def gone(self, number: int) -> None:
        """The link of a sender has ended: no more of its contents will come."""
        self._sender(number).is_gone = True

    def told(self, number: int, end: int) -> None:
        """A sender knows the outcome of its contents below a number: forget their refusals."""
        sender = self._sender(number)
        sender.told = max(sender.told, end)
        sender.refused.remove_range(0, end)

    # From decisions

    def has(self, number: int, first: int, count: int) -> bool:
        """Whether all of these contents have arrived."""
        sender = self._sender(number)
        return sender.begin <= first and first + count <= sender.arrived

    def lacks(self, number: int, first: int, count: int) -> bool:
        """Whether some of these contents never come."""
        sender = self._sender(number)
        is_cut = sender.is_gone and sender.arrived < first + count
        return is_cut or first < sender.begin

    def take(self, number: int, first: int, count: int) -> list[Publication]:
        """Take out the contents named by a decision, as many of them as have arrived."""
        sender = self._sender(number)
        assert sender.decided <= first, "MQ5: a decision names contents twice"
        runs, end = sender.runs, first + count
        sender.decided = end
        found: list[Publication] = []
        while runs and runs[0].number < end:
            run = self._pop(runs, end)
            if run.end > first:
                found.append(run.numbered(first, end))
        return found

    def _pop(self, runs: deque[Publication], end: int) -> Publication:
        """Take out the part of the first run that is below a number."""
        run = runs.popleft()
        self.bytes_held -= run.body_bytes
        if run.end > end:
            left = run.numbered(end, run.end)
            runs.appendleft(left)
            self.bytes_held += left.body_bytes
            run = run.numbered(run.number, end)
        return run

    def refuse(self, number: int, first: int, count: int) -> None:
        """Contents are never published, whether they have arrived or not."""
        sender = self._sender(number)
        sender.refused.add_range(first, first + count)
        self.skip(number, first + count)

    def lost(self, number: int, start: int, end: int) -> None:
        """Contents that a decision has named are not here, and this member leads next: their
        publishers are refused.
        """
        self._sender(number).refused.add_range(start, end)

    def skip(self, number: int, end: int) -> None:
        """All contents below a number are decided."""
        sender = self._sender(number)
        sender.decided = max(sender.decided, end)
        while sender.runs and sender.runs[0].number < end:
            self._pop(sender.runs, end)

    def pass_over(self, number: int, end: int) -> None:
        """All contents below a number were decided before this member began."""
        self._sender(number).passed_over = end
        self.skip(number, end)

    def lose_passed_over(self) -> None:
        """Contents decided before this member began may not be here, and it leads next: senders
        that do not know the outcome are refused.
        """
        for sender in self._senders.values():
            if sender.told < sender.passed_over:
                sender.refused.add_range(sender.told, sender.passed_over)

    def end(self, number: int, end: int) -> None:
        """The contents of a sender from a number on are void."""
        sender = self._sender(number)
        sender.end = end
        while sender.runs and sender.runs[-1].end > end:
            run = sender.runs.pop()
            self.bytes_held -= run.body_bytes
            if run.number < end:
                left = run.numbered(run.number, end)
                sender.runs.append(left)
                self.bytes_held += left.body_bytes

    def forget(self, number: int) -> None:
        """Forget a sender that has ended and needs no more answers."""
        sender = self._senders.pop(number, None)
        if sender is not None:
            self.bytes_held -= sum([run.body_bytes for run in sender.runs])

    # For the next leader

    def undecided(self) -> list[Publication]:
        """The contents that no decision has named, sender by sender, in their order."""
        return [run for sender in self._senders.values() for run in sender.runs]

    def decided(self) -> dict[int, int]:
        """For each sender, the number below which its contents are decided."""
        return {number: sender.decided for number, sender in self._senders.items()}

    def refusals(self) -> dict[int, Intervals]:
        """The refused numbers of each sender that may not know of them."""
        return {
            number: sender.refused for number, sender in self._senders.items() if sender.refused
        }
