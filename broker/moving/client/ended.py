"""The ways in which a client's connection or channel ends, and the errors raised for them."""

from typing import Final, NamedTuple

from leveret.broker.amqp.json_form import text

NO_REPLY_CODE: Final = 0


class Closed(NamedTuple):
    """Why a connection or a channel has ended.

    reply_code, text: taken from the close method of either side; 200 if this node closed it as
    intended. The code is 0 if the connection ended without that method; the text then says how.
    """

    reply_code: int
    text: str

    def __str__(self) -> str:
        """The code, if there is one, and the text."""
        told = self.text or "no reason is given"
        return f"{self.reply_code}, {told}" if self.reply_code else told


def by_server(reply_code: int | None, reply_text: str | None) -> Closed:
    """The code and text of a server's close method, for logs."""
    return Closed(reply_code or NO_REPLY_CODE, text(reply_text or ""))


class ConnectionFailed(Exception):
    """No connection could be opened; the text says why, for an operator."""


class ServerUnreachable(ConnectionFailed):
    """Nothing answers at the address, or it closes the socket without a word."""


class ChannelClosed(Exception):
    """The channel has ended, or none could be opened. closed: why."""

    def __init__(self, closed: Closed) -> None:
        super().__init__(f"the channel is closed: {closed}")
        self.closed = closed


class ConnectionClosed(Exception):
    """The connection has ended. closed: why."""

    def __init__(self, closed: Closed) -> None:
        super().__init__(f"the connection is closed: {closed}")
        self.closed = closed
