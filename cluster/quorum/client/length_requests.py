"""Requests for the numbers of messages and consumers of a quorum queue, for example in declare-ok.

A request waits until the earlier commands of this node are done, and is then sent to the leader.
While there is no leader, and after a time limit, it is answered with the numbers that are known.
"""

from contextlib import suppress
from typing import NamedTuple

from leveret.broker.amqp.errors import Fault
from leveret.broker.queues.contract.queue_client import QueueLength
from leveret.broker.runtime.clock import Clock, Timer
from leveret.broker.runtime.pending import Answer
from leveret.cluster.quorum.client.consuming_client import ConsumingClient
from leveret.cluster.quorum.client.group_service import GroupService

NO_LENGTH = QueueLength(0, 0)
LENGTH_MS = 1000
"""How long a request waits for earlier commands, and for the leader."""


class LengthRequest(NamedTuple):
    """A request. last, sender: of the last earlier command. timer: answers with known numbers."""

    last: int
    sender: int
    answer: Answer[QueueLength]
    timer: Timer

    def give(self, length: QueueLength) -> None:
        """Answer."""
        self.timer.cancel()
        self.answer.give(length)

    def refuse(self, error: Exception) -> None:
        """Answer with an error."""
        self.timer.cancel()
        self.answer.refuse(error)


class LengthRequests:
    """The requests of one queue. waiting: those that are not sent to the leader yet."""

    __slots__ = ("_clock", "_group", "_known", "waiting")

    def __init__(self, group: ConsumingClient, clock: Clock, is_new: bool) -> None:
        """is_new: the queue has no messages yet. After a restart, no numbers are known."""
        self.waiting: list[LengthRequest] = []
        self._group = group
        self._clock = clock
        self._known = NO_LENGTH if is_new else None

    def add(self, answer: Answer[QueueLength], service: GroupService) -> None:
        """Answer with the numbers when all earlier commands are done."""
        timer = self._clock.call_later_ms(LENGTH_MS, lambda: answer.give(self._known or NO_LENGTH))
        group = self._group
        self.waiting.append(LengthRequest(group.last, group.sender, answer, timer))
        self.look(service)

    def look(self, service: GroupService) -> None:
        """Send requests whose earlier commands are done. Without a leader, answer known numbers.

        After a restart none are known, and the leader may soon be.
        """
        waiting, self.waiting = self.waiting, []
        for request in waiting:
            if not self._group.is_led and self._known is not None:
                request.give(self._known)
            elif self._group.is_led and self._group.has_done(request.last, request.sender):
                self._ask(request, service)
            elif not request.answer.is_given:
                self.waiting.append(request)

    def _ask(self, request: LengthRequest, service: GroupService) -> None:
        asked: Answer[QueueLength] = Answer()
        service.ask_length(asked)
        asked.when_given(lambda: self._answered(asked, request))

    def _answered(self, asked: Answer[QueueLength], request: LengthRequest) -> None:
        # If the leader is gone, the known numbers are as good as those of the next one.
        with suppress(Fault):
            self._known = asked.result()
        request.give(self._known or NO_LENGTH)

    def refuse(self, error: Exception) -> None:
        """The queue ends: refuse the requests that wait."""
        waiting, self.waiting = self.waiting, []
        for request in waiting:
            request.refuse(error)
