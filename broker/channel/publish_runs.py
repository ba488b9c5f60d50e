"""The runs of messages that are published together.

A publisher repeats the arguments of basic.publish, but each of its messages has properties and a
body of its own. Messages to one address make a run, which is routed once and handed to each queue
in one call, as long as queues treat them in the same way (`ContentHeader.kind`).
"""

from collections.abc import Iterator
from typing import NamedTuple

from leveret.broker.amqp.properties import ContentHeader, PropertiesError
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


def runs_of(
    address: Address, properties: list[bytes], bodies: list[bytes], body_bytes: int, bytes_max: int
) -> Iterator[Run]:
    """The runs that messages to one address make.

    A run is cut where delivery mode, priority or the need for care changes (`ContentHeader.kind`).
    One of more than `bytes_max` bytes is a single message. Raises PropertiesError after the runs
    before the message whose properties are malformed.
    """
    is_cut, are_large = False, body_bytes > bytes_max
    messages: list[Message] = []
    raw, kind, header_count = None, None, 0
    for its_raw, body in zip(properties, bodies, strict=True):
        if its_raw is not raw:
            raw = its_raw
            try:
                header = ContentHeader(raw)
            except PropertiesError:
                if messages:
                    yield _run(messages, header_count)
                raise
            if header.kind != kind:
                kind = header.kind
                if messages:
                    is_cut = True
                    yield _run(messages, header_count)
                    messages, header_count = [], 0
            header_count += 1
        messages.append(Message(address, header, body))
        if are_large:
            is_cut = True
            yield _run(messages, header_count)
            messages, header_count = [], 0
    if is_cut and messages:
        yield _run(messages, header_count)
    elif messages:
        yield Run(messages, body_bytes, header_count)


def _run(messages: list[Message], header_count: int) -> Run:
    return Run(messages, sum([len(message.body) for message in messages]), header_count)
