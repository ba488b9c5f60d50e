"""What clients of an embedded broker published and were given, and waiting for it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from leveret.broker.amqp.content_header import ContentHeader
from leveret.storage.messages.message import Message

SHOWN_MAX = 10
"""Messages that the error of a wait lists."""


@dataclass(frozen=True)
class RecordedMessage:
    """A message that a client published, or was given.

    properties: by the names of the specification; `headers` has plain Python values.
    queues: where it went when it was published, or the one it was delivered from.
    """

    vhost: str
    exchange: str
    routing_key: str
    body: bytes
    properties: dict[str, Any]
    queues: tuple[str, ...]
    redelivered: bool = False


class Records:
    """Records messages (`services.Observer`), in order."""

    def __init__(self) -> None:
        self.published_messages: list[RecordedMessage] = []
        self.delivered_messages: list[RecordedMessage] = []
        self._waiting: list[asyncio.Future[None]] = []

    def published(self, vhost: str, message: Message, queues: list[str]) -> None:
        """A client published a message."""
        self._add(self.published_messages, _record(vhost, message, tuple(queues), False))

    def delivered(self, vhost: str, queue: str, message: Message, redelivered: bool) -> None:
        """A client was given a message."""
        self._add(self.delivered_messages, _record(vhost, message, (queue,), redelivered))

    def _add(self, messages: list[RecordedMessage], record: RecordedMessage) -> None:
        messages.append(record)
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def clear(self) -> None:
        """Forget all messages."""
        self.published_messages.clear()
        self.delivered_messages.clear()

    async def wait_for(
        self, verb: str, count: int, queue: str | None, seconds: float
    ) -> list[RecordedMessage]:
        """Wait for a number of messages. verb: `published` or `delivered`. Raises TimeoutError."""
        messages = self.published_messages if verb == "published" else self.delivered_messages
        try:
            async with asyncio.timeout(seconds):
                while len(found := _of_queue(messages, queue)) < count:
                    change = asyncio.get_running_loop().create_future()
                    self._waiting.append(change)
                    await change
        except TimeoutError:
            raise TimeoutError(_what_is_missing(verb, count, queue, seconds, messages)) from None
        return found


def _of_queue(messages: list[RecordedMessage], queue: str | None) -> list[RecordedMessage]:
    return [one for one in messages if queue is None or queue in one.queues]


def _what_is_missing(
    verb: str, count: int, queue: str | None, seconds: float, messages: Sequence[RecordedMessage]
) -> str:
    where = "" if queue is None else f" {'to' if verb == 'published' else 'from'} queue '{queue}'"
    found = len(_of_queue(list(messages), queue))
    lines = [
        f"  exchange '{one.exchange}', routing key '{one.routing_key}', queues {list(one.queues)}"
        for one in messages[-SHOWN_MAX:]
    ]
    return "\n".join(
        [
            f"waited {seconds:g} seconds for {count} messages {verb}{where}, and there are {found}."
            f" Messages {verb} in all: {len(messages)}",
            *lines,
        ]
    )


def _record(
    vhost: str, message: Message, queues: tuple[str, ...], redelivered: bool
) -> RecordedMessage:
    header = message.header
    assert isinstance(header, ContentHeader)
    properties = dict(header.properties)
    if "headers" in properties:
        properties["headers"] = _plain("F", properties["headers"])
    return RecordedMessage(
        vhost,
        message.address.exchange,
        message.address.routing_key,
        message.body,
        properties,
        queues,
        redelivered,
    )


def _plain(letter: str, value: Any) -> Any:
    """A field's value without its type."""
    if letter == "F":
        return {name: _plain(*field) for name, field in value.items()}
    if letter == "A":
        return [_plain(*field) for field in value]
    return value
