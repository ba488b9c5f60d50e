"""The groups of single active consumers that consumers on this node have joined.

The leader's node decides which consumer is active (led_groups.py). There is always a question to
it, which it answers when something has changed. A later question takes the place of an earlier one.
"""

from collections.abc import Callable
from itertools import count

from leveret.broker.queues.contract.stream import GroupConsumer
from leveret.cluster.streams.client.member_questions import (
    ActiveConsumer,
    AskGroup,
    MemberQuestionError,
    decode_state,
)

Ask = Callable[[AskGroup, Callable[[bytes | None], object]], object]
"""Asks the leader's node. The answer is None if that has no leader."""
Retry = Callable[[Callable[[], object]], object]
"""Calls back when there is a leader, or after a while."""


class JoinedGroup:
    """The consumers of one group on this node."""

    def __init__(self, client: int, name: bytes, partition: int, ask: Ask, retry: Retry) -> None:
        self._client = client
        self._name = name
        self._partition = partition
        self._ask_leader = ask
        self._retry = retry
        self._consumers: dict[int, GroupConsumer] = {}
        self._active = self._stopped = self._asked = 0
        self._stopping: set[int] = set()
        self._seen = ActiveConsumer()

    @property
    def is_empty(self) -> bool:
        """Whether all consumers have left."""
        return not self._consumers

    def join(self, number: int, consumer: GroupConsumer) -> None:
        """Add a consumer."""
        self._consumers[number] = consumer
        self.ask()

    def leave(self, consumer: GroupConsumer) -> None:
        """Remove a consumer."""
        for number, one in list(self._consumers.items()):
            if one is consumer:
                del self._consumers[number]
                self._stopping.discard(number)
                if self._active == number:
                    self._active = 0
                self.ask()

    def stopped(self, consumer: GroupConsumer) -> None:
        """A consumer that was told to stop has stopped."""
        for number in list(self._stopping):
            if self._consumers.get(number) is consumer:
                self._stopping.remove(number)
                self._stopped = number
                self.ask()
                self._stopped = 0

    def ask(self) -> None:
        """Ask the leader's node for changes."""
        self._asked += 1
        asked = self._asked
        question = AskGroup(
            self._client, self._name, self._partition, tuple(self._consumers), self._active,
            self._stopped, self._seen,
        )  # fmt: skip
        self._ask_leader(question, lambda data: self._answered(asked, question, data))

    def _answered(self, asked: int, question: AskGroup, data: bytes | None) -> None:
        if asked != self._asked:
            return
        try:
            state = None if data is None else decode_state(data)
        except MemberQuestionError:
            state = None
        if state is None:
            # Consumers have to stop again if the next leader says so.
            self._seen = ActiveConsumer()
            self._retry(lambda: self._ask_again(asked))
            return
        self._seen = state
        self._take(state)
        if self._consumers and asked == self._asked:
            self.ask()

    def _ask_again(self, asked: int) -> None:
        if asked == self._asked and self._consumers:
            self.ask()

    def _take(self, state: ActiveConsumer) -> None:
        """Tell consumers to begin or to stop."""
        before = self._active
        if before and before != state.active:
            self._active = 0
            self._stopping.add(before)
            self._consumers[before].update(is_active=False)
        if state.stopping in self._consumers and state.stopping not in self._stopping:
            self._stopping.add(state.stopping)
            self._consumers[state.stopping].update(is_active=False)
        if state.active in self._consumers and state.active != before:
            self._active = state.active
            self._consumers[state.active].update(is_active=True)


def _nothing(*_: object) -> None:
    """Stands for questions after the end of the stream."""


class JoinedGroups:
    """The groups of one stream. client: the number of the stream's client on this node."""

    def __init__(self, client: int, ask: Ask, retry: Retry) -> None:
        self._client = client
        self._ask = ask
        self._retry = retry
        self._groups: dict[bytes, JoinedGroup] = {}
        self._numbers = count(1)

    def join(self, name: bytes, partition: int, consumer: GroupConsumer) -> None:
        """A consumer enters a group."""
        group = self._groups.get(name)
        if group is None:
            group = JoinedGroup(self._client, name, partition, self._ask, self._retry)
            self._groups[name] = group
        group.join(next(self._numbers), consumer)

    def leave(self, name: bytes, consumer: GroupConsumer) -> None:
        """A consumer leaves a group."""
        group = self._groups.get(name)
        if group is not None:
            group.leave(consumer)
            if group.is_empty:
                self._groups.pop(name, None)

    def stopped(self, name: bytes, consumer: GroupConsumer) -> None:
        """A consumer that was told to stop has stopped."""
        group = self._groups.get(name)
        if group is not None:
            group.stopped(consumer)

    def leader_found(self) -> None:
        """Another leader has to be asked."""
        for group in list(self._groups.values()):
            group.ask()

    def close(self) -> None:
        """The stream has ended. Nothing refers to its client any longer."""
        self._groups.clear()
        self._ask = self._retry = _nothing
