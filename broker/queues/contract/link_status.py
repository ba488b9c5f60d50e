"""The status of the sessions of AMQP 1.0 and their links as plain data, as in status.py.

The fields are those of RabbitMQ's management (rabbit_amqp_session.erl), by names of this broker.
"""

from typing import Any

import msgspec


class LinkFilter(msgspec.Struct, frozen=True, gc=False):
    """A filter in force. value: as JSON."""

    name: str
    descriptor: str | int
    value: Any


class IncomingLinkStatus(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A link on which a client publishes.

    address: None if each message says where it goes. snd_settle_mode: `settled`, `unsettled` or
    `mixed`. credit: how many messages the client may still send. unconfirmed: messages that have no
    outcome yet.
    """

    handle: int
    name: str
    snd_settle_mode: str
    address: str | None
    message_bytes_max: int
    delivery_count: int
    credit: int
    unconfirmed: int


class OutgoingLinkStatus(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A link on which a client gets messages.

    queue: empty for management. is_settled: messages are sent settled. message_bytes_max: the
    client's; None if it has none. credit: how many more messages the client takes.
    """

    handle: int
    name: str
    address: str | None
    queue: str
    is_settled: bool
    message_bytes_max: int | None
    filters: list[LinkFilter]
    delivery_count: int
    credit: int


class SessionStatus(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A session. Windows: in transfers. unsettled: deliveries to the client without an outcome."""

    channel: int
    handle_max: int
    next_incoming_id: int
    incoming_window: int
    next_outgoing_id: int
    remote_incoming_window: int
    remote_outgoing_window: int
    unsettled: int
    incoming: list[IncomingLinkStatus]
    outgoing: list[OutgoingLinkStatus]
