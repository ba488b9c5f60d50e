"""A node's use of one quorum queue: what it asks of the group, and what it gets, over all leaders.

**Promises.** What `add` takes is done by the group once, in this order, whatever becomes of leaders
and links; each command is told its result (`Command.applied`). Each delivery arrives once.

**Not promised.** That anything is done while no leader has a majority. That deliveries stay valid
if the group takes this node for gone: then the *sender* has ended.

**Mechanism.** All commands of the node are one numbered stream (numbered_commands.py), of one
sender. The group applies command n + 1 of a sender only after n, and answers with results and with
the number through which it has applied. When a leader is found the client attaches to it: it says
what it has received. The leader says through which number it has applied commands, and the client
sends those after it, and gets the results and the deliveries that it lacks. What a former leader
had on the way is lost with its session: sessions have numbers, and both ends drop what belongs to
an earlier one.

**The end of a sender.** If the group takes the node for gone, it ends the sender: its consumers
have ended, what they held was returned, and its further commands are void. It keeps the number
through which it has applied the sender's commands, and the results that the client may lack, until
the next sender of the node joins. So the client, when it attaches, learns what became of each
command, and begins the next sender, which subscribes the consumers again and sends the commands
that were not applied. None is doubled, since no command of the ended sender is applied after that.

A group that has forgotten the sender (its node was removed from the cluster) knows nothing of its
commands: a publish that may have been applied is refused.

Invariants:
GC1. A command is kept until it is done, by the last sender.
GC2. Nothing of a session before the last one has an effect.
"""

from abc import abstractmethod
from typing import Protocol

from mypy_extensions import mypyc_attr

from leveret.cluster.quorum.client.command import Command
from leveret.cluster.quorum.client.delivered_run import DeliveredRun
from leveret.cluster.quorum.client.holders import Holder, Holders
from leveret.cluster.quorum.client.numbered_commands import NumberedCommands


class Output:
    """Something that the service is to do, in order."""

    __slots__ = ()


class Attach(Output):
    """Begin a session with the leader.

    sender, seen: all results of this sender through this number have arrived. received: for each
    consumer, by its number, the number of the last delivery that has arrived.
    """

    __slots__ = ("received", "seen", "sender", "session")

    def __init__(self, session: int, sender: int, seen: int, received: dict[int, int]) -> None:
        self.session = session
        self.sender = sender
        self.seen = seen
        self.received = received


class Send(Output):
    """Send commands to the leader, in a session."""

    __slots__ = ("payloads", "session")

    def __init__(self, session: int, payloads: list[bytes]) -> None:
        self.session = session
        self.payloads = payloads


@mypyc_attr(allow_interpreted_subclasses=True)
class Subscription(Command):
    """The command by which a consumer subscribes, or one message is taken (basic.get).

    holder: holds what it gets; a new one with each number that the command gets.
    """

    __slots__ = ("holder",)

    def __init__(self) -> None:
        super().__init__()
        self.holder = Holder(0)

    @abstractmethod
    def arrived(self, runs: list[DeliveredRun]) -> None:
        """Deliveries have arrived. The list, and what is in it, belong to the consumer."""

    @abstractmethod
    def timed_out(self) -> None:
        """The group has taken back deliveries that were held for too long. Nothing more is
        delivered until it is cancelled.
        """

    @abstractmethod
    def holder_ended(self) -> None:
        """The group has ended the sender, and taken back what has arrived for the consumer."""


class Senders(Protocol):
    """The senders of a node (commands.py)."""

    def next_number(self) -> int:
        """The number of the next one. The numbers of a node grow, over its restarts too."""

    def join(self) -> Command:
        """The first command of one."""


class GroupClient:
    """A node's use of one quorum queue. session: the last one's number. holders: see holders.py."""

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

    def __init__(self, senders: Senders) -> None:
        self._senders = senders
        self.session = 0
        self._is_attached = self._is_led = self._is_asked = False
        self.holders = Holders()
        self._commands = NumberedCommands(senders.next_number())
        # What gets messages, or is to get some, by its number.
        self._subscriptions: dict[int, Subscription] = {}
        self._to_send: list[bytes] = []
        self._outputs: list[Output] = []

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
        """It is known which node leads."""
        return self._is_led

    def has_done(self, last: int, sender: int) -> bool:
        """Whether the commands of a sender through this number are done, or the sender is gone."""
        return sender != self._commands.sender or self._commands.seen >= last

    def take_outputs(self) -> list[Output]:
        """End a round: what is to be done now, in order."""
        if self._to_send:
            self._outputs.append(Send(self.session, self._to_send))
            self._to_send = []
        outputs, self._outputs = self._outputs, []
        return outputs

    # What the node asks for

    def add(self, command: Command) -> None:
        """Ask the group for something."""
        if not self._commands.last:
            self._number(self._senders.join())
        self._number(command)
        if self._is_led and not self._is_asked:
            self._attach()

    def _number(self, command: Command) -> None:
        payload = self._commands.add(command)
        if self._is_attached:
            self._to_send.append(payload)
        if isinstance(command, Subscription):
            holder = command.holder = self.holders.add()
            holder.number = command.number
            self._subscriptions[command.number] = command

    def forget(self, subscription: Subscription) -> None:
        """A consumer was cancelled, or its message was taken: it gets nothing more."""
        if self._subscriptions.pop(subscription.number, None) is not None:
            self.holders.close(subscription.holder)

    # The leader

    def leader_found(self) -> None:
        """A node that is known to lead can be reached."""
        self._end_session()
        self._is_led = True
        if self._commands.last:
            self._attach()

    def leader_lost(self) -> None:
        """No node is known to lead, or it cannot be reached."""
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
        self._outputs.append(Attach(self.session, commands.sender, commands.seen, received))

    # What the leader says

    def applied(self, session: int, through: int) -> None:
        """The commands through a number are applied. The results of all of them were told.

        The first time in a session, everything was told that the client lacked. Raises ValueError
        for a command that was not sent.
        """
        if session == self.session:
            self._commands.applied(through)
            self._attached()

    def _attached(self) -> None:
        """The leader has answered: send what is not applied."""
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

    def timed_out(self, session: int, consumer: int) -> None:
        """A consumer has held deliveries for too long. Each new leader says so, too."""
        if session == self.session and consumer in self._subscriptions:
            self._subscriptions[consumer].timed_out()

    def sender_unknown(self, session: int) -> None:
        """The leader does not know the sender, or knows that it has ended.

        As an answer to a command this says nothing of the commands before it: attach again. When
        the client attaches, its first command may not be applied yet.
        """
        if session != self.session:
            return
        if self._is_attached:
            self._end_session()
            self._attach()
        elif not self._commands.seen:
            self._attached()
        else:
            self._begin_next([one for one in self._commands if one.is_in_doubt()])

    def sender_ended(self, session: int) -> None:
        """The group has ended the sender. Everything that it has applied was told."""
        if session == self.session:
            self._begin_next([one for one in self._commands if one.sender_ended()])

    def _begin_next(self, again: list[Command]) -> None:
        """Begin the next sender. again: the commands that it is to send."""
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

    def close(self) -> list[Command]:
        """The queue is deleted, or the node stops; returns the commands that will not be done."""
        self.leader_lost()
        left = list(self._commands)
        self._subscriptions.clear()
        self._commands = NumberedCommands(self.sender)
        return left
