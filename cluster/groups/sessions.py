"""The clients that a leader serves: one session for each node.

A session starts when a client attaches. It ends with the leadership, with the link, or when the
node attaches again. Effects are sent to the client in their order, with the entries that it needs
for them. If a thread has to read an entry, all later effects of this session wait. An entry that
was read is kept until its effect is sent, because the thread's data exist during one call only. An
entry is left out if all of its messages have left the queue since the effect, because a consumer
has ended or timed out.
"""

from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import Protocol

from leveret.cluster.groups.group_machine import Effect, MachineKind
from leveret.storage.contract.backing_queue import BeingRead
from leveret.storage.disk.disk import StoreError

TOLD_BYTES = 256 * 1024
"""The bytes of entries that are sent together. Items of other groups can be sent between."""


class SessionHost(Protocol):
    """The member that is the leader."""

    def tell(
        self, session: "GroupSession", effects: list[Effect], entries: Mapping[int, bytes]
    ) -> None:
        """Pass effects to a client."""

    def read_entry(self, index: int) -> bytes:
        """Read an entry. Raises as `GroupLog.read`."""

    def is_congested(self, node: str) -> bool:
        """Whether nothing more should be sent to a node until `Sessions.drained` is called."""

    def lost_entry(self, error: Exception) -> None:
        """An entry cannot be read."""


class GroupSession:
    """The session of one client. sender: the sender of its commands. number: chosen by the client.

    read: the entries of the first effect that were already read.
    """

    __slots__ = ("effects", "is_reading", "node", "number", "read", "sender")

    def __init__(self, node: str, number: int, sender: int) -> None:
        self.node = node
        self.number = number
        self.sender = sender
        self.effects: deque[Effect] = deque()
        self.read: dict[int, bytes] = {}
        self.is_reading = False


class Sessions:
    """The sessions of one leader."""

    def __init__(self, host: SessionHost, kind: MachineKind) -> None:
        self._host = host
        self._kind = kind
        self._by_node: dict[str, GroupSession] = {}
        self._by_sender: dict[int, GroupSession] = {}

    def of_node(self, node: str) -> GroupSession | None:
        """The session of a node."""
        return self._by_node.get(node)

    def begin(self, session: GroupSession, effects: list[Effect]) -> None:
        """Start the session of a client that has attached, and lacks these effects."""
        self.end(session.node)
        self._by_node[session.node] = self._by_sender[session.sender] = session
        session.effects += effects
        self._flush(session)

    def end(self, node: str) -> None:
        """End the session of a node."""
        session = self._by_node.pop(node, None)
        if session is not None:
            session.effects.clear()
            session.read.clear()
            if self._by_sender.get(session.sender) is session:
                del self._by_sender[session.sender]

    def end_all(self) -> None:
        """End all sessions: this member is no longer the leader."""
        for node in list(self._by_node):
            self.end(node)

    def route(self, effects: list[tuple[int, Effect]]) -> None:
        """Send each client its effects. Effects for clients without a session are dropped."""
        told = []
        for sender, effect in effects:
            session = self._by_sender.get(sender)
            if session is not None:
                if not session.effects:
                    told.append(session)
                session.effects.append(effect)
        for session in told:
            self._flush(session)

    def drained(self, node: str) -> None:
        """More can be sent to a node."""
        session = self._by_node.get(node)
        if session is not None:
            self._flush(session)

    def _flush(self, session: GroupSession) -> None:
        host = self._host
        while session.effects and not session.is_reading and not host.is_congested(session.node):
            effects: list[Effect] = []
            entries: dict[int, bytes] = {}
            octets = 0
            while session.effects and octets < TOLD_BYTES:
                effect = session.effects[0]
                try:
                    for index in self._kind.entries_of(effect):
                        if index not in entries:
                            if index not in session.read:
                                session.read[index] = host.read_entry(index)
                            entries[index] = session.read[index]
                            octets += len(entries[index])
                except BeingRead as reading:
                    session.is_reading = True
                    reading.when_done(partial(self._after_read, session))
                    break
                except KeyError:
                    self._leave_out(session, index)
                    continue
                except StoreError as error:
                    host.lost_entry(error)
                    return
                effects.append(session.effects.popleft())
                session.read.clear()
            if effects:
                host.tell(session, effects, entries)

    def _leave_out(self, session: GroupSession, index: int) -> None:
        """Send the first effect without an entry whose messages have all left the queue."""
        left = self._kind.without_entry(session.effects.popleft(), index)
        if left is not None:
            session.effects.appendleft(left)

    def _after_read(self, session: GroupSession) -> None:
        session.is_reading = False
        self._flush(session)
