"""Decodes deliveries when a consumer takes them.

The next deliveries of a consumer are mostly in the same run of messages. So the reader keeps its
place in the run, and skips messages that went to other consumers.

Consumers see how often a message was returned in the header `x-delivery-count`, as in RabbitMQ:
from the first return on, or always if the message was taken with basic.get. Since RabbitMQ 4.3
`x-delivery-count` is only of failed deliveries, and `x-acquired-count` of all.
"""

from mypy_extensions import i64

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.field_table import Table
from leveret.broker.protocols.amqp10.modified_messages import annotated
from leveret.cluster.quorum.client.delivered_run import DeliveredRun
from leveret.cluster.remote_queues.message_runs import RunReader
from leveret.storage.messages.addresses import Addresses
from leveret.storage.messages.message import Entry, Message

DELIVERY_COUNT = "x-delivery-count"
ACQUIRED_COUNT = "x-acquired-count"


class DeliveryReader:
    """Decodes deliveries. addresses: shared by all messages from other nodes."""

    __slots__ = ("_addresses", "_data", "_place", "_reader", "_start", "_tells_returns")

    def __init__(self, addresses: Addresses, tells_returns: bool = False) -> None:
        """tells_returns: see `OwnNode`."""
        self._addresses = addresses
        self._tells_returns = tells_returns
        self._data = b""
        self._start: i64 = 0
        self._place: i64 = 0
        self._reader: RunReader | None = None

    def read(
        self, delivered: DeliveredRun, count: int, first: int, shows_zero: bool = False
    ) -> list[Entry]:
        """The first messages of a run as entries, numbered from `first`. Raises RunError.

        shows_zero: whether a message that was never returned has a count, too.
        """
        run = delivered.run
        reader = self._reader
        if (
            reader is None
            or delivered.data is not self._data
            or delivered.start != self._start
            or run.place < self._place
        ):
            self._data, self._start, self._place = delivered.data, delivered.start, 0
            reader = self._reader = RunReader(delivered.data, delivered.start, self._addresses)
        if run.place > self._place:
            reader.skip(run.place - self._place)
        self._place = run.place + count
        entries = reader.some_entries(count, first, run.returns > 0)
        if run.annotations is not None:
            for entry in entries:
                entry.message = annotated(entry.message, run.annotations)
        if run.returns or shows_zero:
            _count(entries, run.delivery_count, run.returns if self._tells_returns else 0)
        return entries

    def forget(self) -> None:
        """Keep no bytes, while nothing has to be decoded."""
        self._data, self._reader = b"", None


def _count(entries: list[Entry], delivery_count: int, returns: int) -> None:
    """Add the counts to messages. Messages that share their properties still share them."""
    published: ContentHeader | None = None
    counted: ContentHeader | None = None
    for entry in entries:
        message = entry.message
        header = message.header
        assert isinstance(header, ContentHeader), "messages are read with content headers"
        if header is not published or counted is None:
            published, counted = header, with_count(header, delivery_count, returns)
        entry.message = Message(
            message.address, counted, message.body, message.stored, message.number
        )


def with_count(header: ContentHeader, delivery_count: int, returns: int = 0) -> ContentHeader:
    """The properties with a delivery count added. returns: a count of its own; 0: not told."""
    headers: Table = dict(header.headers)
    if returns:
        headers[ACQUIRED_COUNT] = ("l", returns)
    if delivery_count or not returns:
        headers[DELIVERY_COUNT] = ("l", delivery_count)
    # RabbitMQ sorts a table in which it sets a value.
    return header.replace(headers=dict(sorted(headers.items()))).as_persistent()
