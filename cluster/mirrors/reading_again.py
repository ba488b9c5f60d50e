"""Decides when to repeat the read of messages on disk that failed (`Unreadable`)."""

from collections.abc import Callable
from typing import Final

from leveret.storage.contract.backing_queue import BeingRead, Unreadable

AGAIN_MS: Final = 1000
"""The pause after a failure. A read by a thread is repeated when the thread is done."""


def when_readable(
    error: Unreadable,
    call_later_ms: Callable[[int, Callable[[], object]], object],
    read: Callable[[], object],
) -> None:
    """Call `read` when it may succeed."""
    if isinstance(error, BeingRead):
        error.when_done(read)
    else:
        call_later_ms(AGAIN_MS, read)
