"""A simulated cluster: virtual time, links between nodes, and nodes with disks, from one seed.

Everything that happens is an event in a heap, and every delay comes from one random generator, so a
seed gives the same run each time. Links keep order, as TCP does; what is sent while a direction is
blocked waits, and is lost if the block lasts until the link is given up (`TICK_TIME`).
"""

import heapq
import random
from collections import deque
from collections.abc import Callable, Iterator

DELAY_MAX = 40
DIAL_MAX = 300
TICK = 250
TICK_TIME = 2000
"""Milliseconds without a word from the other node until a link is given up."""


class Events:
    """The events that are due, in virtual milliseconds."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self.trace: deque[str] = deque(maxlen=100_000)

    def later(self, delay: int, act: Callable[[], None]) -> None:
        """Call `act` after a delay in milliseconds."""
        self._count += 1
        heapq.heappush(self._heap, (self.now + delay, self._count, act))

    def run_until(self, time: int) -> None:
        """Do everything that is due until then."""
        while self._heap and self._heap[0][0] <= time:
            self.now, _, act = heapq.heappop(self._heap)
            act()
        self.now = time

    def note(self, *words: object) -> None:
        """A line of the trace; words are made text when the trace is printed."""
        self.trace.append((self.now, words))

    def lines(self) -> Iterator[str]:
        """The trace."""
        for time, words in self.trace:
            yield f"{time:>7} {' '.join(str(word) for word in words)}"


class Direction:
    """One direction of a link: an ordered stream with random delays."""

    def __init__(self, events: Events, deliver: Callable[[object], None]) -> None:
        self._events = events
        self._deliver = deliver
        self._last = 0
        self._under_way: deque[object] = deque()
        self._stalled = 0
        self._is_over = False
        self.is_blocked = False
        self.delay_max = DELAY_MAX

    def send(self, item: object) -> None:
        """Send a message, which arrives after all that were sent before it."""
        self._under_way.append(item)
        self._wait()

    def _wait(self) -> None:
        """One more message arrives, after a delay: the first of those that are under way."""
        events = self._events
        self._last = max(self._last, events.now + events.random.randint(1, self.delay_max))
        events.later(self._last - events.now, self._arrive)

    def _arrive(self) -> None:
        if self._is_over:
            return
        if self.is_blocked:
            self._stalled += 1
        else:
            self._deliver(self._under_way.popleft())

    def unblock(self) -> None:
        """What was held goes on."""
        self.is_blocked = False
        stalled, self._stalled = self._stalled, 0
        for _ in range(stalled):
            self._wait()

    def end(self) -> None:
        """From now on nothing arrives."""
        self._is_over = True


class Link:
    """The link between two nodes: dialled until it is up, given up when nothing is heard."""

    def __init__(self, events: Events, left: "Endpoint", right: "Endpoint") -> None:
        self._events = events
        self._ends = (left, right)
        self._blocked = {left.name: False, right.name: False}
        self._directions: dict[str, Direction] = {}
        self._seen_up: set[str] = set()
        self._session = 0
        self._ends_to_tell = 0
        self._early: dict[str, list[object]] = {}
        self.is_up = False
        self.delay_max = DELAY_MAX
        self._dial()

    def _dial(self) -> None:
        self._events.later(self._events.random.randint(20, DIAL_MAX), self._try)

    def _try(self) -> None:
        reachable = all(end.is_alive for end in self._ends) and not any(self._blocked.values())
        if not reachable or self.is_up or self._ends_to_tell:
            self._dial()
            return
        self._session += 1
        self.is_up = True
        self._early = {end.name: [] for end in self._ends}
        for sender, receiver in (self._ends, self._ends[::-1]):
            self._directions[sender.name] = self._new_direction(sender, receiver)
        for end, other in (self._ends, self._ends[::-1]):
            self._tell_up(end, other, self._session)

    def _new_direction(self, sender: "Endpoint", receiver: "Endpoint") -> Direction:
        session, incarnation = self._session, receiver.incarnation

        def deliver(item: object) -> None:
            if session == self._session and receiver.incarnation == incarnation:
                if receiver.name in self._seen_up:
                    receiver.receive(sender.name, item)
                else:
                    self._early[receiver.name].append(item)

        direction = Direction(self._events, deliver)
        direction.delay_max = self.delay_max
        direction.is_blocked = self._blocked[sender.name]
        return direction

    def _tell_up(self, end: "Endpoint", other: "Endpoint", session: int) -> None:
        incarnations = (end.incarnation, other.incarnation)

        def tell() -> None:
            if session == self._session and self.is_up and end.incarnation == incarnations[0]:
                self._seen_up.add(end.name)
                end.linked(other.name, incarnations[1])
                early, self._early[end.name] = self._early[end.name], []
                for item in early:
                    end.receive(other.name, item)

        self._events.later(self._events.random.randint(1, self.delay_max), tell)

    def send(self, sender: str, item: object) -> None:
        """Send from one end, if it has the link."""
        if sender in self._seen_up and sender in self._directions:
            self._directions[sender].send(item)

    def break_off(self) -> None:
        """The session is over: each end hears of it after a while, the other not at all."""
        if not self.is_up:
            return
        self.is_up = False
        self._ends_to_tell = 2
        for end, other in (self._ends, self._ends[::-1]):
            incarnation = end.incarnation
            delay = self._events.random.randint(1, self.delay_max)
            self._events.later(delay, lambda e=end, o=other, i=incarnation: self._over(e, o, i))
        self._dial()

    def _over(self, end: "Endpoint", other: "Endpoint", incarnation: int) -> None:
        self._ends_to_tell -= 1
        self._directions[other.name].end()
        if end.name in self._seen_up:
            self._seen_up.discard(end.name)
            if end.incarnation == incarnation and end.is_alive:
                end.unlinked(other.name)

    def block(self, sender: str) -> None:
        """Nothing that one end sends arrives; after the tick time the link is given up."""
        self._blocked[sender] = True
        if self.is_up and sender in self._directions:
            self._directions[sender].is_blocked = True
        self.watch(sender)

    def watch(self, silent: str) -> None:
        """If an end is silent for the tick time, the link is over."""
        session = self._session

        def give_up() -> None:
            end = next(one for one in self._ends if one.name == silent)
            is_silent = self._blocked[silent] or end.is_paused
            if session == self._session and is_silent:
                self.break_off()

        self._events.later(TICK_TIME + self._events.random.randint(0, TICK_TIME // 4), give_up)

    @property
    def is_blocked(self) -> bool:
        """Whether one of the directions is blocked."""
        return any(self._blocked.values())

    def unblock(self, sender: str) -> None:
        """What one end sends arrives again."""
        self._blocked[sender] = False
        if self.is_up and sender in self._directions:
            self._directions[sender].unblock()

    def slow_down(self, delay_max: int) -> None:
        """Messages take up to so long."""
        self.delay_max = delay_max
        for direction in self._directions.values():
            direction.delay_max = delay_max


class Endpoint:
    """What a link knows of a node: the methods of `SimulatedNode` that it calls."""

    name: str
    incarnation: int
    is_alive: bool
    is_paused: bool

    def linked(self, name: str, incarnation: int) -> None:
        """The link is up."""

    def unlinked(self, name: str) -> None:
        """The link is down."""

    def receive(self, sender: str, item: object) -> None:
        """A message came."""
