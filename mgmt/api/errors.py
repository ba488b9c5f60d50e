"""Answers that are errors, as RabbitMQ's API gives them: a status, a word and a reason."""

from typing import Any

from broker.amqp.errors import Fault
from broker.amqp.reply_codes import ACCESS_REFUSED, NOT_ALLOWED, NOT_FOUND


class ApiError(Exception):
    """The request is answered with an error. reason, details: anything JSON can say.

    closes: that the connection ends with the answer, as more of the request may come.
    """

    closes = False

    def __init__(
        self,
        status: int,
        error: str,
        reason: Any,
        headers: dict[str, str] | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        # Not the reason: it may quote what was sent, the hash of a password among it.
        super().__init__(f"{status} {error}")
        self.status = status
        self.error = error
        self.reason = reason
        self.headers = headers or {}
        self.details = details or {}


def bad_request(reason: Any, **details: Any) -> ApiError:
    """The request makes no sense, or what it asks for is refused."""
    return ApiError(400, "bad_request", reason, details=details)


def not_found(reason: str = "Not Found") -> ApiError:
    """There is nothing of this name."""
    return ApiError(404, "Object Not Found", reason)


def not_authorised(reason: str) -> ApiError:
    """The user is known, and may not do this."""
    return ApiError(401, "not_authorised", reason)


def conflict(reason: str) -> ApiError:
    """Not in the state that the node is in."""
    return ApiError(409, "conflict", reason)


def from_fault(fault: Fault) -> ApiError:
    """What a channel would have been closed for."""
    explanation = fault.reply_text.partition(" - ")[2] or fault.reply_text
    if fault.reply_code == NOT_FOUND:
        return ApiError(404, "not_found", explanation)
    if fault.reply_code in (ACCESS_REFUSED, NOT_ALLOWED):
        return not_authorised("Access refused.")
    return bad_request(explanation)
