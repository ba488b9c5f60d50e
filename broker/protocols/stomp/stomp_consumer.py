"""A subscription's consumer: the path of a message to a client of STOMP. Compiled.

The deliveries of a run are written one behind the other and become one piece of the output.
"""

from typing import Final

from librt.strings import BytesWriter

from leveret.broker.amqp.field_table import Table
from leveret.broker.protocols.stomp.errors import StompError
from leveret.broker.protocols.stomp.message_frames import MessageFrames
from leveret.broker.protocols.stomp.stomp_session import StompSession
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.sessions.interceptors import message_to_send
from leveret.broker.sessions.session_consumer import SessionConsumer
from leveret.broker.sessions.unacked_record import Unacked
from leveret.storage.messages.message import Entry, Message

_WRITER: Final = BytesWriter()
"""Emptied at the beginning of each `StompConsumer.deliver`."""


class StompConsumer(SessionConsumer):
    """One subscription of a client.

    is_cumulative: an ACK also acknowledges all earlier messages. description: its name in errors.
    identifier: the client's name for it.
    """

    __slots__ = ("_frames", "_turns", "client", "description", "identifier", "is_cumulative")

    def __init__(
        self,
        session: StompSession,
        queue: QueueClient,
        tag: str,
        no_ack: bool,
        arguments: Table,
        frames: MessageFrames,
    ) -> None:
        super().__init__(session, queue, tag, no_ack, False, arguments)
        self.client = session
        self.is_cumulative = False
        self.description = self.identifier = ""
        self._turns = session.vhost.turns
        self._frames = frames

    def room(self) -> int:
        """The number of messages that it takes now: none while the client does not keep up."""
        return 0 if self.client.output.is_congested else super().room()

    def deliver(self, entries: list[Entry]) -> None:
        """Send messages to the client, and record them as unsettled if they need an ack."""
        session = self.client
        frames = self._frames
        writer = _WRITER
        writer.truncate(0)
        first_tag = session.next_delivery_tag
        tag = first_tag
        records = None if self.no_ack else session.unacked.records
        queue = self.queue
        now_ms = self._turns.now_ms
        intercepts = session.intercepts_outgoing
        for entry in entries:
            message: Message | None = entry.message
            if intercepts:
                message = message_to_send(session, queue.name, entry.message)
            if message is not None:
                frames.write(writer, message, tag, entry.redelivered)
            if records is not None:
                records[tag] = Unacked(entry, queue, self, now_ms)
            tag += 1
        session.next_delivery_tag = tag
        data = writer.getvalue()
        writer.truncate(0)
        session.output.pieces.append(data)
        session.output.gathered(len(data))
        self.note_delivered(entries, first_tag)

    def tell_cancelled(self) -> None:
        """Tell the client that its subscription has ended."""
        error = StompError(
            "Server cancelled subscription",
            "The server has canceled a subscription.\n"
            f'No more messages will be delivered for "{self.description}".\n',
            {"subscription": self.identifier},
        )
        self.client.output.send_error(error)
