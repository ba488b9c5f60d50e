"""The errors with which connections, sessions and links of AMQP 1.0 end."""

from typing import Final

from leveret.broker.amqp import reply_codes
from leveret.broker.amqp.errors import Fault
from leveret.broker.amqp.json_form import text
from leveret.broker.protocols.amqp10.performatives import Error

INTERNAL_ERROR: Final = "amqp:internal-error"
NOT_FOUND: Final = "amqp:not-found"
UNAUTHORIZED_ACCESS: Final = "amqp:unauthorized-access"
DECODE_ERROR: Final = "amqp:decode-error"
RESOURCE_LIMIT_EXCEEDED: Final = "amqp:resource-limit-exceeded"
NOT_ALLOWED: Final = "amqp:not-allowed"
INVALID_FIELD: Final = "amqp:invalid-field"
NOT_IMPLEMENTED: Final = "amqp:not-implemented"
RESOURCE_LOCKED: Final = "amqp:resource-locked"
PRECONDITION_FAILED: Final = "amqp:precondition-failed"
RESOURCE_DELETED: Final = "amqp:resource-deleted"
ILLEGAL_STATE: Final = "amqp:illegal-state"
CONNECTION_FORCED: Final = "amqp:connection:forced"
CONNECTION_REDIRECT: Final = "amqp:connection:redirect"
FRAMING_ERROR: Final = "amqp:connection:framing-error"
WINDOW_VIOLATION: Final = "amqp:session:window-violation"
HANDLE_IN_USE: Final = "amqp:session:handle-in-use"
UNATTACHED_HANDLE: Final = "amqp:session:unattached-handle"
TRANSFER_LIMIT_EXCEEDED: Final = "amqp:link:transfer-limit-exceeded"
MESSAGE_SIZE_EXCEEDED: Final = "amqp:link:message-size-exceeded"

_BY_CODE: Final = {
    reply_codes.ACCESS_REFUSED: UNAUTHORIZED_ACCESS,
    reply_codes.NOT_FOUND: NOT_FOUND,
    reply_codes.RESOURCE_LOCKED: RESOURCE_LOCKED,
    reply_codes.PRECONDITION_FAILED: PRECONDITION_FAILED,
    reply_codes.NOT_ALLOWED: NOT_ALLOWED,
    reply_codes.NOT_IMPLEMENTED: NOT_IMPLEMENTED,
    reply_codes.RESOURCE_ERROR: RESOURCE_LIMIT_EXCEEDED,
}


class SessionEnds(Exception):
    """The session ends with this error. Its description may quote names that are not UTF-8."""

    def __init__(self, condition: str, description: str | None = None) -> None:
        super().__init__(description or condition)
        self.error = Error(condition, None if description is None else text(description))


def size_error(size: int, size_max: int) -> SessionEnds:
    """The error for a message that is larger than an end of its link accepts."""
    return SessionEnds(
        MESSAGE_SIZE_EXCEEDED,
        f"message size ({size} bytes) > maximum message size ({size_max} bytes)",
    )


class ConnectionEnds(Exception):
    """The connection ends with this error."""

    def __init__(self, condition: str, description: str) -> None:
        super().__init__(description)
        self.error = Error(condition, description)


def error_of(error: SessionEnds | Fault, *, has_code: bool) -> Error:
    """The error that a client is told.

    A fault is what AMQP 0-9-1 answers to the same operation. has_code: its text begins with the
    name of the reply code, as in RabbitMQ 3.
    """
    if isinstance(error, SessionEnds):
        return error.error
    _, _, explanation = error.reply_text.partition(" - ")
    condition = _BY_CODE.get(error.reply_code, INTERNAL_ERROR)
    return Error(condition, text(error.reply_text if has_code or not explanation else explanation))
