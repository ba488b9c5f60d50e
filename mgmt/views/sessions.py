"""Sessions of AMQP 1.0 and their links as JSON, with RabbitMQ's fields."""

from typing import Any

from leveret.broker.queues.contract.link_status import (
    IncomingLinkStatus,
    OutgoingLinkStatus,
    SessionStatus,
)

UNLIMITED = "unlimited"
"""RabbitMQ's max_message_size of a link whose client has told none."""


def session_view(session: SessionStatus) -> dict[str, Any]:
    """A session with its links."""
    return {
        "channel_number": session.channel,
        "handle_max": session.handle_max,
        "next_incoming_id": session.next_incoming_id,
        "incoming_window": session.incoming_window,
        "next_outgoing_id": session.next_outgoing_id,
        "remote_incoming_window": session.remote_incoming_window,
        "remote_outgoing_window": session.remote_outgoing_window,
        "outgoing_unsettled_deliveries": session.unsettled,
        "incoming_links": [_incoming(link) for link in session.incoming],
        "outgoing_links": [_outgoing(link) for link in session.outgoing],
    }


def _incoming(link: IncomingLinkStatus) -> dict[str, Any]:
    return {
        "handle": link.handle,
        "link_name": link.name,
        "snd_settle_mode": link.snd_settle_mode,
        "target_address": link.address,
        "max_message_size": link.message_bytes_max,
        "delivery_count": link.delivery_count,
        "credit": link.credit,
        "unconfirmed_messages": link.unconfirmed,
    }


def _outgoing(link: OutgoingLinkStatus) -> dict[str, Any]:
    size_max = link.message_bytes_max
    return {
        "handle": link.handle,
        "link_name": link.name,
        "source_address": link.address,
        "queue_name": link.queue,
        "send_settled": link.is_settled,
        "max_message_size": UNLIMITED if size_max is None else size_max,
        "filter": [
            {"name": one.name, "descriptor": one.descriptor, "value": one.value}
            for one in link.filters
        ],
        "delivery_count": link.delivery_count,
        "credit": link.credit,
    }
