"""A node's use of one quorum queue: its commands to the group and what it gets, over all leaders.

**Promises.** The group applies each command given to `add` once, in this order, even if leaders
change and links are lost. Each command is told its result (`NumberedCommand.applied`). Each
delivery arrives once.

**Not promised.** That commands are applied while no leader has a majority. That deliveries stay
valid if the group considers this node down: then the *sender* has ended.

**Mechanism.** All commands of the node are one numbered stream (numbered_commands.py), of one
sender. The group applies command n + 1 of a sender only after n, and answers with results and with
the number through which it has applied. When a leader is found, the client attaches to it and tells
it what it has received. The leader answers through which number it has applied commands. The client
sends the commands after that one, and gets the results and deliveries that it lacks. Sessions have
numbers, and both ends drop messages of an earlier session, so nothing that a former leader still
has on the way has an effect.

**The end of a sender.** If the group considers the node down, it ends the sender: it ends the
sender's consumers, returns the messages that they held, and ignores further commands of the sender.
Until the next sender of the node joins, it keeps the number through which it has applied the
sender's commands, and the results that the client may lack. So when the client attaches, it learns
the outcome of each command. It starts the next sender, which subscribes the consumers again and
sends the commands that were not applied. No command is applied twice, since no command of the ended
sender is applied after that.

A group that has forgotten the sender (its node was removed from the cluster) knows nothing about
its commands: a publish that may have been applied is refused.

Invariants:
GC1. A command is kept until it is done, by the last sender.
GC2. Messages of a session before the last one have no effect.
"""

from abc import abstractmethod
from typing import Protocol

from mypy_extensions import mypyc_attr

from leveret.cluster.quorum.client.command import NumberedCommand
from leveret.cluster.quorum.client.delivered_run import DeliveredRun
from leveret.cluster.quorum.client.holders import Holder, Holders
from leveret.cluster.quorum.client.numbered_commands import NumberedCommands


class GroupClientOutput:
    """Something that the service has to do. Outputs are done in order."""

    __slots__ = ()


class StartSession(GroupClientOutput):
    """Start a session with the leader.

    sender, seen: all results of this sender through this number have arrived. received: for each
    consumer, by its number, the number of the last delivery that has arrived.
    """

    __slots__ = ("received", "seen", "sender", "session")

    def __init__(self, session: int, sender: int, seen: int, received: dict[int, int]) -> None:
        self.session = session
        self.sender = sender
        self.seen = seen
        self.received = received


class SendCommands(GroupClientOutput):
    """Send commands to the leader in a session."""

    __slots__ = ("payloads", "session")

    def __init__(self, session: int, payloads: list[bytes]) -> None:
        self.session = session
        self.payloads = payloads


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

    @abstractmethod
    def timed_out(self) -> None:
        """The group has taken back deliveries that were held for too long. It delivers no more
        messages until the consumer is cancelled.
        """

    @abstractmethod
    def holder_ended(self) -> None:
        """The group has ended the sender, and has taken back the consumer's deliveries."""


class ClientSenders(Protocol):
    """The senders of a node (commands.py)."""

    def next_number(self) -> int:
        """The number of the next sender. The numbers of a node increase, also over restarts."""

    def join(self) -> NumberedCommand:
        """The first command of a sender."""


