"""The runs of messages that are published together.

A publisher repeats the arguments of basic.publish, but each of its messages has properties and a
body of its own. Messages to one address make a run, which is routed once and handed to each queue
in one call, as long as queues treat them in the same way (`ContentHeader.kind`).
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.properties import EXPIRES, PropertiesError, scan
from leveret.storage.message import Address, Message


class Run(NamedTuple):
    """Messages that are published together: to one address, with the same kind of properties.

    body_bytes: the sum of their bodies' sizes. header_count: how many properties were read for it.
    """

    messages: list[Message]
    body_bytes: int
    header_count: int = 0

    def parts(self, count: int) -> tuple["Run", "Run"]:
        """The run of its first messages, so many, and that of the others."""
        first, rest = self.messages[:count], self.messages[count:]
        first_bytes = sum([len(message.body) for message in first])
        return Run(first, first_bytes), Run(rest, self.body_bytes - first_bytes)


class PublishTarget(Protocol):
    """Where messages are published to. header: of the last message; the next may have the same."""

    address: Address
    header: ContentHeader | None


def runs_of(
    target: PublishTarget,
    properties: list[bytes],
    bodies: list[bytes],
    body_bytes: int,
    bytes_max: int,
) -> Iterator[Run]:
    """The runs that messages to one target make.

    A run is cut where delivery mode or priority changes (`ContentHeader.kind`), and where messages
    that expire have other properties. A message that needs care is a run by itself, and so are all
    if they have more than `bytes_max` bytes together. Raises PropertiesError after the runs before
    the message whose properties are malformed.
    """
    address, header, raw = target.address, target.header, None
    is_alone = are_large = body_bytes > bytes_max
    messages: list[Message] = []
    is_cut, kind, header_count = False, -1, 0
    for its_raw, body in zip(properties, bodies, strict=True):
        if its_raw is not raw:
            raw = its_raw
            if header is None or header.raw != raw:
                try:
                    header = ContentHeader(raw, scan(raw), (), False, raw)
                    target.header = header
                except PropertiesError:
                    if messages:
                        yield _run(messages, header_count)
                    raise
            if header.kind != kind or (
                kind & EXPIRES and messages and messages[-1].header is not header
            ):
                kind, is_alone = header.kind, are_large or header.needs_care
                if messages:
                    is_cut = True
                    yield _run(messages, header_count)
                    messages, header_count = [], 0
            header_count += 1
        assert header is not None
        messages.append(Message(address, header, body))
        if is_alone:
            is_cut = True
            yield _run(messages, header_count)
            messages, header_count = [], 0
    if is_cut and messages:
        yield _run(messages, header_count)
    elif messages:
        yield Run(messages, body_bytes, header_count)


def _run(messages: list[Message], header_count: int) -> Run:
    return Run(messages, sum([len(message.body) for message in messages]), header_count)
