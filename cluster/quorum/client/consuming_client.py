"""A node's use of one quorum queue: its commands to the group, and its consumers.

**Promises.** Those of `GroupClient`, and: each delivery arrives once, over all leaders.

**Not promised.** That deliveries stay valid if the group considers this node down. It ends the
sender then: it ends the sender's consumers, and returns the messages that they held. The next
sender subscribes the consumers again.
"""

from abc import abstractmethod

from mypy_extensions import mypyc_attr

from leveret.cluster.quorum.client.delivered_run import DeliveredRun
from leveret.cluster.quorum.client.holders import Holder, Holders
from leveret.cluster.replicated_queues.client.group_client import (
    ClientSenders,
    GroupClient,
    GroupClientOutput,
)
from leveret.cluster.replicated_queues.client.numbered_command import NumberedCommand


class TellDeliveredBytes(GroupClientOutput):
    """Tell the leader how many bytes a consumer was handed."""

    __slots__ = ("consumer", "octets", "session")

    def __init__(self, session: int, consumer: int, octets: int) -> None:
        self.session = session
        self.consumer = consumer
        self.octets = octets


@mypyc_attr(allow_interpreted_subclasses=True)
class ConsumerCommand(NumberedCommand):
    """A command that subscribes a consumer, or takes one message (basic.get).

    holder: holds the messages that it gets. With each new number the command gets a new holder.
    """

    __slots__ = ("holder",)

    def __init__(self) -> None:
        super().__init__()
        self.holder = Holder(0)

    @abstractmethod
    def arrived(self, runs: list[DeliveredRun]) -> None:
        """Take deliveries that have arrived. The list and its runs now belong to the consumer."""

    @abstractmethod
    def withheld(self, runs: list[DeliveredRun]) -> None:
        """It was cancelled, and holds messages that are not sent to it: return them."""

    def active_changed(self, is_active: bool) -> None:
        """It has become the queue's single active consumer, or no longer is."""

    @abstractmethod
    def timed_out(self, positions: list[int]) -> None:
        """The group has taken back deliveries that were held for too long. It delivers no more
        messages until these are settled, or the consumer is cancelled. positions: intervals.
        """

    @abstractmethod
    def holder_ended(self) -> None:
        """The group has ended the sender, and has taken back the consumer's deliveries."""


class ConsumingClient(GroupClient):
    """A node's use of one quorum queue. holders: see holders.py."""

    __slots__ = ("_subscriptions", "holders")

    def __init__(self, senders: ClientSenders) -> None:
        super().__init__(senders)
        self.holders = Holders()
        # The subscriptions that get messages, or will get some, by number.
        self._subscriptions: dict[int, ConsumerCommand] = {}

    def _number(self, command: NumberedCommand) -> None:
        super()._number(command)
        if isinstance(command, ConsumerCommand):
            holder = command.holder = self.holders.add()
            holder.number = command.number
            self._subscriptions[command.number] = command

    def took(self, subscription: ConsumerCommand, octets: int) -> None:
        """A consumer was handed messages of this size. A later session begins without this."""
        if self._is_attached:
            self._outputs.append(TellDeliveredBytes(self.session, subscription.number, octets))

    def forget(self, subscription: ConsumerCommand) -> None:
        """Drop a subscription, which was cancelled or whose message was taken."""
        if self._subscriptions.pop(subscription.number, None) is not None:
            self.holders.close(subscription.holder)

    def received(self) -> dict[int, int]:
        """For each consumer, by its number, the number of the last delivery that has arrived."""
        received: dict[int, int] = {}
        for number, subscription in self._subscriptions.items():
            received[number] = subscription.holder.received
        return received

    # Messages from the leader

    def deliver(self, session: int, consumer: int, runs: list[DeliveredRun]) -> None:
        """Deliveries to a consumer."""
        if session != self.session:
            return
        subscription = self._subscriptions.get(consumer)
        if subscription is not None and (fresh := subscription.holder.receive(runs)):
            subscription.arrived(fresh)

    def withheld(self, session: int, consumer: int, runs: list[DeliveredRun]) -> None:
        """A cancelled consumer holds messages that are not sent to it."""
        subscription = self._subscriptions.get(consumer)
        if session == self.session and subscription is not None:
            subscription.withheld(subscription.holder.receive(runs))

    def timed_out(self, session: int, consumer: int, positions: list[int]) -> None:
        """A consumer has held deliveries for too long. Each new leader says this again."""
        if session == self.session and consumer in self._subscriptions:
            self._subscriptions[consumer].timed_out(positions)

    def active_changed(self, session: int, consumer: int, is_active: bool) -> None:
        """A consumer has become the queue's single active one, or no longer is."""
        if session == self.session and consumer in self._subscriptions:
            self._subscriptions[consumer].active_changed(is_active)

    def _begin_next(self, again: list[NumberedCommand]) -> None:
        """Start the next sender, which subscribes the consumers again."""
        seen = self._commands.seen
        self.holders.end_all()
        subscriptions, self._subscriptions = self._subscriptions, {}
        for subscription in subscriptions.values():
            subscription.holder_ended()
        subscribed = [one for number, one in subscriptions.items() if number <= seen]
        super()._begin_next([*subscribed, *again])

    def close(self) -> list[NumberedCommand]:
        """End: the queue is deleted, or the node stops. Returns the commands left unapplied."""
        left = super().close()
        self._subscriptions.clear()
        return left
