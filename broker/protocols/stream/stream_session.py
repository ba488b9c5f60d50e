"""The session of a client of the stream protocol, for declarations of streams and super streams."""

from leveret.broker.sessions.session import Session
from leveret.storage.messages.message import Message


class StreamSession(Session):
    """A session that publishes nothing and consumes nothing."""

    def send_returned(self, messages: list[Message], code: int, text: str) -> None:
        """Do nothing: it publishes no messages."""

    def send_confirms_later(self) -> None:
        """Do nothing: it publishes no messages."""

    def report_closed(self, consumer_count: int) -> None:
        """Do nothing: events of channels are for those of AMQP 0-9-1."""
