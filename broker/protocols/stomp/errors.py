"""Errors that a client of STOMP gets as an ERROR frame, with RabbitMQ's texts. Pure.

Errors in a frame leave the connection open, unless they are fatal. A failed operation (`Fault`)
closes it.
"""

from typing import Final

from leveret.broker.amqp import reply_codes
from leveret.broker.amqp.errors import Fault
from leveret.broker.amqp.json_form import text

VERSIONS: Final = ("1.0", "1.1", "1.2")


class StompError(Exception):
    """A frame is refused. message: the header of the ERROR frame. detail: its body.

    headers: further headers. is_fatal: the connection ends.
    """

    def __init__(
        self,
        message: str,
        detail: str,
        headers: dict[str, str] | None = None,
        is_fatal: bool = False,
    ) -> None:
        super().__init__(message, detail)
        self.message = message
        self.detail = detail
        self.headers = headers or {}
        self.is_fatal = is_fatal

    def __str__(self) -> str:
        # A client may have sent bytes that are not UTF-8.
        return text(f"{self.message}: {self.detail.rstrip()}")


def processing_error() -> StompError:
    """A header has a value that RabbitMQ cannot process."""
    return StompError("Processing error", "Processing error")


def of_fault(fault: Fault) -> StompError:
    """An operation failed: the client is told AMQP's reply text, and the connection ends."""
    message = reply_codes.NAMES[fault.reply_code].lower()
    return StompError(message, fault.reply_text, is_fatal=True)


def error_headers(error: StompError) -> dict[str, str]:
    """The headers of an ERROR frame."""
    return {
        "message": error.message,
        "content-type": "text/plain",
        "version": ",".join(VERSIONS),
        **error.headers,
    }
