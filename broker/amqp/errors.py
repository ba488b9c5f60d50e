"""Protocol errors: exceptions that close a channel or a connection.

Any code may raise the result of one of the functions below. It is caught in one place, where a
connection handles its input (amqp091/connection/incoming.py). Whether an error closes the channel
or the connection is as in RabbitMQ (`rabbit_framing:lookup_amqp_exception`).
"""

from typing import TypeVar

from leveret.broker.amqp import reply_codes
from leveret.broker.erlang.terms import format_binary

REPLY_TEXT_BYTES_MAX = 255
ELLIPSIS = "..."
SNIPPET_BYTES = 16


class Fault(Exception):
    """A protocol error: a reply code, and the explanation that follows its name in the reply text.

    class_id, method_id: the failed method's, set where the fault is caught unless
    `has_method` is false; 0 and 0 if no method caused it.
    """

    def __init__(self, reply_code: int, explanation: str) -> None:
        super().__init__(reply_code, explanation)
        self.reply_code = reply_code
        self.explanation = explanation
        self.class_id = 0
        self.method_id = 0
        self.has_method = True

    def __str__(self) -> str:
        """The reply text: a log entry with the fault shows its words."""
        return self.reply_text

    @property
    def reply_text(self) -> str:
        """`NAME - explanation`, or the name only; truncated to 255 bytes as in RabbitMQ."""
        text = reply_codes.NAMES[self.reply_code]
        if self.explanation:
            text += f" - {self.explanation}"
        encoded = text.encode("utf-8", "surrogateescape")
        if len(encoded) <= REPLY_TEXT_BYTES_MAX:
            return text
        room = REPLY_TEXT_BYTES_MAX - len(ELLIPSIS)
        return encoded[:room].decode("utf-8", "ignore") + ELLIPSIS


class ChannelFault(Fault):
    """Closes the channel; the connection and its other channels stay open."""


class ConnectionFault(Fault):
    """Closes the connection."""


FaultType = TypeVar("FaultType", bound=Fault)


def without_method(fault: FaultType) -> FaultType:
    """The same fault without a method to blame."""
    fault.has_method = False
    return fault


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


def content_too_large(explanation: str) -> ConnectionFault:
    """311, with which a client closes the connection."""
    return ConnectionFault(reply_codes.CONTENT_TOO_LARGE, explanation)


def connection_forced(explanation: str) -> ConnectionFault:
    """320."""
    return ConnectionFault(reply_codes.CONNECTION_FORCED, explanation)


def login_refused(explanation: str) -> ConnectionFault:
    """403, before a connection is open."""
    return ConnectionFault(reply_codes.ACCESS_REFUSED, explanation)


def frame_error(explanation: str) -> ConnectionFault:
    """501."""
    return ConnectionFault(reply_codes.FRAME_ERROR, explanation)


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


def resource_error(explanation: str) -> ConnectionFault:
    """506."""
    return ConnectionFault(reply_codes.RESOURCE_ERROR, explanation)


def internal_error(explanation: str) -> ConnectionFault:
    """541."""
    return ConnectionFault(reply_codes.INTERNAL_ERROR, explanation)


def format_snippet(payload: bytes) -> str:
    """The start of a frame's payload, as the texts of 501 and 505 show it."""
    if len(payload) <= SNIPPET_BYTES:
        return f"all octets = {format_binary(payload)}"
    return f"first 16 octets = {format_binary(payload[:SNIPPET_BYTES])}"
