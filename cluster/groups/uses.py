"""The groups that clients on this node use: finds their leaders, and exchanges items with them.

A client's node asks each node with a member whether it has the leader, once when the client is
created and once when a link comes up. The leader answers when it accepts clients. A leader whose
term is lower than that of the known leader is out of date.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from leveret.cluster.groups.group_frames import (
    Answered,
    AttachClient,
    ClientCommands,
    DeliveredBytes,
    Find,
    GroupItem,
    GroupQuestion,
    Leads,
    LeadsNoMore,
    Told,
)
from leveret.cluster.groups.group_machine import Effect, GroupUser, MachineKind

AnswerTo = Callable[[bytes | None], object]


class UseHost(Protocol):
    """The service of the node."""

    def send_item(self, node: str, item: GroupItem) -> None:
        """Send an item to a node, which may be this one."""

    def forget_use(self, use: "GroupUse") -> None:
        """Forget a client that has ended."""


class GroupUse:
    """One client of a group. nodes: those with a member. leader: its node; "" if unknown."""

    def __init__(
        self, host: UseHost, kind: MachineKind, group: int, nodes: list[str], user: GroupUser
    ) -> None:
        self.group = group
        self.nodes = nodes
        self.leader = ""
        self.term = 0
        self._host = host
        self._kind = kind
        self._user = user
        self._questions: dict[int, AnswerTo] = {}
        self._question = 0

    # For the client

    def attach(self, session: int, sender: int, seen: int, received: Mapping[int, int]) -> None:
        """Start a session with the leader."""
        self._send(AttachClient(self.group, session, sender, seen, dict(received)))

    def send(self, session: int, commands: list[bytes]) -> None:
        """Send commands to the leader, which proposes them in this order."""
        self._send(ClientCommands(self.group, session, commands))

    def took(self, session: int, consumer: int, octets: int) -> None:
        """Tell the leader how many bytes a consumer was handed."""
        self._send(DeliveredBytes(self.group, session, consumer, octets))

    def ask(self, question: bytes, answer: AnswerTo) -> None:
        """Ask the leader. The answer is None if there is no leader, or if the leader is lost."""
        if not self.leader:
            answer(None)
            return
        self._question += 1
        self._questions[self._question] = answer
        self._send(GroupQuestion(self.group, self._question, question))

    def set_nodes(self, nodes: list[str]) -> None:
        """Take the nodes of members that have changed."""
        new = [node for node in nodes if node not in self.nodes]
        self.nodes = nodes
        for node in new:
            self.find(node)

    def forget_leader(self) -> None:
        """A recovery has removed members: the terms of their leaders no longer count."""
        self.lose_leader()
        self.term = 0
        for node in self.nodes:
            self.find(node)

    def close(self) -> None:
        """End the use."""
        self._host.forget_use(self)
        self._lose_answers()

    def _send(self, item: GroupItem) -> None:
        if self.leader:
            self._host.send_item(self.leader, item)

    # For the service

    def find(self, node: str) -> None:
        """Ask a node with a member whether it has the leader."""
        self._host.send_item(node, Find(self.group))

    def take(self, node: str, item: GroupItem) -> None:
        """Take an item for this client from a node."""
        if isinstance(item, Leads):
            self._found(node, item.term)
        elif node != self.leader:
            return
        elif isinstance(item, Told):
            self.told(item.session, self._kind.decode(item.effects), item.entries)
        elif isinstance(item, LeadsNoMore):
            if item.term >= self.term:
                self.lose_leader()
        elif isinstance(item, Answered):
            answer = self._questions.pop(item.number, None)
            if answer is not None:
                answer(item.data)

    def told(self, session: int, effects: list[Effect], entries: Mapping[int, bytes]) -> None:
        """Take effects."""
        self._user.told(session, effects, entries)

    def _found(self, node: str, term: int) -> None:
        if term < self.term or (node == self.leader and term == self.term):
            return
        self.lose_leader()
        self.leader, self.term = node, term
        self._user.leader_found()

    def link_down(self, node: str) -> None:
        """The link to a node is down."""
        if node == self.leader:
            self.lose_leader()

    def lose_leader(self) -> None:
        """The leader is lost."""
        if self.leader:
            self.leader = ""
            self._lose_answers()
            self._user.leader_lost()

    def _lose_answers(self) -> None:
        questions, self._questions = self._questions, {}
        for answer in questions.values():
            answer(None)
