"""The senders of commands: their next numbers, and results that may have been lost.

Invariants:

QM1  Command n + 1 of a sender is applied after command n, and once. Others change nothing.
QM2  A result is kept until its client has confirmed that it has seen it.
QM3  A sender that has ended never comes back: neither it nor an earlier one of its node may join.

A node has one client of a queue. So when a sender joins, the client was created again, or the node
was restarted, and the earlier senders of the node end. A client does not have to announce its end,
which would be impossible without a leader.
"""

from leveret.cluster.quorum.machine.consumers import ConsumerState
from leveret.cluster.quorum.machine.effects import Result


class Sender:
    """A client of the queue. applied: the number of its last command that was applied.

    consumers: by number. results: those that the client has not confirmed yet. has_ended: no more
    of its commands are applied. It is kept until the next sender of its node joins, so that the
    client learns which commands were applied.
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
        self.consumers: dict[int, ConsumerState] = {}
        self.results: list[Result] = []

    def saw(self, seen: int) -> None:
        """The results of commands through this number have arrived at the client."""
        results = self.results
        while results and results[0].number <= seen:
            del results[0]


class Senders:
    """All senders. ended: by node, the highest number of ended senders that are not kept."""

    __slots__ = ("ended", "known")

    def __init__(self) -> None:
        self.known: dict[int, Sender] = {}
        self.ended: dict[str, int] = {}

    def may_join(self, sender: int, node: str) -> bool:
        """Whether this sender is later than all others of its node."""
        last = max([one.sender for one in self.of_node(node)], default=0)
        return sender > max(last, self.ended.get(node, 0))

    def join(self, sender: int, node: str, incarnation: int) -> Sender:
        """Add a sender that may join. The messages of the earlier ones were returned before."""
        for one in self.of_node(node):
            self.end(one)
        added = self.known[sender] = Sender(sender, node, incarnation)
        return added

    def end(self, sender: Sender) -> None:
        """End a sender."""
        assert sender.applied >= 1, "QM1: a sender that has not joined has ended"
        del self.known[sender.sender]
        self.ended[sender.node] = max(self.ended.get(sender.node, 0), sender.sender)

    def of_node(self, node: str) -> list[Sender]:
        """The senders of a node."""
        return [one for one in self.known.values() if one.node == node]
