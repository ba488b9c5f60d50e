"""The groups of single active consumers of a stream, on the leader's node.

Each node with consumers asks which of its own is active, and the question is held until that
changes (member_questions.py). A node that has not asked for `LEASE_MS` is gone with its consumers.

A new leader knows no consumers. It waits `GRACE_MS` before it decides, so that nodes name the
consumer that the last leader has made active: it stays active.
"""

from collections.abc import Callable
from typing import Final

from leveret.broker.runtime.clock import Clock, Timer
from leveret.cluster.streams.client.member_questions import (
    HELD_MS,
    ActiveConsumer,
    AskGroup,
    encode,
)
from leveret.cluster.streams.consumer_group import ConsumerGroup

LEASE_MS: Final = 3 * HELD_MS
GRACE_MS: Final = 1000
"""Nodes ask a new leader at once, which takes a few round trips."""

BytesAnswer = Callable[[bytes | None], object]


class _Held:
    """A question of one client that is not answered yet."""

    __slots__ = ("answer", "asked", "timer")

    def __init__(self, asked: AskGroup, answer: BytesAnswer, timer: Timer) -> None:
        self.asked = asked
        self.answer = answer
        self.timer = timer


class LedGroup:
    """One group. clients: the consumers of each client."""

    def __init__(self, partition: int, clock: Clock, ended: Callable[[], object]) -> None:
        self.clients: dict[int, list[str]] = {}
        self._group = ConsumerGroup(partition)
        self._clock = clock
        self._ended = ended
        self._held: dict[int, _Held] = {}
        self._leases: dict[int, Timer] = {}

    def ask(self, asked: AskGroup, answer: BytesAnswer) -> None:
        """Answer when the state of a client's consumers is another one than it has seen."""
        self._answer(asked.client)
        self._take_consumers(asked)
        if asked.stopped:
            self._group.stopped(_name(asked.client, asked.stopped))
        if asked.consumers:
            timer = self._clock.call_later_ms(HELD_MS, lambda: self._answer(asked.client))
            self._held[asked.client] = _Held(asked, answer, timer)
        else:
            answer(encode(ActiveConsumer()))
        self._look()
        if not self.clients:
            self._ended()

    def _take_consumers(self, asked: AskGroup) -> None:
        client = asked.client
        known = self.clients.get(client, [])
        wanted = {_name(client, number): number for number in asked.consumers}
        for consumer in [one for one in known if one not in wanted]:
            self._group.leave(consumer)
        for consumer, number in wanted.items():
            if consumer not in known:
                self._group.join(consumer, is_active=number == asked.active)
        self.clients[client] = list(wanted)
        lease = self._leases.pop(client, None)
        if lease is not None:
            lease.cancel()
        if wanted:
            self._leases[client] = self._clock.call_later_ms(LEASE_MS, lambda: self._lost(client))
        else:
            del self.clients[client]

    def _lost(self, client: int) -> None:
        """A node has not asked for long: its consumers are gone."""
        self._leases.pop(client, None)
        for consumer in self.clients.pop(client, []):
            self._group.leave(consumer)
        self._look()
        if not self.clients:
            self._ended()

    def _look(self) -> None:
        """Answer the clients whose state has changed."""
        for client, held in list(self._held.items()):
            if self._state_of(client) != held.asked.seen:
                self._answer(client)

    def _answer(self, client: int) -> None:
        held = self._held.pop(client, None)
        if held is not None:
            held.timer.cancel()
            held.answer(encode(self._state_of(client)))

    def _state_of(self, client: int) -> ActiveConsumer:
        return ActiveConsumer(
            _number(client, self._group.active), _number(client, self._group.stopping)
        )

    def close(self) -> None:
        """End: another node leads, and the questions are for it."""
        for held in self._held.values():
            held.timer.cancel()
            held.answer(None)
        self._held.clear()
        for lease in self._leases.values():
            lease.cancel()


class LedGroups:
    """The groups of one stream, while this node leads it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._groups: dict[bytes, LedGroup] = {}
        self._early: list[tuple[AskGroup, BytesAnswer]] = []
        self._grace: Timer | None = None

    def lead(self, *, is_new: bool) -> None:
        """Begin to lead. is_new: the stream was declared just now: there are no consumers."""
        self.close()
        if not is_new:
            self._grace = self._clock.call_later_ms(GRACE_MS, self._decide)

    def _decide(self) -> None:
        """Take the questions that came early: those with active consumers first."""
        self._grace = None
        early, self._early = self._early, []
        for asked, answer in sorted(early, key=lambda one: not one[0].active):
            self.ask(asked, answer)

    def ask(self, asked: AskGroup, answer: BytesAnswer) -> None:
        """Answer a client."""
        if self._grace is not None:
            self._early.append((asked, answer))
            return
        name = asked.name
        group = self._groups.get(name)
        if group is None:
            group = LedGroup(asked.partition, self._clock, lambda: self._groups.pop(name, None))
            self._groups[name] = group
        group.ask(asked, answer)

    def close(self) -> None:
        """End: another node leads, or none."""
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None
        early, self._early = self._early, []
        groups, self._groups = self._groups, {}
        for _, answer in early:
            answer(None)
        for group in groups.values():
            group.close()


def _name(client: int, number: int) -> str:
    return f"{client}/{number}"


def _number(client: int, consumer: str) -> int:
    """The number of a consumer, if it is one of this client's; 0 otherwise."""
    of_client, _, number = consumer.partition("/")
    return int(number) if of_client == str(client) else 0
