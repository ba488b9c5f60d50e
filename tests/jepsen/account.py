"""The account of a run: what was published, confirmed, consumed and discarded, and when.

`problems` says what must not be. `standstills` says how long publishing stood still, and after
what.
"""

from bisect import bisect_right
from collections import Counter
from itertools import pairwise
from typing import NamedTuple

SHOWN = 20
NOTED_SECONDS = 0.1
"""An event is noted up to this much later than what it leads to can be seen."""


WHOLE = "all are there"
"""The event that ends a fault."""
SETTLED_SECONDS = 3.0
"""After so long without a fault all nodes know the leaders, and these know all clients."""


class Event(NamedTuple):
    """Something was done to nodes. spared: the nodes whose clients should be served after it."""

    at_s: float
    what: str
    spared: frozenset[str]


class Standstill(NamedTuple):
    """A publisher of a queue had nothing confirmed for so long. after: the event before it."""

    seconds: float
    after: str
    queue: str
    at_s: float


class Account:
    """What clients saw. A message is known by its body's first word; times are in seconds."""

    def __init__(self) -> None:
        self.published: set[str] = set()
        self.confirmed: dict[str, float] = {}
        self.consumed: Counter[str] = Counter()
        self.acked: set[str] = set()
        self.discarded: set[str] = set()
        self.doubled: set[str] = set()
        self.disordered: list[str] = []
        self.events: list[Event] = []
        self._confirms: dict[tuple[str, str], list[float]] = {}
        self._first_deliveries: set[str] = set()

    def confirm(self, message: str, node: str, queue: str, at_s: float) -> None:
        """A publisher that is connected to a node has a message confirmed."""
        self.confirmed[message] = at_s
        self._confirms.setdefault((node, queue), []).append(at_s)

    def consume(self, message: str, is_again: bool, last_of: dict[str, int]) -> None:
        """A message was delivered. is_again: with the mark of a redelivery.

        last_of: the numbers of the last messages that this consumer got for the first time, by
        their publisher.
        """
        self.consumed[message] += 1
        if is_again:
            return
        if message in self._first_deliveries:
            self.doubled.add(message)
        self._first_deliveries.add(message)
        publisher, _, number = message.partition("#")
        if int(number) < last_of.get(publisher, 0):
            self.disordered.append(f"{message} after #{last_of[publisher]}")
        last_of[publisher] = max(int(number), last_of.get(publisher, 0))

    @property
    def duplicates(self) -> int:
        """How many deliveries were not the first one of their message."""
        return self.consumed.total() - len(self.consumed)

    @property
    def missing(self) -> set[str]:
        """The messages that were confirmed, and neither consumed nor discarded."""
        return self.confirmed.keys() - self.consumed.keys() - self.discarded

    def problems(self, is_exact: bool = False) -> list[str]:
        """What must not be, after all queues were drained.

        is_exact: a message has one delivery without the mark of a redelivery, in order.
        """
        named = {
            "confirmed and missing": self.missing,
            "consumed and never published": self.consumed.keys() - self.published,
            "acknowledged and not consumed": self.acked - self.consumed.keys(),
        }
        if is_exact:
            named["doubled"] = self.doubled
        problems = [
            f"{len(which)} {what}: " + ", ".join(self._told(which))
            for what, which in named.items()
            if which
        ]
        if is_exact and self.disordered:
            shown = ", ".join(self.disordered[:SHOWN])
            problems.append(f"{len(self.disordered)} out of order: {shown}")
        return problems

    def _told(self, messages: set[str]) -> list[str]:
        """The first ones, with the time and the event before their confirm."""
        told = []
        for message in sorted(messages, key=lambda one: self.confirmed.get(one, 0.0))[:SHOWN]:
            at_s = self.confirmed.get(message)
            told.append(
                message if at_s is None else f"{message} (at {at_s:.2f}, {self._event(at_s).what})"
            )
        return told

    def more_figures(self) -> list[str]:
        """More lines to print."""
        return []

    def standstills(self) -> list[Standstill]:
        """The longest one after each event, of publishers at nodes that it spared."""
        longest: dict[str, Standstill] = {}
        for (node, queue), times in self._confirms.items():
            for before, then in pairwise(times):
                event = self._event(before)
                known = longest.get(event.what)
                if node in self._spared(before, then) and (
                    known is None or then - before > known.seconds
                ):
                    longest[event.what] = Standstill(then - before, event.what, queue, before)
        return sorted(longest.values(), reverse=True)

    def _event(self, at_s: float) -> Event:
        """The last event before a time."""
        index = bisect_right(self.events, at_s + NOTED_SECONDS, key=lambda one: one.at_s)
        return self.events[index - 1] if index else Event(0.0, "the start", frozenset())

    def _spared(self, start_s: float, end_s: float) -> frozenset[str]:
        """The nodes that all events of a time have spared."""
        spared = self._event(start_s).spared
        for event in self.events:
            if start_s < event.at_s < end_s:
                spared &= event.spared
        return spared


def is_peace(events: list[Event], at_s: float) -> bool:
    """Whether nothing has happened to the nodes since all were there for a while."""
    before = [one for one in events if one.at_s <= at_s]
    if not before:
        return True
    last = before[-1]
    return last.what == WHOLE and at_s - last.at_s > SETTLED_SECONDS
