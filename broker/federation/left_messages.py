"""What the log says of messages that a link cannot publish here, since they are damaged.

The link goes on with the others. Such a message goes back to its queue and is tried again a second
later (`transfers.transfer.REFUSED_MS`), for ever: only an operator of the upstream can decide what
becomes of it. So each reason is told once while a link runs.
"""

import logging
from typing import Final

from leveret.broker.policies.ack_modes import NO_ACK
from leveret.broker.transfers.transfer import Transfer

REASONS_MAX: Final = 100
"""More are not told: a reason may have numbers."""

logger = logging.getLogger("leveret.federation")


class LeftMessages:
    """Tells of the messages that a transfer leaves out. what: the link, for the log."""

    def __init__(self, what: object, ack_mode: str) -> None:
        self._what = what
        self._becomes = "is lost" if ack_mode == NO_ACK else "goes back to the upstream"
        self._told: set[str] = set()

    def of(self, transfer: Transfer) -> None:
        """Have a transfer leave them out."""
        transfer.leaves_out = True
        transfer.on_unpublishable = self._tell

    def _tell(self, reason: str) -> None:
        if reason not in self._told and len(self._told) < REASONS_MAX:
            self._told.add(reason)
            logger.error(
                "%s: a message cannot be published here, and %s: %s",
                self._what, self._becomes, reason,
            )  # fmt: skip
