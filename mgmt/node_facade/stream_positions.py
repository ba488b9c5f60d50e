"""Shows messages of a stream, copies them to a queue, and stores where a consumer goes on.

A copy is made in parts, each from one offset on, so that little is in memory. Messages keep their
exchange, routing key and properties, and have their offset in the header `x-stream-offset`. The
queue has confirmed a part when it is returned.
"""

import asyncio
import struct
from typing import Final, NamedTuple

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.errors import internal_error, not_found, precondition_failed
from leveret.broker.queues.contract.offset_specification import NEXT, OffsetSpecification
from leveret.broker.queues.contract.publication import publication_of
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.runtime.names import QUEUE, resource
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.pending_in_task import given_in_task
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.cluster.partitions.leftovers.publishing import LeftoverConfirms
from leveret.cluster.streams.client.member_questions import Stats
from leveret.cluster.streams.client.message_window import MESSAGES_MAX, WindowPart, read_part
from leveret.cluster.streams.client.stream_queue_client import StreamQueueClient
from leveret.cluster.streams.machine.questions import Tracked
from leveret.storage.messages.message import Message

SECONDS_MAX: Final = 30.0
"""How long a part waits for messages of the stream, or for confirms of the queue."""
LOOK_SECONDS_MAX: Final = 5.0
"""How long a person waits for messages that are shown."""


class CopiedPart(NamedTuple):
    """What was copied. first, end: the offsets of the whole copy, without `end`. next_offset:
    where the next part begins. refused: how many of the `taken` messages the queue has refused.
    """

    first: int
    next_offset: int
    end: int
    taken: int
    refused: int


class ShownMessages(NamedTuple):
    """Messages of a stream. first, end: the offsets that it has, without `end`."""

    part: WindowPart
    first: int
    end: int


class StoredOffset(NamedTuple):
    """What is stored under a consumer's name, and what was: None if nothing was."""

    stored: int
    before: int | None


async def look(
    vhost: VirtualHost, name: str, start: OffsetSpecification, count: int
) -> ShownMessages:
    """Messages from a position on, without consuming them. Raises Fault."""
    stream = _stream(vhost, name)
    known: Answer[Stats] = Answer()
    stream.ask_stats(known)
    offsets = (await given_in_task(known)).offsets
    first = max(await _offset_of(stream, start), offsets.first)
    part = WindowPart([], first)
    if count and first < offsets.end:
        part = await _read_part(stream, first, offsets.end, LOOK_SECONDS_MAX, count)
    return ShownMessages(part, offsets.first, offsets.end)


async def tracked(vhost: VirtualHost, name: str) -> Tracked:
    """The stored offsets and sequence numbers of a stream. Raises Fault."""
    found: Answer[Tracked] = Answer()
    _stream(vhost, name).tracked(found)
    return await given_in_task(found)


async def copy_part(
    vhost: VirtualHost, name: str, target: str, start: OffsetSpecification,
    stop: OffsetSpecification,
) -> CopiedPart:  # fmt: skip
    """Copy the next messages between two positions. Raises Fault."""
    stream, queue = _stream(vhost, name), _queue(vhost, target)
    first, end = await _offset_of(stream, start), await _offset_of(stream, stop)
    if first >= end:
        return CopiedPart(first, first, end, 0, 0)
    part = await _read_part(stream, first, end, SECONDS_MAX, MESSAGES_MAX)
    refused = await _publish(queue, [one.message for one in part.messages])
    return CopiedPart(first, part.next_offset, end, len(part.messages), refused)


async def _read_part(
    stream: StreamQueueClient, first: int, end: int, seconds: float, messages_max: int
) -> WindowPart:
    what = resource(QUEUE, stream.name, stream.vhost_name)
    try:
        return await read_part(stream, first, end, seconds, messages_max)
    except TimeoutError:
        reason = f"no member of {what} gives its messages from offset {first} on: try again"
        raise internal_error(reason) from None
    except (ValueError, IndexError, struct.error) as error:
        raise internal_error(f"the messages of {what} are damaged: {error}") from error


async def _publish(queue: QueueClient, messages: list[Message]) -> int:
    """Publish messages, and wait until the queue has confirmed them; how many it has refused."""
    confirms = LeftoverConfirms()
    for number, message in enumerate(messages, 1):
        header = message.header
        assert isinstance(header, ContentHeader)
        confirms.begin(number)
        queue.publish(publication_of([message], header.ttl_ms, confirms, number))
        confirms.confirm(number, confirms)
    try:
        async with asyncio.timeout(SECONDS_MAX):
            await confirms.wait(0)
    except TimeoutError:
        reason = f"queue '{queue.name}' does not confirm messages: try again when it has a leader"
        raise internal_error(reason) from None
    return confirms.refused


async def store_offset(
    vhost: VirtualHost, name: str, reference: bytes, position: OffsetSpecification
) -> StoredOffset:
    """Store the offset before a position under a consumer's name. Raises Fault.

    Consumers store the offset of the last message that they have handled.
    """
    stream = _stream(vhost, name)
    offset = await _offset_of(stream, position)
    if offset == 0:
        raise precondition_failed(
            "a consumer stores the offset of the last message that it has handled, and there is "
            "none before offset 0: have it begin with 'first', under another name"
        )
    before: Answer[int | None] = Answer()
    stream.stored_offset(reference, before)
    stored_before = await given_in_task(before)
    stored: Answer[None] = Answer()
    stream.keep_offset(reference, offset - 1, stored)
    await given_in_task(stored)
    return StoredOffset(offset - 1, stored_before)


async def _offset_of(stream: StreamQueueClient, position: OffsetSpecification) -> int:
    """The offset of a position; at most that after the last message."""
    found: Answer[int] = Answer()
    stream.resolve_offset(position, found)
    end: Answer[int] = Answer()
    stream.resolve_offset(NEXT, end)
    return min(await given_in_task(found), await given_in_task(end))


def _queue(vhost: VirtualHost, name: str) -> QueueClient:
    queue = vhost.queues.get(name)
    if queue is None:
        raise not_found(f"no {resource(QUEUE, name, vhost.name)}")
    return queue


def _stream(vhost: VirtualHost, name: str) -> StreamQueueClient:
    queue = _queue(vhost, name)
    if not isinstance(queue, StreamQueueClient):
        raise precondition_failed(f"{resource(QUEUE, name, vhost.name)} is not a stream")
    return queue
