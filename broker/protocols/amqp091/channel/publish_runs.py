"""The runs of messages that are published together.

A publisher repeats the arguments of basic.publish, but each of its messages has properties and a
body of its own. Messages to one address make a run, which is routed once and handed to each queue
in one call, if queues treat them in the same way (`ContentHeader.run_kind`).

Runs are made one by one, on demand, by an object of this module rather than by a generator: for a
message that arrives alone a compiled generator and its run as a named tuple took half a microsecond
more.
"""

from typing import Final

from mypy_extensions import i64

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.properties import NEEDS_CARE, RUN_MASK, PropertiesError, scan
from leveret.broker.queues.contract.publication import Publication
from leveret.broker.runtime.turns import Turns
from leveret.broker.sessions.targets import RUN_WORK, PublishTarget
from leveret.storage.messages.message import Message
from leveret.storage.messages.message_run import body_bytes_of

HEADER_WORK: Final = 8
"""The work of a message's own properties, in the units of broker/runtime/turns.py."""


class Runs:
    """The runs that messages to one target make, in order.

    A run is cut where delivery mode or priority changes, and where messages begin or cease to
    expire (`ContentHeader.run_kind`). A message that needs care is a run by itself, and so is each
    message if all have more than `bytes_max` bytes together.
    """

    __slots__ = (
        "_are_large", "_bodies", "_body_bytes", "_first", "_header_count", "_place",
        "_properties", "_target",
    )  # fmt: skip

    def __init__(
        self,
        target: PublishTarget,
        properties: list[bytes],
        bodies: list[bytes],
        body_bytes: int,
        bytes_max: int,
    ) -> None:
        self._target = target
        self._properties = properties
        self._bodies = bodies
        self._body_bytes = body_bytes
        self._are_large = body_bytes > bytes_max
        self._place = 0
        # The number of properties that were read for the last run.
        self._header_count = 0
        self._first: Publication | None = None

    def put_back(self, run: Publication) -> None:
        """Make this run the next one."""
        assert self._first is None, "one run is taken at a time"
        self._first = run

    def take(self) -> Publication | None:
        """The next run; None if there is none.

        Raises PropertiesError if the next message has malformed properties. It and those after it
        are dropped.
        """
        run, self._first = self._first, None
        if run is not None:
            return run
        target, properties, bodies = self._target, self._properties, self._bodies
        address, header = target.address, target.header
        raw: bytes | None = None
        place, count = self._place, len(bodies)
        messages: list[Message] = []
        kind: i64 = -1
        header_count = 0
        while place < count:
            if header is None or properties[place] is not raw:
                raw = properties[place]
                header = self._header(header, raw, messages)
                if header is None:
                    break
                own: i64 = header.kind
                if messages and (own ^ kind) & RUN_MASK:
                    break
                kind = own
                header_count += 1
            messages.append(Message(address, header, bodies[place]))
            place += 1
            if self._are_large or kind >= NEEDS_CARE:
                break
        self._place = place
        if not messages:
            return None
        self._header_count = header_count
        body_bytes = self._body_bytes if len(messages) == count else body_bytes_of(messages)
        return Publication(messages, body_bytes)

    def take_work(self, run: Publication, turns: Turns, work: int) -> int:
        """The number of messages of the last run that may be published in this turn; takes their
        work.

        work: that of one message.
        """
        turns.work_left -= HEADER_WORK * self._header_count
        self._header_count = 0
        count = len(run.messages)
        total = RUN_WORK + work * count
        if total > turns.work_left:
            affordable = turns.affordable(work)
            if affordable < count:
                turns.work_left -= (RUN_WORK + work * affordable) if affordable else 0
                return affordable
        turns.work_left -= total
        return count

    def _header(
        self, last: ContentHeader | None, raw: bytes, messages: list[Message]
    ) -> ContentHeader | None:
        """The header with these properties. messages: the run's; None ends it before a fault."""
        if last is not None and last.raw == raw:
            return last
        try:
            header = ContentHeader(raw, scan(raw), (), False, raw)
        except PropertiesError:
            if messages:
                return None
            self._place = len(self._bodies)
            raise
        self._target.header = header
        return header
