"""A question of a client to the leader about the stream's state (machine/questions.py)."""

from typing import Any

from leveret.broker.amqp.errors import internal_error
from leveret.broker.runtime.pending import Answer
from leveret.cluster.quorum.client.timed_request import TimedRequest
from leveret.cluster.streams.client.stream_readers import StreamReaders
from leveret.cluster.streams.machine.questions import QuestionError, read_answer


class StateQuestion:
    """Asks until there is an answer, or until it is too late.

    default: the answer if the state has no such number. request: gives the answer.
    """

    __slots__ = ("_answer", "_default", "_question", "_readers", "_request")

    def __init__(
        self, readers: StreamReaders, question: bytes, default: int | None, answer: Answer[Any],
        request: TimedRequest,
    ) -> None:  # fmt: skip
        self._readers = readers
        self._question = question
        self._default = default
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
            number = read_answer(data)
        except QuestionError as error:
            self._request.refuse(internal_error(str(error)))
            return
        self._request.give(self._default if number is None else number)
