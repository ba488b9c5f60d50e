"""Detects that a shovel's destination confirms nothing although its connection is open.

Such a shovel moves nothing: its published messages stay unacknowledged at the source. The oldest
unconfirmed message is checked each minute; if it is the same as a minute before, the destination
has not confirmed it for at least that long. RabbitMQ has no such check.
"""

from collections.abc import Callable
from typing import Final

from leveret.broker.moving.transfers.transfer import MessageTransfer
from leveret.broker.runtime.clock import Clock, Timer

LOOK_MS: Final = 60_000


class ConfirmWatch:
    """Checks the oldest unconfirmed message until `stop`.

    tell: called with the problem when it begins, and with an empty text when it ends.
    """

    def __init__(
        self, transfer: MessageTransfer, clock: Clock, tell: Callable[[str], object]
    ) -> None:
        self._transfer = transfer
        self._clock = clock
        self._tell = tell
        self._oldest: int | None = None
        self._has_told = False
        self._timer: Timer = clock.call_later_ms(LOOK_MS, self._look)

    def stop(self) -> None:
        """Stop checking."""
        self._timer.cancel()

    def _look(self) -> None:
        oldest = self._transfer.oldest_unconfirmed
        is_late = oldest is not None and oldest == self._oldest
        self._oldest = oldest
        if is_late != self._has_told:
            self._has_told = is_late
            self._tell(self._described() if is_late else "")
        self._timer = self._clock.call_later_ms(LOOK_MS, self._look)

    def _described(self) -> str:
        return (
            f"the destination has not confirmed a message for {LOOK_MS // 1000} s or more:"
            f" {self._transfer.unconfirmed} wait for it"
        )
