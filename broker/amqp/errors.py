"""The two ways in which a broker refuses: a channel is closed, or the whole connection.

Code anywhere raises what one of the functions below returns; it is caught in one place, where a
connection handles what came in (net/connection.py). Which name closes what follows RabbitMQ
(`rabbit_framing:lookup_amqp_exception`).
"""

from broker.amqp import reply_codes

REPLY_TEXT_BYTES_MAX = 255
ELLIPSIS = "..."


class Fault(Exception):
    """A refusal: its reply code, and the words that follow the code's name in the reply text.

    `class_id` and `method_id` name the method that failed; the place that catches the fault
    fills them in. 0 and 0 mean that no method was to blame.
    """

    def __init__(self, reply_code: int, explanation: str) -> None:
        super().__init__(reply_code, explanation)
        self.reply_code = reply_code
        self.explanation = explanation
        self.class_id = 0
        self.method_id = 0

    @property
    def reply_text(self) -> str:
        """`NAME - explanation`, or the bare name; cut to 255 bytes as RabbitMQ does it."""
        text = reply_codes.NAMES[self.reply_code]
        if self.explanation:
            text += f" - {self.explanation}"
        encoded = text.encode("utf-8", "surrogateescape")
        if len(encoded) <= REPLY_TEXT_BYTES_MAX:
            return text
        room = REPLY_TEXT_BYTES_MAX - len(ELLIPSIS)
        return encoded[:room].decode("utf-8", "ignore") + ELLIPSIS


class ChannelFault(Fault):
    """Closes the channel on which it happened; the connection and its other channels go on."""


class ConnectionFault(Fault):
    """Closes the connection."""


def access_refused(explanation: str) -> ChannelFault:
    """403, on a channel."""
    return ChannelFault(reply_codes.ACCESS_REFUSED, explanation)


def not_found(explanation: str) -> ChannelFault:
    """404."""
    return ChannelFault(reply_codes.NOT_FOUND, explanation)


def resource_locked(explanation: str) -> ChannelFault:
    """405."""
    return ChannelFault(reply_codes.RESOURCE_LOCKED, explanation)


def precondition_failed(explanation: str) -> ChannelFault:
    """406."""
    return ChannelFault(reply_codes.PRECONDITION_FAILED, explanation)


def connection_forced(explanation: str) -> ConnectionFault:
    """320."""
    return ConnectionFault(reply_codes.CONNECTION_FORCED, explanation)


def login_refused(explanation: str) -> ConnectionFault:
    """403, before a connection is open."""
    return ConnectionFault(reply_codes.ACCESS_REFUSED, explanation)


def frame_error(explanation: str) -> ConnectionFault:
    """501."""
    return ConnectionFault(reply_codes.FRAME_ERROR, explanation)


def syntax_error(explanation: str) -> ConnectionFault:
    """502."""
    return ConnectionFault(reply_codes.SYNTAX_ERROR, explanation)


def command_invalid(explanation: str) -> ConnectionFault:
    """503."""
    return ConnectionFault(reply_codes.COMMAND_INVALID, explanation)


def channel_error(explanation: str) -> ConnectionFault:
    """504."""
    return ConnectionFault(reply_codes.CHANNEL_ERROR, explanation)


def unexpected_frame(explanation: str) -> ConnectionFault:
    """505."""
    return ConnectionFault(reply_codes.UNEXPECTED_FRAME, explanation)


def not_allowed(explanation: str) -> ConnectionFault:
    """530."""
    return ConnectionFault(reply_codes.NOT_ALLOWED, explanation)


def not_implemented(explanation: str) -> ConnectionFault:
    """540."""
    return ConnectionFault(reply_codes.NOT_IMPLEMENTED, explanation)


def internal_error(explanation: str) -> ConnectionFault:
    """541."""
    return ConnectionFault(reply_codes.INTERNAL_ERROR, explanation)