class GroupClient:
    """A node's use of one quorum queue. session: its number. holders: see holders.py."""

    __slots__ = (
        "_commands",
        "_is_asked",
        "_is_attached",
        "_is_led",
        "_outputs",
        "_senders",
        "_subscriptions",
        "_to_send",
        "holders",
        "session",
    )  # fmt: skip

    def __init__(self, senders: ClientSenders) -> None:
        self._senders = senders
        self.session = 0
        self._is_attached = self._is_led = self._is_asked = False
        self.holders = Holders()
        self._commands = NumberedCommands(senders.next_number())
        # The subscriptions that get messages, or will get some, by number.
        self._subscriptions: dict[int, ConsumerCommand] = {}
        self._to_send: list[bytes] = []
        self._outputs: list[GroupClientOutput] = []

    def __repr__(self) -> str:
        return f"<GroupClient {self.sender}>"

    @property
    def sender(self) -> int:
        """The number of the sender."""
        return self._commands.sender

    @property
    def last(self) -> int:
        """The number of the sender's last command."""
        return self._commands.last

    @property
    def is_led(self) -> bool:
        """Whether it is known which node is the leader."""
        return self._is_led

    def has_done(self, last: int, sender: int) -> bool:
        """Whether a sender's commands through this number are done, or the sender has ended."""
        return sender != self._commands.sender or self._commands.seen >= last

    def take_outputs(self) -> list[GroupClientOutput]:
        """Take the outputs that are to be done now, in order."""
        if self._to_send:
            self._outputs.append(SendCommands(self.session, self._to_send))
            self._to_send = []
        outputs, self._outputs = self._outputs, []
        return outputs

    # Requests of the node

    def add(self, command: NumberedCommand) -> None:
        """Give the group a command."""
        if not self._commands.last:
            self._number(self._senders.join())
        self._number(command)
        if self._is_led and not self._is_asked:
            self._attach()

    def _number(self, command: NumberedCommand) -> None:
        payload = self._commands.add(command)
        if self._is_attached:
            self._to_send.append(payload)
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

    # The leader

    def leader_found(self) -> None:
        """The leader is known and can be reached."""
        self._end_session()
        self._is_led = True
        if self._commands.last:
            self._attach()

    def leader_lost(self) -> None:
        """The leader is not known, or cannot be reached."""
        self._end_session()
        self._is_led = False

    def _end_session(self) -> None:
        self._is_asked = self._is_attached = False
        self._to_send.clear()
        self._outputs.clear()
        self.session += 1

    def _attach(self) -> None:
        self._is_asked = True
        commands = self._commands
        received: dict[int, int] = {}
        for number, subscription in self._subscriptions.items():
            received[number] = subscription.holder.received
        self._outputs.append(StartSession(self.session, commands.sender, commands.seen, received))

    # Messages from the leader

    def applied(self, session: int, through: int) -> None:
        """The commands through a number are applied, and all of their results were told before.

        With the first call in a session, the client has everything that it lacked. Raises
        ValueError for a command that was not sent.
        """
        if session == self.session:
            self._commands.applied(through)
            self._attached()

    def _attached(self) -> None:
        """Send the commands that are not applied, after the leader has answered."""
        if not self._is_attached:
            self._is_attached = True
            self._to_send = self._commands.after_seen()

    def result(self, session: int, number: int, result: object) -> None:
        """A command has a result. Raises ValueError for a command that was not sent."""
        if session == self.session:
            self._commands.result(number, result)

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

    def timed_out(self, session: int, consumer: int) -> None:
        """A consumer has held deliveries for too long. Each new leader says this again."""
        if session == self.session and consumer in self._subscriptions:
            self._subscriptions[consumer].timed_out()

    def sender_unknown(self, session: int) -> None:
        """The leader does not know the sender, or knows that the sender has ended.

        As an answer to a command, this says nothing about the commands before it, so the client
        attaches again. When it attaches, its first command may not have been applied yet.
        """
        if session != self.session:
            return
        if self._is_attached:
            self._end_session()
            self._attach()
        elif not self._commands.seen:
            self._attached()
        else:
            self._begin_next([one for one in self._commands if one.sender_forgotten()])

    def sender_ended(self, session: int) -> None:
        """The group has ended the sender, and the client knows all results of its commands."""
        if session == self.session:
            self._begin_next([one for one in self._commands if one.sender_ended()])

    def _begin_next(self, again: list[NumberedCommand]) -> None:
        """Start the next sender. again: the commands that it has to send."""
        seen = self._commands.seen
        self.holders.end_all()
        subscriptions, self._subscriptions = self._subscriptions, {}
        for subscription in subscriptions.values():
            subscription.holder_ended()
        self._end_session()
        self._commands = NumberedCommands(self._senders.next_number())
        self._number(self._senders.join())
        for number, subscription in subscriptions.items():
            if number <= seen:
                self._number(subscription)
        for command in again:
            self._number(command)
        self._attach()

    def close(self) -> list[NumberedCommand]:
        """End: the queue is deleted, or the node stops. Returns the commands left unapplied."""
        self.leader_lost()
        left = list(self._commands)
        self._subscriptions.clear()
        self._commands = NumberedCommands(self.sender)
        return left
