"""Error answers as in RabbitMQ's API: a status, an error name and a reason."""

from typing import Any

from leveret.broker.amqp.errors import Fault
from leveret.broker.amqp.reply_codes import (
    ACCESS_REFUSED,
    INTERNAL_ERROR,
    NOT_ALLOWED,
    NOT_FOUND,
    RESOURCE_ERROR,
)


class ApiError(Exception):
    """The request is answered with an error.

    reason, details: any JSON values. closes: the connection is closed after the answer, because the
    rest of the request was not read.
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
        # Without the reason, which may quote the request with a password or its hash.
        super().__init__(f"{status} {error}")
        self.status = status
        self.error = error
        self.reason = reason
        self.headers = headers or {}
        self.details = details or {}


def bad_request(reason: Any, **details: Any) -> ApiError:
    """400: the request is not valid, or it was refused."""
    return ApiError(400, "bad_request", reason, details=details)


def not_found(reason: str = "Not Found") -> ApiError:
    """404: there is no object of this name."""
    return ApiError(404, "Object Not Found", reason)


def not_authorised(reason: str) -> ApiError:
    """401: the user is not allowed to do this."""
    return ApiError(401, "not_authorised", reason)


def conflict(reason: str) -> ApiError:
    """409: not possible in the present state of the node."""
    return ApiError(409, "conflict", reason)


def from_fault(fault: Fault) -> ApiError:
    """The answer to a fault that would have closed a channel."""
    explanation = fault.reply_text.partition(" - ")[2] or fault.reply_text
    if fault.reply_code == NOT_FOUND:
        return ApiError(404, "not_found", explanation)
    if fault.reply_code in (ACCESS_REFUSED, NOT_ALLOWED):
        return not_authorised("Access refused.")
    if fault.reply_code in (RESOURCE_ERROR, INTERNAL_ERROR):
        return ApiError(500, "internal_server_error", explanation)
    return bad_request(explanation)
