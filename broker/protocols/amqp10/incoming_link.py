"""A link on which a client publishes: the parts of its messages, and the credit that it has."""

from typing import Final

from leveret.broker.protocols.amqp10.addresses import ExchangeAddress
from leveret.broker.protocols.amqp10.conditions import (
    FRAMING_ERROR,
    MESSAGE_SIZE_EXCEEDED,
    NOT_IMPLEMENTED,
    SessionEnds,
)
from leveret.broker.protocols.amqp10.outgoing_link import SERIAL
from leveret.broker.protocols.amqp10.performatives import SECOND, Attach, Transfer

CREDIT: Final = 170
"""RabbitMQ's credit of a publisher; it gets more when half of it is used."""
MANAGEMENT_CREDIT: Final = 8


class IncomingMessage:
    """A message that has come as a whole. delivery_id: None if it is settled."""

    __slots__ = ("delivery_id", "payload")

    def __init__(self, delivery_id: int | None, payload: bytes) -> None:
        self.delivery_id = delivery_id
        self.payload = payload


class IncomingLink:
    """One link of a publisher.

    request: with which the client has attached it. address: where its messages go; None if each
    message says so. credit: how many messages it may still send. unconfirmed: messages without an
    outcome. message_bytes_max: of a message.
    """

    __slots__ = (
        "_delivery_id", "_is_settled", "_parts", "_size", "address", "credit", "credit_max",
        "delivery_count", "handle", "is_management", "message_bytes_max", "name", "request",
        "unconfirmed",
    )  # fmt: skip

    def __init__(
        self,
        request: Attach,
        address: ExchangeAddress | None,
        message_bytes_max: int,
        *,
        is_management: bool = False,
    ) -> None:
        self.request = request
        self.name = request.name
        self.handle = request.handle
        self.address = address
        self.delivery_count = request.initial_delivery_count or 0
        self.is_management = is_management
        self.credit_max = MANAGEMENT_CREDIT if is_management else CREDIT
        self.credit = self.credit_max
        self.unconfirmed = 0
        self.message_bytes_max = message_bytes_max
        self._parts: list[bytes] = []
        self._size = 0
        self._delivery_id: int | None = None
        self._is_settled = False

    def take(self, transfer: Transfer, payload: bytes) -> IncomingMessage | None:
        """Take a transfer; returns the message if it is complete. Raises SessionEnds."""
        if not self._parts:
            self._begin(transfer)
        else:
            self._check_continued(transfer)
        if transfer.aborted:
            self._parts, self._size = [], 0
            return None
        self._size += len(payload)
        if self._size > self.message_bytes_max:
            raise SessionEnds(
                MESSAGE_SIZE_EXCEEDED,
                f"message size ({self._size} bytes) > maximum message size "
                f"({self.message_bytes_max} bytes)",
            )
        if transfer.more:
            self._parts.append(payload)
            return None
        whole = b"".join((*self._parts, payload)) if self._parts else payload
        self._parts, self._size = [], 0
        self.credit -= 1
        self.delivery_count = (self.delivery_count + 1) % SERIAL
        return IncomingMessage(None if self._is_settled else self._delivery_id, whole)

    def _begin(self, transfer: Transfer) -> None:
        if transfer.delivery_id is None:
            raise SessionEnds(FRAMING_ERROR, "the first transfer of a delivery has no delivery-id")
        self._delivery_id = transfer.delivery_id
        self._is_settled = bool(transfer.settled)
        if transfer.rcv_settle_mode == SECOND and not self._is_settled:
            raise SessionEnds(NOT_IMPLEMENTED, "rcv-settle-mode second not supported")

    def _check_continued(self, transfer: Transfer) -> None:
        if transfer.delivery_id not in (None, self._delivery_id):
            raise SessionEnds(
                FRAMING_ERROR,
                f"delivery-id of continuation transfer ({transfer.delivery_id}) differs from "
                f"delivery-id on first transfer ({self._delivery_id})",
            )
        if transfer.settled:
            self._is_settled = True

    @property
    def needs_credit(self) -> bool:
        """Whether half of its credit is used, and few messages wait for an outcome."""
        return self.credit <= self.credit_max // 2 and self.unconfirmed < self.credit_max
