"""A quorum queue's record of a message that was returned to it: how often, and its new place.

A returned message is published to its queue again and the delivered one is acked, both in the same
batch of the log. So its delivery count and its place survive a restart without a record of their
own. Its properties, as they are stored, have a header that only the broker sets; a client's header
of that name is removed. Consumers get the original properties with `x-delivery-count`, and dead
letters the original ones.

A message that goes to the front is in a level of its own (priority_levels.py), in which messages
are in the order of their return; others are behind all messages of the queue. This is the order of
RabbitMQ's `rabbit_fifo`, which has a list of returned messages, and appends what was returned by a
client to the log of a queue without a delivery limit.
"""

from typing import NamedTuple

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.field_table import Table
from leveret.broker.queues.contract.priority_levels import PriorityLevels
from leveret.storage.messages.message import Entry, Header, Message

RETURNS = "x-leveret-returns"
DELIVERY_COUNT = "x-delivery-count"
_RETURNS_BYTES = RETURNS.encode()


class Returned(NamedTuple):
    """The mark of a returned message's properties, as they are stored.

    original: the properties that it was published with. returns: the number of its returns.
    is_first: it goes to the front.
    """

    original: ContentHeader
    returns: int
    is_first: bool


class Delivered(NamedTuple):
    """The mark of the properties of a message with its delivery count, as consumers get them.

    original, returns: as in `Returned`. level: the queue's level that the message is in.
    """

    original: ContentHeader
    returns: int
    level: int


def _returned_header(original: ContentHeader, count: int, is_first: bool) -> ContentHeader:
    headers = {**original.headers, RETURNS: ("A", [("l", count), ("t", is_first)])}
    return original.replace(headers=headers).marked(Returned(original, count, is_first))


def _delivered_header(original: ContentHeader, count: int, level: int) -> ContentHeader:
    headers = {**original.headers, DELIVERY_COUNT: ("l", count)}
    # RabbitMQ sorts a table in which it sets a value.
    counted = original.replace(headers=dict(sorted(headers.items())))
    return counted.marked(Delivered(original, count, level))


def is_marked(header: Header) -> bool:
    """Whether the properties say, or seem to say, that the message was returned."""
    return _RETURNS_BYTES in header.raw


def without_mark(header: ContentHeader) -> ContentHeader:
    """The properties without the header that only the broker sets."""
    return header.replace(headers=_unmarked(header.headers))


def _unmarked(headers: Table) -> Table | None:
    return {name: field for name, field in headers.items() if name != RETURNS} or None


def _read(header: Header) -> Returned | None:
    """The content of stored properties; None if the message was not returned."""
    mark = _mark_of(header)
    if isinstance(mark, Returned):
        return mark
    if not is_marked(header):
        return None
    assert isinstance(header, ContentHeader)
    field = header.headers.get(RETURNS)
    if field is None:
        return None
    count, is_first = (value for _, value in field[1])
    return Returned(without_mark(header), count, is_first)


def _mark_of(header: Header) -> object:
    return header.mark if isinstance(header, ContentHeader) else None


def _level_of(message: Message) -> int:
    header = message.header
    mark = _mark_of(header)
    if isinstance(mark, Delivered):
        return mark.level
    stored = _read(header)
    return int(stored is not None and stored.is_first)


LEVELS = PriorityLevels(1, _level_of)
"""Level 1 has the messages that went to the front."""


def delivered(entry: Entry, shows_zero: bool) -> Entry:
    """An entry as its receiver gets it. shows_zero: the first delivery has a count, too."""
    message = entry.message
    if isinstance(_mark_of(message.header), Delivered):
        return entry
    stored = _read(message.header)
    # A message that was delivered when the node stopped was returned by the stop.
    count = entry.redelivered + (0 if stored is None else stored.returns)
    if not count and not shows_zero:
        return entry
    published = message.header if stored is None else stored.original
    assert isinstance(published, ContentHeader)
    header = _delivered_header(published, count, _level_of(message))
    return Entry(_with(message, header), entry.position, count > 0, entry.expires_at_ms)


def return_count(message: Message) -> int:
    """The number of returns of a message that was delivered, or is in the queue."""
    mark = _mark_of(message.header)
    if isinstance(mark, Delivered):
        return mark.returns
    stored = _read(message.header)
    return 0 if stored is None else stored.returns


def original(message: Message) -> Message:
    """The message as it was published."""
    mark = _mark_of(message.header)
    if isinstance(mark, Delivered):
        return _with(message, mark.original)
    stored = _read(message.header)
    return message if stored is None else _with(message, stored.original)


def returned(message: Message, count: int, is_first: bool) -> Message:
    """A message that was delivered, as it is published to its queue again."""
    header = original(message).header
    assert isinstance(header, ContentHeader)
    return _with(message, _returned_header(header, count, is_first))


def _with(message: Message, header: ContentHeader) -> Message:
    return Message(message.address, header, message.body, message.stored, message.number)
