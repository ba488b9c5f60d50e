"""A node's commands to the group of one queue, over all leaders.

**Promises.** The group applies each command given to `add` once, in this order, even if leaders
change and links are lost. Each command is told its result (`NumberedCommand.applied`).

**Not promised.** That commands are applied while no leader has a majority.

**Mechanism.** All commands of the node are one numbered sequence (numbered_commands.py), of one
*sender*. The group applies command n + 1 of a sender only after n, and answers with results and
with the number through which it has applied. When a leader is found, the client starts a session
with it and states what it has received. The leader answers through which number it has applied
commands. The client sends the commands after that one, and gets what it lacks. Sessions have
numbers, and both ends drop messages of an earlier session, so nothing that a former leader still
has on the way has an effect.

**The end of a sender.** If the group considers the node down, it ends the sender, and ignores
further commands of it. Until the next sender of the node joins, it keeps the number through which
it has applied the sender's commands, and the results that the client may lack. So when the client
attaches, it learns the outcome of each command. It starts the next sender, which sends the commands
that were not applied. No command is applied twice, since no command of the ended sender is applied
after that.

A group that has forgotten the sender (its node was removed from the cluster) knows nothing about
its commands: a publish that may have been applied is refused.

Invariants:
GC1. A command is kept until it is done, by the last sender.
GC2. Messages of a session before the last one have no effect.
"""

from typing import Protocol

from mypy_extensions import mypyc_attr

from leveret.cluster.replicated_queues.client.numbered_command import NumberedCommand
from leveret.cluster.replicated_queues.client.numbered_commands import NumberedCommands


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


class ClientSenders(Protocol):
    """The senders of a client."""

    def next_number(self) -> int:
        """The number of the next sender. The numbers of a node increase, also over restarts."""

    def join(self) -> NumberedCommand:
        """The first command of a sender."""


@mypyc_attr(allow_interpreted_subclasses=True)
class GroupClient:
    """A node's commands to one group. session: its number."""

    __slots__ = (
        "_commands", "_is_asked", "_is_attached", "_is_led", "_outputs", "_senders", "_to_send",
        "session",
    )  # fmt: skip

    def __init__(self, senders: ClientSenders) -> None:
        self._senders = senders
        self.session = 0
        self._is_attached = self._is_led = self._is_asked = False
        self._commands = NumberedCommands(senders.next_number())
        self._to_send: list[bytes] = []
        self._outputs: list[GroupClientOutput] = []

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.sender}>"

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
        self._outputs.append(
            StartSession(self.session, commands.sender, commands.seen, self.received())
        )

    def received(self) -> dict[int, int]:
        """For each consumer, by its number, the number of the last delivery that has arrived."""
        return {}

    def kept(self, session: int, through: int) -> list[NumberedCommand]:
        """The commands through a number that `applied` would end."""
        if session != self.session:
            return []
        return [one for one in self._commands if one.number <= through]

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
        self._end_session()
        self._commands = NumberedCommands(self._senders.next_number())
        self._number(self._senders.join())
        for command in again:
            self._number(command)
        self._attach()

    def close(self) -> list[NumberedCommand]:
        """End: the queue is deleted, or the node stops. Returns the commands left unapplied."""
        self.leader_lost()
        left = list(self._commands)
        self._commands = NumberedCommands(self.sender)
        return left
