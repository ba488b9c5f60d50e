"""The publishers of a connection, and the confirms that they get.

The entries of a publish go to the stream as one run, in the form of a chunk. Each publisher
gets the confirms of a round in one frame.

A stream stores each id of a named publisher once, if its ids increase. A publish whose ids do not
is put in order here: an entry whose id is not above the one before it is left out and confirmed, as
in RabbitMQ.

Input waits while too many messages, or bytes, are not confirmed: the node holds them in memory.
"""

from functools import partial
from typing import Final

from leveret.broker.amqp.json_form import text
from leveret.broker.events.stream_events import StreamPublished
from leveret.broker.protocols.stream import codes, responses
from leveret.broker.protocols.stream.published import (
    BODY,
    PublishedEntries,
    numbers_of,
    read_published,
)
from leveret.broker.protocols.stream.requests import FrameError
from leveret.broker.protocols.stream.responses import ID_BYTES
from leveret.broker.protocols.stream.serving import (
    WRITE,
    CommandRefused,
    ServingConnection,
    check,
    find_stream,
    note_error,
)
from leveret.broker.queues.contract.status import PublisherFigures
from leveret.broker.queues.contract.stream import Stream, StreamEntries

REFERENCE_BYTES_MAX: Final = 255
ENTRIES_MAX: Final = 65_535
"""Entries in one call to a stream."""
UNCONFIRMED_BYTES_MAX: Final = 32 * 1024 * 1024
FRAME_WORK: Final = 8
"""The work of a publish besides that of its entries (broker/runtime/turns.py)."""


class StreamPublisher:
    """One publisher. reference: its name; empty if it has none.

    published, confirmed, refused: counts of its publishing ids. due: ids of its next confirm.
    """

    __slots__ = ("confirmed", "due", "number", "published", "reference", "refused", "stream")

    def __init__(self, number: int, reference: bytes, stream: Stream) -> None:
        self.number = number
        self.reference = reference
        self.stream = stream
        self.published = self.confirmed = self.refused = 0
        self.due: list[bytes] = []


