"""MESSAGE frames: a message as a subscription gets it. Compiled.

Most messages of a subscription have the same address and the same properties as the previous one,
so the lines for these are kept, and only the tag, the size and the body are new.
"""

from typing import Final

from librt.strings import BytesWriter

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.protocols.stomp.destinations import format_destination
from leveret.broker.protocols.stomp.frames import encode_headers, escape
from leveret.broker.protocols.stomp.message_headers import message_headers
from leveret.storage.messages.message import Address, Header, Message

SEPARATOR: Final = "@@"
"""Separates the parts of a message-id: the subscription, the session and the delivery tag."""
OF_ID: Final = "T_"
OF_DESTINATION: Final = "Q_"
"""The beginnings of the tags of subscriptions with an id, and without one."""
_REDELIVERED: Final = b"\nredelivered:true\n"
_FIRST: Final = b"\nredelivered:false\n"


class MessageFrames:
    """The frames of one subscription. tag: its consumer tag. has_ack: MESSAGE has a header `ack`.

    end: the bytes after the body.
    """

    __slots__ = (
        "_ack_line", "_address", "_end", "_header", "_id_line", "_lines", "_size", "_size_line",
        "_subscription",
    )  # fmt: skip

    def __init__(self, tag: str, session: str, has_ack: bool, end: bytes) -> None:
        identifier = escape(f"{tag}{SEPARATOR}{session}{SEPARATOR}")
        self._id_line = f"message-id:{identifier}".encode("utf-8", "surrogateescape")
        self._ack_line = b""
        if has_ack:
            self._ack_line = f"\nack:{identifier}".encode("utf-8", "surrogateescape")
        self._end = end
        self._subscription = {}
        if tag.startswith(OF_ID):
            self._subscription = {"subscription": tag.removeprefix(OF_ID)}
        self._address: Address | None = None
        self._header: Header | None = None
        self._lines = b""
        self._size = 0
        self._size_line = b"\n"

    def write(
        self, writer: BytesWriter, message: Message, delivery_tag: int, redelivered: bool
    ) -> None:
        """Write the frame of a message, with its body and the bytes after it."""
        header, address = message.header, message.address
        if header is not self._header or address is not self._address:
            self._header, self._address = header, address
            assert isinstance(header, ContentHeader), "the broker's messages have such headers"
            self._lines = self._lines_of(header, address)
        size = len(message.body)
        if size != self._size:
            self._size = size
            self._size_line = b"content-length:%d\n\n" % size if size else b"\n"
        tag = str(delivery_tag).encode()
        writer.write(self._lines)
        writer.write(tag)
        if self._ack_line:
            writer.write(self._ack_line)
            writer.write(tag)
        writer.write(_REDELIVERED if redelivered else _FIRST)
        writer.write(self._size_line)
        writer.write(message.body)
        writer.write(self._end)

    def _lines_of(self, header: ContentHeader, address: Address) -> bytes:
        """The lines of a message before its delivery tag."""
        headers = dict(self._subscription)
        headers["destination"] = format_destination(address.exchange, address.routing_key)
        headers.update(message_headers(header.properties))
        return b"MESSAGE\n" + encode_headers(headers) + self._id_line
