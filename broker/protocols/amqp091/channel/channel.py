"""A channel: a session of AMQP 0-9-1. The methods_* files have its methods.

A channel belongs to one connection and is known there by its number. It sends replies, deliveries
and notifications to its client as frames. When it fails, its consumers are cancelled and its
unsettled messages requeued before channel.close is sent.
"""

import logging
from typing import Any, Protocol, cast

from mypy_extensions import mypyc_attr
from pamqp import base, commands

from leveret.broker.amqp.content import content_frames, deliver_prefix, pack_tag
from leveret.broker.amqp.content_assembler import ContentAssembler
from leveret.broker.amqp.content_runs import content_run, get_ok, returned
from leveret.broker.amqp.errors import ChannelFault
from leveret.broker.amqp.field_table import encode_short_string
from leveret.broker.amqp.frames import settlement_frame
from leveret.broker.amqp.methods import method_frame
from leveret.broker.net.socket_output import SocketOutput
from leveret.broker.protocols.socket_connection import SocketConnection
from leveret.broker.runtime.pending import Answer, PendingOperation
from leveret.broker.services.services import Services
from leveret.broker.sessions.session import Session
from leveret.storage.messages.message import Message

logger = logging.getLogger("leveret.channel")


@mypyc_attr(allow_interpreted_subclasses=True)
class ConnectionOutput(SocketOutput):
    """The output of the channels of one connection.

    This is a class because compiled code looks up the attributes of a Protocol by name: a dozen for
    a message that arrives alone.
    """

    __slots__ = ("frame_bytes_max", "services")

    def __init__(self, services: Services, frame_bytes_max: int) -> None:
        super().__init__(services.turns, services.clock)
        self.services = services
        self.frame_bytes_max = frame_bytes_max

    def send(self, channel: int, method: type[base.Frame], **arguments: Any) -> None:
        """Send a method on a channel, or on the connection itself (0)."""
        self.pieces.append(method_frame(channel, method, **arguments))
        self.flush_later()

    def confirm_later(self, channel: "Channel") -> None:
        """Send the channel's confirms at the end of the round."""


