"""The links of a simulated group, and the trace of what happened in it.

A link is two queues, which keep order. It tells each end that it is up before it brings messages,
and that it is down after them; when it breaks, any number of the last messages on the way are lost.
"""

from collections import deque
from collections.abc import Iterator
from itertools import permutations

DOWN = "down"
Item = bytes | int | str
"""On a link: a message, or that the link is up or down."""
Action = tuple[object, ...]


class Links:
    """Those between all nodes. cut: the directions in which nothing arrives."""

    def __init__(self, names: str) -> None:
        self.ways: dict[tuple[str, str], deque[Item]] = {
            way: deque() for way in permutations(names, 2)
        }
        self.connected: set[frozenset[str]] = set()
        self.cut: set[tuple[str, str]] = set()
        self.trace: list[Action] = []

    def lines(self) -> Iterator[str]:
        """The trace."""
        return (" ".join(map(str, action)) for action in self.trace)

    def is_running(self, name: str) -> bool:
        """Whether a node runs."""
        raise NotImplementedError

    def up(self, name: str) -> Item:
        """What a new link tells the other end about a node."""
        raise NotImplementedError

    def may_connect(self, one: str, other: str) -> bool:
        """Whether a link that is down can come up."""
        return (
            frozenset((one, other)) not in self.connected
            and self.is_running(one)
            and self.is_running(other)
            and not self.ways[one, other]
            and not self.ways[other, one]
        )

    def _connect(self, one: str, other: str) -> None:
        self.connected.add(frozenset((one, other)))
        self.ways[one, other].append(self.up(one))
        self.ways[other, one].append(self.up(other))

    def _break(self, one: str, other: str, kept: int) -> None:
        self._end_way(one, other, kept)
        self._end_way(other, one, kept)
        self.connected.discard(frozenset((one, other)))

    def _end_way(self, sender: str, receiver: str, kept: int) -> None:
        if frozenset((sender, receiver)) not in self.connected:
            return
        self.cut.discard((sender, receiver))
        way = self.ways[sender, receiver]
        marks = [at for at, item in enumerate(way) if not isinstance(item, bytes)]
        least = marks[-1] + 1 if marks else 0
        while len(way) > least + kept:
            way.pop()
        way.append(DOWN)
