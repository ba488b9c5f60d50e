"""The messages of a session that have no outcome yet, and the dispositions for them. Compiled.

A session publishes with confirms: the confirm of a message becomes the outcome of its delivery.
Messages are kept in the runs in which they were published, by their confirm numbers. Consecutive
deliveries with equal outcomes are settled by one disposition.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from leveret.broker.net.socket_output import SocketOutput
from leveret.broker.protocols.amqp10.incoming_link import IncomingLink
from leveret.broker.protocols.amqp10.performatives import (
    RECEIVER,
    Disposition,
    Rejected,
    frame_of,
)
from leveret.broker.protocols.amqp10.session_frames import (
    ACCEPTED,
    REJECTED,
    RELEASED,
    disposition_frame,
)
from leveret.broker.protocols.amqp10.transfer_frames import SERIAL
from leveret.broker.sessions.confirms import Settlement

SETTLED_BY_CLIENT: Final = -1
"""In the place of a delivery-id: the client waits for no outcome."""
_SETTLED: Final = -2
_NONE: Final = -1


class _Run:
    """Messages with consecutive numbers, from `first` on, that came on one link.

    delivery_ids: those of all messages. at: the position of the first message that may have no
    outcome. open: the number of messages without an outcome.
    """

    __slots__ = ("at", "delivery_ids", "first", "link", "open")

    def __init__(self, first: int, link: IncomingLink, delivery_ids: list[int]) -> None:
        self.first = first
        self.link = link
        self.delivery_ids = delivery_ids
        self.at = 0
        self.open = len(delivery_ids)


class PublishingOutcomes:
    """The outcomes of one session. returned: the numbers of messages that no queue has."""

    __slots__ = (
        "_channel", "_explain", "_first", "_last", "_link", "_outcome", "_output", "_runs",
        "returned",
    )  # fmt: skip

    def __init__(
        self, output: SocketOutput, channel: int,
        explain: Callable[[IncomingLink], Rejected] | None = None,
    ) -> None:  # fmt: skip
        """explain: says why messages of a link are rejected; None if clients are not told."""
        self._explain = explain
        self._link: IncomingLink | None = None
        self._output = output
        self._channel = channel
        self._runs: deque[_Run] = deque()
        self.returned: set[int] = set()
        # The deliveries of the next disposition.
        self._first: i64 = _NONE
        self._last: i64 = _NONE
        self._outcome: i64 = 0

    def __len__(self) -> int:
        """The number of messages without an outcome."""
        count = 0
        for run in self._runs:
            count += run.open
        return count

    def add(self, first: int, link: IncomingLink, delivery_ids: list[int]) -> None:
        """Messages are published next. first: the number of the first one."""
        self._runs.append(_Run(first, link, delivery_ids))
        link.unconfirmed += len(delivery_ids)

    def forget_from(self, number: int) -> list[int]:
        """The last run's messages from this number on were not published; returns their ids."""
        if not self._runs:
            return []
        run = self._runs[-1]
        kept = number - run.first
        forgotten = run.delivery_ids[kept:]
        del run.delivery_ids[kept:]
        run.open -= len(forgotten)
        run.link.unconfirmed -= len(forgotten)
        if not kept:
            self._runs.pop()
        return forgotten

    def send(self, settlements: list[Settlement], links: dict[IncomingLink, None]) -> None:
        """Send the outcomes of confirmed messages. Adds their links to `links`."""
        for is_ack, number, is_multiple in settlements:
            if is_multiple:
                self._settle_up_to(number, is_ack, links)
            else:
                self._settle(number, is_ack, links)
        self._end_disposition()

    def _settle_up_to(self, number: int, is_ack: bool, links: dict[IncomingLink, None]) -> None:
        runs = self._runs
        while runs:
            run = runs[0]
            count = number - run.first + 1
            if count <= 0:
                return
            size = len(run.delivery_ids)
            place: i64 = run.at
            end: i64 = min(count, size)
            settled: i64 = 0
            while place < end:
                delivery_id = run.delivery_ids[place]
                if delivery_id != _SETTLED:
                    settled += 1
                    outcome = self._outcome_of(run.first + int(place), is_ack)
                    self._add(delivery_id, outcome, run.link)
                place += 1
            run.at = int(end)
            self._take_from(run, int(settled), links)
            if end < size:
                return
            runs.popleft()

    def _settle(self, number: int, is_ack: bool, links: dict[IncomingLink, None]) -> None:
        for run in self._runs:
            place = number - run.first
            if 0 <= place < len(run.delivery_ids):
                delivery_id = run.delivery_ids[place]
                run.delivery_ids[place] = _SETTLED
                self._take_from(run, 1, links)
                self._add(delivery_id, self._outcome_of(number, is_ack), run.link)
                break
        while self._runs and not self._runs[0].open:
            self._runs.popleft()

    @staticmethod
    def _take_from(run: _Run, count: int, links: dict[IncomingLink, None]) -> None:
        run.open -= count
        run.link.unconfirmed -= count
        links[run.link] = None

    def _outcome_of(self, number: int, is_ack: bool) -> i64:
        returned = self.returned
        if returned and number in returned:
            returned.remove(number)
            return RELEASED
        return ACCEPTED if is_ack else REJECTED

    def _add(self, delivery_id: i64, outcome: i64, link: IncomingLink) -> None:
        """Send an outcome, in one disposition with those before it if possible."""
        if delivery_id == SETTLED_BY_CLIENT:
            return
        if self._first != _NONE:
            if (
                delivery_id == (self._last + 1) % SERIAL
                and outcome == self._outcome
                and (outcome != REJECTED or link is self._link)
            ):
                self._last = delivery_id
                return
            self._end_disposition()
        self._first = self._last = delivery_id
        self._outcome = outcome
        self._link = link

    def _end_disposition(self) -> None:
        if self._first != _NONE:
            explain, link = self._explain, self._link
            first, last = int(self._first), int(self._last)
            if self._outcome == REJECTED and explain is not None and link is not None:
                end = None if last == first else last
                rejected = Disposition(RECEIVER, first, end, True, explain(link))
                frame = frame_of(self._channel, rejected)
            else:
                frame = disposition_frame(self._channel, first, last, self._outcome)
            self._first = _NONE
            self._link = None
            self._output.write(frame)

    def clear(self) -> None:
        """Forget all: the session ends."""
        self._runs.clear()
        self.returned.clear()
