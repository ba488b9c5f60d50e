"""A link on which a client publishes: the parts of its messages, and the credit that it has.

Compiled.
"""

from typing import Final

from leveret.broker.protocols.amqp10.addresses import ExchangeAddress
from leveret.broker.protocols.amqp10.conditions import (
    FRAMING_ERROR,
    NOT_IMPLEMENTED,
    SessionEnds,
    size_error,
)
from leveret.broker.protocols.amqp10.performatives import SETTLED, UNSETTLED, Attach, kept_of
from leveret.broker.protocols.amqp10.session_frames import ABSENT, SessionFrame
from leveret.broker.protocols.amqp10.transfer_frames import SERIAL

CREDIT: Final = 170
"""RabbitMQ's credit of a publisher, which is renewed when half of it is used."""
CREDIT_MAX: Final = 8 * CREDIT
"""The credit of a publisher that has used all of it whenever outcomes were sent. A confirm waits
for a sync of the disk, so RabbitMQ's credit would bound a publisher to 170 messages for each."""
MANAGEMENT_CREDIT: Final = 8


class IncomingLink:
    """One link of a publisher.

    request: the client's attach, without properties and source. address: the target of its
    messages; None if each message names its own. credit: the number of messages that it may still
    send. unconfirmed: the number of messages without an outcome. message_bytes_max: the largest
    message. target_key: the key of the route of its messages (broker/sessions/targets.py), once it
    is known. delivery_id, is_settled: of the message whose transfers are arriving. mode_error: the
    condition of the error if a transfer does not match the mode of the link.
    """

    __slots__ = (
        "_is_always_settled", "_is_never_settled", "_mode_error", "_partial", "address", "credit",
        "credit_max", "delivery_count", "delivery_id", "handle", "is_management", "is_settled",
        "message_bytes_max", "name", "request", "target_key", "unconfirmed",
    )  # fmt: skip

    def __init__(
        self,
        request: Attach,
        address: ExchangeAddress | None,
        message_bytes_max: int,
        *,
        is_management: bool = False,
        mode_error: str = FRAMING_ERROR,
    ) -> None:
        self.request = kept_of(request._replace(source=None))
        self.name = request.name
        self.handle = request.handle
        self.address = address
        self.delivery_count = request.initial_delivery_count or 0
        self.is_management = is_management
        self.credit_max = MANAGEMENT_CREDIT if is_management else CREDIT
        self.credit = self.credit_max
        self.unconfirmed = 0
        self.message_bytes_max = message_bytes_max
        # One object, instead of one for each transfer, which may have a single byte.
        self._partial: bytearray | None = None
        self.delivery_id = 0
        self.is_settled = False
        self._mode_error = mode_error
        mode = request.snd_settle_mode
        self._is_always_settled = mode == SETTLED
        self._is_never_settled = mode == UNSETTLED
        self.target_key: bytes | None = None

    @property
    def has_parts(self) -> bool:
        """Whether a message has come in part."""
        return self._partial is not None

    def begin(self, frame: SessionFrame) -> None:
        """Take the fields of the first transfer of a message. Raises SessionEnds."""
        if frame.delivery_id == ABSENT:
            raise SessionEnds(FRAMING_ERROR, "the first transfer of a delivery has no delivery-id")
        self.delivery_id = int(frame.delivery_id)
        self.is_settled = frame.is_settled
        if frame.is_second and not frame.is_settled:
            raise SessionEnds(NOT_IMPLEMENTED, "rcv-settle-mode second not supported")
        if frame.is_settled:
            if self._is_never_settled:
                raise self._wrong_mode("unsettled", "true")
        elif self._is_always_settled:
            raise self._wrong_mode("settled", "false")

    def _wrong_mode(self, mode: str, settled: str) -> SessionEnds:
        """The error for a transfer that does not match the mode of the link (part 2, 2.7.5)."""
        return SessionEnds(
            self._mode_error,
            f"sender settle mode is '{mode}' but transfer settled flag is interpreted as being "
            f"'{settled}'",
        )

    def take_part(self, frame: SessionFrame, payload: bytes) -> bytes | None:
        """Take a transfer; returns the message if it is complete. Raises SessionEnds."""
        partial = self._partial
        if partial is None:
            self.begin(frame)
        else:
            self._check_continued(frame)
        if frame.is_aborted:
            self._partial = None
            return None
        if partial is None:
            self.check_size(len(payload))
            if not frame.has_more:
                return payload
            self._partial = bytearray(payload)
            return None
        self.check_size(len(partial) + len(payload))
        partial += payload
        if frame.has_more:
            return None
        self._partial = None
        return bytes(partial)

    def check_size(self, size: int) -> None:
        """Raise SessionEnds if this is too large for a message."""
        if size > self.message_bytes_max:
            raise size_error(size, self.message_bytes_max)

    def count(self) -> None:
        """A message is complete: it has used credit."""
        self.credit -= 1
        self.delivery_count = (self.delivery_count + 1) % SERIAL

    def _check_continued(self, frame: SessionFrame) -> None:
        if frame.delivery_id not in (ABSENT, self.delivery_id):
            raise SessionEnds(
                FRAMING_ERROR,
                f"delivery-id of continuation transfer ({frame.delivery_id}) differs from "
                f"delivery-id on first transfer ({self.delivery_id})",
            )
        if frame.is_settled and not self.is_settled:
            raise SessionEnds(
                self._mode_error,
                "field 'settled' of continuation transfer (true) differs from (interpreted) field "
                "'settled' on first transfer (false)",
            )

    def grow_credit(self) -> None:
        """Outcomes are sent: let a publisher that waits for credit have twice as much."""
        if not self.credit and not self.is_management and self.credit_max < CREDIT_MAX:
            self.credit_max *= 2

    @property
    def needs_credit(self) -> bool:
        """Whether half of its credit is used, and few messages wait for an outcome."""
        return self.credit <= self.credit_max // 2 and self.unconfirmed < self.credit_max
