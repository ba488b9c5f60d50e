"""Questions between the clients of a stream on several nodes, such as for chunks."""

from collections.abc import Callable
from itertools import count
from typing import Protocol

from leveret.cluster.groups.group_frames import AskClient, ClientAnswered
from leveret.cluster.groups.groups import Groups

AnswerTo = Callable[[bytes | None], object]


class AskedClient(Protocol):
    """The client of a stream on this node."""

    def asked(self, question: bytes, answer: AnswerTo) -> None:
        """Answer a client on another node."""


class ClientQuestions:
    """The questions of the clients on one node. client: the client of a group here, if any."""

    def __init__(self, groups: Groups, client: Callable[[int], AskedClient | None]) -> None:
        self._groups = groups
        self._client = client
        self._numbers = count(1)
        self._waiting: dict[int, tuple[str, AnswerTo]] = {}
        groups.between_clients = self._take

    def ask(self, group: int, node: str, question: bytes, answer: AnswerTo) -> None:
        """Ask the client on another node. The answer is None if it has none, or is lost."""
        if not self._groups.reaches(node):
            answer(None)
            return
        number = next(self._numbers)
        self._waiting[number] = node, answer
        self._groups.send_item(node, AskClient(group, number, question))

    def link_lost(self, node: str) -> None:
        """The questions to a node whose link is down get no answers."""
        lost = [number for number, one in self._waiting.items() if one[0] == node]
        for number in lost:
            self._waiting.pop(number)[1](None)

    def _take(self, node: str, item: AskClient | ClientAnswered) -> None:
        if isinstance(item, ClientAnswered):
            waiting = self._waiting.get(item.number)
            if waiting is not None and waiting[0] == node:
                del self._waiting[item.number]
                waiting[1](item.data)
            return
        group, number = item.group, item.number
        client = self._client(group)
        if client is None:
            self._groups.send_item(node, ClientAnswered(group, number, None))
            return
        client.asked(
            item.data,
            lambda data: self._groups.send_item(node, ClientAnswered(group, number, data)),
        )
