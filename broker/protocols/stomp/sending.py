"""SEND: messages of one connection, published in runs. Compiled.

Consecutive messages to one destination and of one kind (`ContentHeader.run_kind`) are a run, which
is published in one call. A head is interpreted once: its destination becomes a `PublishTarget`, and
its headers become properties. Both are kept with the head if the scanner keeps it (frames.py);
targets are also found by the text of the destination. The header `receipt`, in which heads differ,
is also a header of the message, as in RabbitMQ.
"""

from typing import Final

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.field_table import encode_long_string, encode_short_string
from leveret.broker.amqp.header_bytes import NewFields
from leveret.broker.amqp.properties import NEEDS_CARE
from leveret.broker.net.reading import MANY_BYTES
from leveret.broker.protocols.stomp.frames import RECEIPT
from leveret.broker.protocols.stomp.stomp_session import StompSession
from leveret.broker.queues.contract.publication import Publication
from leveret.broker.runtime.pending import Steps
from leveret.broker.runtime.turns import Turns
from leveret.broker.sessions import publishing
from leveret.broker.sessions.targets import RUN_WORK, PublishTarget
from leveret.storage.messages.message import Address, Message

_KEY: Final = b"\0\0\0"
"""The prefix of a destination in the key of its target. No key of an exchange and a routing key has
this prefix, except that of two empty names, which has nothing after it."""
RECEIPT_WORK: Final = 10
"""The work of a message's receipt, in the units of broker/runtime/turns.py."""
_RECEIPTS: Final = NewFields((RECEIPT,))
_RECEIPT_FIELD: Final = encode_short_string(RECEIPT) + b"S"


class SendUse:
    """The target and the properties of messages whose heads differ in their receipts at most.

    header: without a receipt.
    """

    __slots__ = ("header", "target")

    def __init__(self, target: PublishTarget, header: ContentHeader) -> None:
        self.target = target
        self.header = header

    def header_with(self, receipt: str) -> ContentHeader:
        """The properties of the message with this receipt."""
        field = _RECEIPT_FIELD + encode_long_string(receipt)
        raw = _RECEIPTS.added(self.header.raw, field)
        assert raw is not None, "the header has no receipt"
        return ContentHeader(raw, self.header.kind, (), False, raw)


class Sending:
    """The messages of one session that wait to be published together."""

    __slots__ = ("_body_bytes", "_bytes_max", "_kind", "_messages", "_session", "_target", "_turns")

    def __init__(self, session: StompSession) -> None:
        self._session: StompSession | None = session
        self._turns: Turns = session.vhost.turns
        self._bytes_max = session.message_bytes_max
        self._target: PublishTarget | None = None
        self._messages: list[Message] = []
        self._body_bytes = 0
        self._kind = -1

    def close(self) -> None:
        """The connection ends: drop the messages that are not published."""
        self._session = self._target = None
        self._messages = []

    @property
    def is_any(self) -> bool:
        """Whether messages wait to be published."""
        return bool(self._messages)

    @property
    def is_persistent(self) -> bool:
        """Whether the waiting messages are persistent."""
        return publishing_header(self._messages[0]).is_persistent

    @property
    def count(self) -> int:
        """The number of waiting messages."""
        return len(self._messages)

    def takes(self, use: SendUse, body_bytes: int) -> bool:
        """Whether a message belongs to the same run as the waiting messages."""
        if not self._messages:
            return True
        kind = use.header.run_kind
        return (
            use.target is self._target
            and kind == self._kind
            and kind < NEEDS_CARE
            and self._body_bytes + body_bytes <= self._bytes_max
        )

    def add(self, use: SendUse, receipt: str | None, body: bytes) -> None:
        """Add a message to the run. receipt: None if the client wants none."""
        target, header = use.target, use.header
        turns = self._turns
        if not self._messages:
            self._target, self._kind, self._body_bytes = target, use.header.run_kind, 0
            turns.work_left -= RUN_WORK
        if receipt is not None:
            header = use.header_with(receipt)
            self._expect_receipt(receipt)
        self._messages.append(Message(target.address, header, body))
        self._body_bytes += len(body)
        turns.work_left -= target.work

    def _expect_receipt(self, receipt: str) -> None:
        """Send this receipt when the message that is added next is confirmed."""
        session = self._session
        assert session is not None, "the connection is open"
        confirms = session.confirms
        if confirms is None:
            session.begin_confirms()
            confirms = session.confirms
            assert confirms is not None, "they have begun"
        session.receipts[confirms.published + len(self._messages) + 1] = receipt
        self._turns.work_left -= RECEIPT_WORK

    def publish(self) -> Steps | None:
        """Publish the run; returns a coroutine that publishes it if that has to wait.

        Raises Fault.
        """
        session, target = self._session, self._target
        messages, self._messages = self._messages, []
        assert session is not None, "the connection is open"
        assert target is not None, "there is a run"
        return publishing.publish(session, target, Publication(messages, self._body_bytes))

    def outruns(self) -> PublishTarget | None:
        """The target of the last run, if the run was so large that consumers may be behind."""
        return self._target if self._body_bytes >= MANY_BYTES else None

    def drop(self) -> int:
        """Drop the run; returns the number of its messages."""
        count = len(self._messages)
        self._messages = []
        return count


def publishing_header(message: Message) -> ContentHeader:
    """The header of a message of this broker."""
    header = message.header
    assert isinstance(header, ContentHeader), "the broker's messages have such headers"
    return header


def target_of(session: StompSession, destination: str) -> PublishTarget | None:
    """The target that is known for the text of a destination."""
    return session.connection.targets.find(_key(destination))


def add_target(
    session: StompSession, destination: str, exchange: str, routing_key: str
) -> PublishTarget:
    """Keep the target of a destination. The names have at most 255 bytes."""
    encoded = encode_short_string(exchange) + encode_short_string(routing_key)
    target = PublishTarget(Address(exchange, routing_key, encoded), is_mandatory=False)
    session.connection.targets.add(_key(destination), target)
    return target


def _key(destination: str) -> bytes:
    return _KEY + destination.encode("utf-8", "surrogateescape")
