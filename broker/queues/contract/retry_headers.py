"""How often a message was returned, in its properties: on disk, in memory and for consumers. Pure.

A returned message has a `Retry` as the mark of its header. In the store and on its way to mirrors
the mark is a header of the broker; consumers get the number of returns as `x-delivery-count`, like
those of quorum queues. A dead letter has neither.
"""

from typing import Final

from leveret.broker.amqp.content_header import ContentHeader, Retry, make_header
from leveret.broker.amqp.field_table import Table
from leveret.broker.amqp.properties import Properties, encode_properties
from leveret.storage.messages.message import Message

DELIVERY_COUNT: Final = "x-delivery-count"
RETRIES_FEATURE: Final = "classic_queue_retries"
"""The feature of nodes that know the header of the broker."""


def retry_of(message: Message) -> Retry | None:
    """The retries of a message; None if it was never returned to a queue that counts them."""
    header = message.header
    assert isinstance(header, ContentHeader), "messages have content headers"
    return header.mark if isinstance(header.mark, Retry) else None


def with_retry(message: Message, retry: Retry) -> Message:
    """The message with other retries, as it is stored."""
    header = message.header
    assert isinstance(header, ContentHeader), "messages have content headers"
    stored = make_header(_published(header), header.bcc_keys, header.form, retry)
    return _changed(message, header, stored.raw, stored.kind, stored.stored, retry)


def as_delivered(message: Message) -> Message:
    """The message as consumers get it: with the number of returns, if it was returned."""
    header = message.header
    assert isinstance(header, ContentHeader), "messages have content headers"
    if not isinstance(header.mark, Retry):
        return message
    headers: Table = {**header.headers, DELIVERY_COUNT: ("l", header.mark.returns)}
    # RabbitMQ sorts a table in which it sets a value.
    raw = encode_properties({**header.properties, "headers": dict(sorted(headers.items()))})
    return _changed(message, header, raw, header.kind, header.stored, header.mark)


def as_published(message: Message) -> Message:
    """The message without its retries, as its dead letter has it."""
    header = message.header
    assert isinstance(header, ContentHeader), "messages have content headers"
    if not isinstance(header.mark, Retry):
        return message
    return _with_header(message, make_header(_published(header), header.bcc_keys, header.form))


def _published(header: ContentHeader) -> Properties:
    """The properties without a delivery count that a queue has added."""
    properties = header.properties
    if not isinstance(header.mark, Retry) or DELIVERY_COUNT not in header.headers:
        return properties
    headers = {name: field for name, field in header.headers.items() if name != DELIVERY_COUNT}
    return {**properties, "headers": headers or None}


def _changed(
    message: Message, header: ContentHeader, raw: bytes, kind: int, stored: bytes, retry: Retry
) -> Message:
    """The message with other properties: `header` has those that stay."""
    return _with_header(
        message,
        ContentHeader(raw, kind, header.bcc_keys, header.is_kept, stored, retry, header.form),
    )


def _with_header(message: Message, header: ContentHeader) -> Message:
    return Message(message.address, header, message.body, message.stored, message.number)