class RepliesAwaitingSync(Protocol):
    """The replies of a channel that wait for the disk (amqp091/connection/unsynced_replies.py).

    all_sent: given when all replies are sent.
    """

    all_sent: Answer[None]

    def close(self) -> None:
        """Drop the replies, because the channel ends."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ChannelConnection(SocketConnection):
    """A connection, as its channels see it."""

    __slots__ = ()

    def send(self, channel: int, method: type[base.Frame], **arguments: Any) -> None:
        """Send a method on a channel, or on the connection itself (0)."""
        cast(ConnectionOutput, self.output).send(channel, method, **arguments)

    def has_capability(self, name: str) -> bool:
        """Whether the client announced this capability at login."""
        letter, capabilities = self.client_properties.get("capabilities", ("F", {}))
        return letter == "F" and capabilities.get(name) == ("t", True)


@mypyc_attr(allow_interpreted_subclasses=True)
class Channel(Session):
    """One open channel.

    operation: the method that waits for an answer, if any; the channel is held until then.
    unsynced: the replies that wait for the disk, if any; `output` is behind them until then.
    takes_methods: frames are handled as they arrive: the channel is neither held nor closing.
    """

    __slots__ = (
        "assembler", "is_closing", "operation", "output", "takes_methods", "unsynced",
    )  # fmt: skip

    def __init__(self, connection: ChannelConnection, number: int) -> None:
        super().__init__(connection, number)
        self.output = cast(ConnectionOutput, connection.output)
        self.is_closing = False
        self.takes_methods = True
        self.operation: PendingOperation | None = None
        self.unsynced: RepliesAwaitingSync | None = None
        self.assembler: ContentAssembler | None = None

    @property
    def may_be_mandatory(self) -> bool:
        """Whether the client can ask for the return of unroutable messages."""
        return True

    @property
    def tells_cancels(self) -> bool:
        """Whether the client is notified when a consumer ends that it has not cancelled."""
        connection = self.connection
        assert isinstance(connection, ChannelConnection), "the channel was made with it"
        return connection.has_capability("consumer_cancel_notify")

    # Sending

    def send(self, method: type[base.Frame], **arguments: Any) -> None:
        """Send a method; confirms that are due go out before it."""
        if self.is_closing:
            return
        if self.has_confirms_due:
            self.send_confirms()
        self.output.send(self.number, method, **arguments)

    def send_got(self, message: Message, tag: int, redelivered: bool, ready_count: int) -> None:
        """Send the answer to a basic.get. ready_count: the messages left in the queue."""
        self._send_contents(
            get_ok(tag, redelivered, message.address.encoded, ready_count), [message]
        )

    def send_returned(self, messages: list[Message], code: int, text: str) -> None:
        """Send basic.return with each of the messages."""
        self._send_contents(returned(code, text, messages[0].address.encoded), messages)

    def _send_contents(self, method: bytes, messages: list[Message]) -> None:
        output = self.output
        contents = [(message.header.raw, message.body) for message in messages]
        output.pieces += content_run(self.number, method, contents, output.frame_bytes_max)
        output.gathered(sum([len(message.body) for message in messages]))

    def send_confirms_later(self) -> None:
        """Send confirms when the output is written, at the end of the round."""
        self.output.confirm_later(self)

    def send_confirms(self) -> None:
        """Send the due confirms to the publisher, in as few frames as possible."""
        due = self.take_confirms()
        if self.is_closing:
            return
        pieces = self.output.pieces
        for is_ack, delivery_tag, multiple in due:
            pieces.append(settlement_frame(self.number, is_ack, delivery_tag, multiple))

    def commit_ended(self, fault: ChannelFault | None) -> None:
        """Send tx.commit-ok, or close the channel."""
        if fault is None:
            self.send(commands.Tx.CommitOk)
        else:
            self.fail(fault)

    def deliver_reply(self, message: Message) -> None:
        """Send basic.deliver to the consumer on amq.rabbitmq.reply-to, if there is one."""
        if self.is_closing or not self.reply_consumer_tag:
            return
        output = self.output
        address = message.address.encoded
        tag = encode_short_string(self.reply_consumer_tag)
        prefix = deliver_prefix(self.number, tag, address)
        payload = prefix[7:] + pack_tag(self.next_delivery_tag, False) + address
        self.next_delivery_tag += 1
        output.pieces += content_frames(
            self.number, payload, message.header.raw, message.body, output.frame_bytes_max
        )
        output.flush_later()

    # Waiting

    def wait_for(self, operation: PendingOperation) -> None:
        """Handle no methods until an operation of the channel's own is over."""
        self.operation = operation
        self.takes_methods = False

    def resume(self) -> None:
        """Handle methods again, because the operation is over."""
        self.operation = None
        self.takes_methods = not self.is_closing

    # Ending

    def fail(self, fault: ChannelFault) -> None:
        """Close the channel because of an error: requeue its messages, then notify the client."""
        connection = self.connection
        logger.error(
            "channel error on connection %s, vhost '%s', user '%s', channel %d: %s",
            connection.name, self.vhost.name, connection.user.name, self.number, fault.reply_text,
        )  # fmt: skip
        if self.has_confirms_due:
            self.send_confirms()
        self.release()
        self.send(
            commands.Channel.Close,
            reply_code=fault.reply_code,
            reply_text=fault.reply_text,
            class_id=fault.class_id,
            method_id=fault.method_id,
        )
        self.end()

    def end(self) -> None:
        """Send nothing more, and handle only the end of the channel."""
        self.is_closing = True
        self.takes_methods = False

    def stop(self) -> None:
        """Stop all methods and consumers, because the channel ends."""
        if self.operation is not None:
            self.operation.close()
            self.operation = None
        if self.unsynced is not None:
            self.unsynced.close()
        super().stop()

    def release(self) -> None:
        """Cancel the consumers and requeue unsettled deliveries, because the channel ends."""
        super().release()
        self.assembler = None
