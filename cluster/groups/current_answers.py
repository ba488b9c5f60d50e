"""Questions to a leader whose answers have to know all that was confirmed before they were asked.

A leader that was cut off from the others may not know yet that there is a next one, which has
confirmed more. So before it answers, the leader appends an entry without data, as at the beginning
of its term, and waits until this is committed and applied: then it led when it was asked (Raft,
section 6.4). All questions of a turn wait for one entry. A leader that stops serving answers
nothing, and the client asks the next one.

Invariant CUA1: a question is answered after an entry is applied that was appended when it had come.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from leveret.cluster.groups.group_frames import GroupQuestion

Reply = Callable[[str, GroupQuestion, bool], object]
"""Answers a question of a node; does not answer if the flag is false."""


class _WaitingClient(NamedTuple):
    entry: int
    questions: list[tuple[str, GroupQuestion]]


class CurrentAnswers:
    """The questions that wait. append: appends the entry; returns its index, or 0 if refused."""

    __slots__ = ("_append", "_new", "_reply", "_waiting")

    def __init__(self, append: Callable[[], int], reply: Reply) -> None:
        self._append = append
        self._reply = reply
        self._new: list[tuple[str, GroupQuestion]] = []
        self._waiting: deque[_WaitingClient] = deque()

    def ask(self, node: str, question: GroupQuestion) -> None:
        """A question has come. `end_turn` is called in this turn."""
        self._new.append((node, question))

    def end_turn(self) -> None:
        """Append an entry for the questions of this turn."""
        if not self._new:
            return
        questions, self._new = self._new, []
        index = self._append()
        if index:
            self._waiting.append(_WaitingClient(index, questions))
        else:
            self._reply_to(questions, False)

    def applied(self, index: int) -> None:
        """Entries were applied up to this one, while the member serves."""
        waiting = self._waiting
        while waiting and waiting[0].entry <= index:
            self._reply_to(waiting.popleft().questions, True)  # CUA1

    def refuse(self) -> None:
        """The member no longer serves clients."""
        questions, self._new = self._new, []
        while self._waiting:
            questions = self._waiting.popleft().questions + questions
        self._reply_to(questions, False)

    def _reply_to(self, questions: list[tuple[str, GroupQuestion]], answers: bool) -> None:
        for node, question in questions:
            self._reply(node, question, answers)
