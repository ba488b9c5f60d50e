"""When to read again messages that are on disk and could not be read (`Unreadable`)."""

from collections.abc import Callable
from typing import Final

from leveret.storage.backing_queue import BeingRead, Unreadable

AGAIN_MS: Final = 1000
"""After a failure. What a thread reads is read again when that is done."""


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
