"""A holder of publishers' runs that may fail alone: a queue on another node, or a mirror.

The log is a holder, too, but it fails only with the node. A holder that can fail alone must know
which publishers it owes a confirm, so that its failure settles or refuses exactly its runs.
"""

from collections import Counter

from leveret.broker.queues.contract.publication import Publisher


class ConfirmHolder:
    """Holds runs for publishers, by the numbers of their first messages."""

    __slots__ = ("_owed", "is_dead", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self._owed: Counter[Publisher] = Counter()

    def __repr__(self) -> str:
        return f"<ConfirmHolder {self.name!r}>"

    def hold(self, publisher: Publisher, first: int, count: int) -> None:
        """Hold a run, to confirm it later. A dead holder cannot hold anything."""
        assert not self.is_dead, f"{self!r} is dead and can hold nothing"
        publisher.hold(first, count, self)
        self._owed[publisher] += 1

    def confirm(self, publisher: Publisher, first: int) -> None:
        """Confirm a held run. Does nothing if the holder has died in between."""
        if self.is_dead:
            return
        self._owed[publisher] -= 1
        if not self._owed[publisher]:
            del self._owed[publisher]
        publisher.confirm(first, self)

    def die(self, is_settled: bool) -> None:
        """Settle or refuse the held runs; nothing is held or confirmed after this.

        is_settled: the held runs count as confirmed, as when the queue is deleted; otherwise they
        are refused.
        """
        self.is_dead = True
        owed, self._owed = self._owed, Counter()
        for publisher in owed:
            publisher.holder_died(self, is_settled)