class Publishers:
    """The publishers of one connection, by their numbers.

    unconfirmed: publishing ids without a confirm.
    """

    def __init__(self, connection: ServingConnection) -> None:
        self._connection = connection
        self._turns = connection.services.turns
        self._counts = connection.services.counts.stream_protocol
        settings = connection.services.config.stream
        self._unconfirmed_max = settings.initial_credits
        self._resume_at = max(0, settings.initial_credits - settings.credits_for_unblocking)
        self._unconfirmed_bytes = 0
        self._due: list[StreamPublisher] = []
        self.by_number: dict[int, StreamPublisher] = {}
        self.unconfirmed = 0
        self.is_full = False

    # Declaring

    async def declare(self, number: int, reference: str, name: str) -> bytes:
        """Declare a publisher. Raises CommandRefused."""
        connection = self._connection
        await check(connection, name, WRITE)
        encoded = reference.encode("utf-8", "surrogateescape")
        if (
            connection.services.alarms.are_in_force
            or number in self.by_number
            or len(encoded) > REFERENCE_BYTES_MAX
        ):
            raise CommandRefused(codes.PRECONDITION_FAILED)
        stream = find_stream(connection, name)
        if encoded and any(
            one.reference == encoded and one.stream is stream for one in self.by_number.values()
        ):
            raise CommandRefused(codes.PRECONDITION_FAILED)
        connection.use(stream)
        self.by_number[number] = StreamPublisher(number, encoded, stream)
        self._counts.publishers += 1
        return b""

    def delete(self, number: int) -> None:
        """Delete a publisher. Raises CommandRefused."""
        publisher = self.by_number.pop(number, None)
        if publisher is None:
            raise CommandRefused(codes.PUBLISHER_DOES_NOT_EXIST)
        self._counts.publishers -= 1
        self._connection.end_use(publisher.stream)

    def lose(self, stream: Stream) -> None:
        """Delete the publishers of a stream."""
        for number in [key for key, one in self.by_number.items() if one.stream is stream]:
            self.delete(number)

    def close(self) -> None:
        """Delete all publishers: the connection ends."""
        for number in list(self.by_number):
            self.delete(number)
        self._due = []
        if self.is_full:
            # No input waits for confirms that come later.
            self.is_full = False
            self._connection.go_on()

    def statuses(self) -> list[PublisherFigures]:
        """The publishers, for management."""
        return [
            PublisherFigures(
                number=number,
                reference=text(one.reference.decode("utf-8", "surrogateescape")),
                queue=text(one.stream.name),
                published=one.published,
                confirmed=one.confirmed,
                refused=one.refused,
            )
            for number, one in self.by_number.items()
        ]

    # Publishing

    def publish(self, data: bytes, begin: int, end: int) -> None:
        """Publish the entries of the frame in a part of `data`. Raises FrameError."""
        body = begin + BODY
        if body > end:
            raise FrameError("a publish ends before its entries")
        number, count = data[begin + 4], int.from_bytes(data[begin + 5 : body], "big")
        published = read_published(data, body, end, count, data[begin + 3])
        self._turns.work_left -= FRAME_WORK + count
        self._counts.published += count
        publisher = self.by_number.get(number)
        if publisher is None:
            note_error(self._connection.services, codes.PUBLISHER_DOES_NOT_EXIST)
            self._connection.send(
                responses.publish_error(number, codes.PUBLISHER_DOES_NOT_EXIST, published.numbers)
            )
            return
        if not count:
            return
        session, tracer = self._connection.session, self._connection.vhost.tracer
        if tracer is not None:
            name = publisher.reference.decode("utf-8", "surrogateescape")
            messages = published.message_count
            tracer.stream_changed(
                StreamPublished(session, publisher.stream, name, messages, end - begin)
            )
        publisher.published += count
        self._counts.routed += count
        self.unconfirmed += count
        frame_bytes = end - begin
        self._unconfirmed_bytes += frame_bytes
        left_out = b""
        if publisher.reference and not published.are_increasing:
            left_out = published.put_in_order()
        if len(published.entries) <= ENTRIES_MAX:
            self._append(publisher, published, left_out, frame_bytes)
        else:
            for part in published.parts(ENTRIES_MAX):
                self._append(publisher, part, left_out, frame_bytes)
                left_out, frame_bytes = b"", 0
        self._look_at_unconfirmed()

    def _append(
        self,
        publisher: StreamPublisher,
        published: PublishedEntries,
        left_out: bytes,
        frame_bytes: int,
    ) -> None:
        """Append entries to the stream. left_out: ids that are confirmed together with them."""
        values = published.filter_values
        entries = StreamEntries(
            publisher.reference, published.numbers if publisher.reference else (),
            tuple(values) if any(values) else (), published.message_count, published.entries,
        )  # fmt: skip
        ids = published.ids + left_out
        publisher.stream.append(entries, partial(self._confirmed, publisher, ids, frame_bytes))

    def _confirmed(
        self, publisher: StreamPublisher, ids: bytes, frame_bytes: int, is_stored: bool
    ) -> None:
        """Entries of a publisher are stored, or lost with their stream."""
        count = len(ids) // ID_BYTES
        self.unconfirmed -= count
        self._unconfirmed_bytes -= frame_bytes
        if self.is_full:
            self._look_at_unconfirmed()
        if self.by_number.get(publisher.number) is not publisher:
            return
        if not is_stored:
            publisher.refused += count
            error = responses.publish_error(
                publisher.number, codes.STREAM_NOT_AVAILABLE, numbers_of(ids)
            )
            self._connection.send(error)
            return
        if not publisher.due:
            self._due.append(publisher)
        publisher.due.append(ids)
        publisher.confirmed += count
        self._counts.confirmed += count
        self._connection.confirm_later()

    def send_confirms(self) -> None:
        """Send the confirms that are due."""
        if not self._due or self._connection.services.holds_confirms:
            return
        due, self._due = self._due, []
        for publisher in due:
            ids, publisher.due = publisher.due, []
            if self.by_number.get(publisher.number) is publisher:
                confirm = responses.publish_confirm(publisher.number, b"".join(ids))
                self._connection.send(confirm)

    def _look_at_unconfirmed(self) -> None:
        was_full = self.is_full
        count_max, bytes_max = self._unconfirmed_max, UNCONFIRMED_BYTES_MAX
        if was_full:
            count_max, bytes_max = self._resume_at, UNCONFIRMED_BYTES_MAX // 2
        self.is_full = self.unconfirmed > count_max or self._unconfirmed_bytes > bytes_max
        if was_full and not self.is_full:
            self._connection.go_on()
