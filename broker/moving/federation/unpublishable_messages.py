"""The log lines about damaged messages, which a link cannot publish here.

The link goes on with the other messages. A damaged one goes back to its queue and is retried a
second later (`transfers.transfer.REFUSED_MS`), without end: only an operator of the upstream can
remove it. So each reason is logged once while a link runs.
"""

import logging
from typing import Final

from leveret.broker.moving.transfers.transfer import MessageTransfer
from leveret.broker.policies.ack_modes import NO_ACK

REASONS_MAX: Final = 100
"""The most reasons that are logged: a reason may contain numbers."""

logger = logging.getLogger("leveret.federation")


class UnpublishableMessages:
    """Logs the messages that a transfer leaves out. what: the link, for the log."""

    def __init__(self, what: object, ack_mode: str) -> None:
        self._what = what
        self._becomes = "is lost" if ack_mode == NO_ACK else "goes back to the upstream"
        self._told: set[str] = set()

    def of(self, transfer: MessageTransfer) -> None:
        """Make a transfer leave damaged messages out."""
        transfer.leaves_out = True
        transfer.on_unpublishable = self._tell

    def _tell(self, reason: str) -> None:
        if reason not in self._told and len(self._told) < REASONS_MAX:
            self._told.add(reason)
            logger.error(
                "%s: a message cannot be published here, and %s: %s",
                self._what, self._becomes, reason,
            )  # fmt: skip
