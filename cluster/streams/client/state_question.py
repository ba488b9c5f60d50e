"""A question of a client to the leader about the stream's state (machine/questions.py)."""

from collections.abc import Callable
from typing import Any

from leveret.broker.amqp.errors import internal_error
from leveret.broker.runtime.pending import Answer
from leveret.cluster.replicated_queues.client.timed_request import TimedRequest
from leveret.cluster.streams.client.stream_readers import StreamReaders
from leveret.cluster.streams.machine.questions import QuestionError


class StateQuestion:
    """Asks until there is an answer, or until it is too late.

    read: the value that an answer's bytes are; raises QuestionError. request: gives it.
    """

    __slots__ = ("_answer", "_question", "_read", "_readers", "_request")

    def __init__(
        self, readers: StreamReaders, question: bytes, read: Callable[[bytes], Any],
        answer: Answer[Any], request: TimedRequest,
    ) -> None:  # fmt: skip
        self._readers = readers
        self._question = question
        self._read = read
        self._answer = answer
        self._request = request

    def ask(self) -> None:
        """Ask the leader."""
        if not self._answer.is_given:
            self._readers.group.ask(self._question, self._take)

    def _take(self, data: bytes | None) -> None:
        if data is None:
            self._readers.retry(self.ask)
            return
        try:
            value = self._read(data)
        except QuestionError as error:
            self._request.refuse(internal_error(str(error)))
            return
        self._request.give(value)
