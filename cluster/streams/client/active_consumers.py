"""Single active consumers of a stream on one node: asks the leader's node, or decides itself.

Answers of this node are given in a later turn, as those of other nodes: a consumer that joins is
not told that it is active before its caller knows that it has joined.
"""

from collections.abc import Callable

from leveret.broker.queues.contract.stream import GroupConsumer
from leveret.broker.runtime.clock import Clock
from leveret.broker.runtime.turns import Actor, Turns
from leveret.cluster.streams.client.joined_groups import JoinedGroups, Retry
from leveret.cluster.streams.client.led_groups import LedGroups
from leveret.cluster.streams.client.member_questions import AskGroup, encode
from leveret.cluster.streams.client.stream_group import StreamGroup
from leveret.cluster.streams.client.stream_readers import BytesAnswer


class ActiveConsumers(Actor):
    """The groups that this node leads, and those that its consumers have joined.

    node: this one. client: the number of the stream's client. group: replaced by `ENDED_GROUP` at
    the end of the stream.
    """

    __slots__ = ("_answers", "_joined", "_led", "_node", "_turns", "_was_led", "group")

    def __init__(
        self, node: str, client: int, group: StreamGroup, turns: Turns, clock: Clock, retry: Retry
    ) -> None:
        super().__init__()
        self.group: StreamGroup = group
        self._node = node
        self._turns = turns
        self._was_led = not group.is_new
        self._led = LedGroups(clock)
        self._joined = JoinedGroups(client, self._ask, retry)
        self._answers: list[Callable[[], object]] = []

    @property
    def _leads(self) -> bool:
        """Whether the leader is on this node."""
        return self.group.leader == self._node

    def leader_found(self) -> None:
        """The leader is known: it has to be asked."""
        if self._leads:
            self._led.lead(is_new=not self._was_led)
        self._was_led = True
        self._joined.leader_found()

    def leader_lost(self) -> None:
        """The leader is not known, or cannot be reached."""
        self._led.close()

    def join(self, name: bytes, partition: int, consumer: GroupConsumer) -> None:
        """A consumer enters a group."""
        self._joined.join(name, partition, consumer)

    def leave(self, name: bytes, consumer: GroupConsumer) -> None:
        """A consumer leaves a group."""
        self._joined.leave(name, consumer)

    def stopped(self, name: bytes, consumer: GroupConsumer) -> None:
        """A consumer that was told to stop has stopped."""
        self._joined.stopped(name, consumer)

    def _ask(self, asked: AskGroup, answer: BytesAnswer) -> None:
        """Ask the leader's node."""
        leader = self.group.leader
        if leader and not self._leads:
            self.group.ask_member(leader, encode(asked), answer)
        else:
            self.answer(asked, lambda data: self._in_next_turn(lambda: answer(data)))

    def answer(self, asked: AskGroup, answer: BytesAnswer) -> None:
        """Answer a node with consumers. None if the leader is not on this node."""
        if self._leads:
            self._led.ask(asked, answer)
        else:
            answer(None)

    def _in_next_turn(self, answer: Callable[[], object]) -> None:
        self._answers.append(answer)
        self._turns.wake(self)

    def take_turn(self) -> None:
        """Give the answers of this node."""
        answers, self._answers = self._answers, []
        for answer in answers:
            answer()

    def close(self) -> None:
        """The stream has ended."""
        self._joined.close()
        self._led.close()
