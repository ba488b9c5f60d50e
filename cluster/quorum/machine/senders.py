"""The senders of commands: which number is next, which results may be lost.

Invariants:

QM1  The command n + 1 of a sender is applied after n, and once. Others change nothing.
QM2  A result is kept until its client has said that it has seen it.
QM3  A sender that has ended never comes back: neither it nor an earlier one of its node may join.

A node has one client of a queue. So a sender that joins is the client that was made again, or that
of the next run of the node, and the earlier senders of the node end. A client need not tell that it
ends, which it could not without a leader.
"""

from leveret.cluster.quorum.machine.consumers import Consumer
from leveret.cluster.quorum.machine.effects import Result


class Sender:
    """A client of the queue. applied: the number of its last command that was applied.

    consumers: by their numbers. results: those that the client has not said it has seen.
    has_ended: none of its further commands are applied. It is kept so that its client learns which
    of them were, until the next sender of its node joins.
    """

    __slots__ = (
        "applied", "consumers", "has_ended", "incarnation", "is_away", "node", "results", "sender",
    )  # fmt: skip

    def __init__(self, sender: int, node: str, incarnation: int) -> None:
        self.sender = sender
        self.node = node
        self.incarnation = incarnation
        self.applied = 1
        self.is_away = self.has_ended = False
        self.consumers: dict[int, Consumer] = {}
        self.results: list[Result] = []

    def saw(self, seen: int) -> None:
        """The results of commands through a number have arrived."""
        results = self.results
        while results and results[0].number <= seen:
            del results[0]


class Senders:
    """All senders. ended: by node, the highest number of those that have ended and are not kept."""

    __slots__ = ("ended", "known")

    def __init__(self) -> None:
        self.known: dict[int, Sender] = {}
        self.ended: dict[str, int] = {}

    def may_join(self, sender: int, node: str) -> bool:
        """Whether it is later than all others of its node."""
        last = max([one.sender for one in self.of_node(node)], default=0)
        return sender > max(last, self.ended.get(node, 0))

    def join(self, sender: int, node: str, incarnation: int) -> Sender:
        """A sender begins, which may join. All that its earlier ones held was returned."""
        for one in self.of_node(node):
            self.end(one)
        added = self.known[sender] = Sender(sender, node, incarnation)
        return added

    def end(self, sender: Sender) -> None:
        """A sender has ended."""
        assert sender.applied >= 1, "QM1: a sender that has not joined has ended"
        del self.known[sender.sender]
        self.ended[sender.node] = max(self.ended.get(sender.node, 0), sender.sender)

    def of_node(self, node: str) -> list[Sender]:
        """The senders of a node."""
        return [one for one in self.known.values() if one.node == node]
