"""The session of a STOMP connection, with the receipts of its messages.

A receipt of SEND is a publisher confirm: from the first one on, the session's messages are
confirmed, and a RECEIPT is sent for each message with a header `receipt`. If a queue refuses such a
message, the client gets an ERROR frame with the header receipt-id in place of the RECEIPT.
"""

from librt.strings import BytesWriter
from mypy_extensions import mypyc_attr

from leveret.broker.net.socket_output import SocketOutput
from leveret.broker.protocols.stomp.errors import StompError, error_headers
from leveret.broker.protocols.stomp.frames import encode_frame, encode_receipt
from leveret.broker.protocols.stomp.message_frames import MessageFrames
from leveret.broker.runtime.clock import Clock
from leveret.broker.runtime.pending import Answer, given
from leveret.broker.runtime.turns import Turns
from leveret.broker.sessions.session import Session
from leveret.broker.sessions.session_connection import SessionConnection
from leveret.storage.messages.message import Message


@mypyc_attr(allow_interpreted_subclasses=True)
class StompOutput(SocketOutput):
    """The output of a connection. session: sends its receipts here; None before the login.

    frame_end: the bytes after the body of a frame.
    """

    __slots__ = ("frame_end", "session")

    def __init__(self, turns: Turns, clock: Clock, frame_end: bytes) -> None:
        super().__init__(turns, clock)
        self.frame_end = frame_end
        self.session: StompSession | None = None

    def flush(self) -> None:
        """Write the receipts that are due, and the gathered frames."""
        session = self.session
        if session is not None and session.has_confirms_due:
            session.send_receipts()
        super().flush()

    def send(self, command: str, headers: dict[str, str], body: bytes = b"") -> None:
        """Send a frame."""
        self.write(encode_frame(command, headers, body, self.frame_end))

    def send_receipt(self, receipt: str) -> None:
        """Send RECEIPT."""
        self.write(encode_receipt(receipt, self.frame_end))

    def send_error(self, error: StompError) -> None:
        """Send ERROR."""
        detail = error.detail.encode("utf-8", "surrogateescape")
        self.send("ERROR", error_headers(error), detail)


@mypyc_attr(allow_interpreted_subclasses=True)
class StompSession(Session):
    """The session of one client.

    name_for_client: the name that the client sees, which is part of message-ids. receipts: those
    that are still to be sent, by the number of their message. reply_frames: write the frames for
    the consumer of direct replies.
    """

    __slots__ = ("_all_sent", "name_for_client", "output", "receipts", "reply_frames")

    def __init__(
        self, connection: SessionConnection, output: StompOutput, name_for_client: str
    ) -> None:
        super().__init__(connection, 1)
        self.output = output
        self.name_for_client = name_for_client
        self.receipts: dict[int, str] = {}
        self.reply_frames: MessageFrames | None = None
        self._all_sent: Answer[None] | None = None

    @property
    def tells_cancels(self) -> bool:
        """Whether the client is notified if a subscription ends without an UNSUBSCRIBE."""
        return True

    def send_returned(self, messages: list[Message], code: int, text: str) -> None:
        """Do nothing: no message of STOMP is mandatory."""

    def send_confirms_later(self) -> None:
        """Send receipts when the output is written, at the end of the round."""
        self.output.flush_later()

    def send_receipts(self) -> None:
        """Send the receipts of the messages that are confirmed."""
        receipts = self.receipts
        for is_ack, number, multiple in self.take_confirms():
            if not multiple:
                self._send_receipt(number, is_ack)
                continue
            while receipts and (first := next(iter(receipts))) <= number:
                self._send_receipt(first, is_ack)
        if not receipts and self._all_sent is not None:
            all_sent, self._all_sent = self._all_sent, None
            all_sent.give(None)

    def _send_receipt(self, number: int, is_ack: bool) -> None:
        receipt = self.receipts.pop(number, None)
        if receipt is None:
            return
        if is_ack:
            self.output.send_receipt(receipt)
        else:
            detail = "A queue did not take the message.\n"
            refused = StompError("Message refused", detail, {"receipt-id": receipt})
            self.output.send_error(refused)

    def all_receipts_sent(self) -> Answer[None]:
        """Answers when all receipts are sent. Only one caller may wait at a time."""
        if not self.receipts:
            return given(None)
        self._all_sent = Answer()
        return self._all_sent

    def deliver_reply(self, message: Message) -> None:
        """Send MESSAGE to the subscription of amq.rabbitmq.reply-to."""
        if self.reply_frames is None or not self.reply_consumer_tag:
            return
        writer = BytesWriter()
        self.reply_frames.write(writer, message, self.next_delivery_tag, False)
        self.next_delivery_tag += 1
        self.output.write(writer.getvalue())
