"""Schemas of connections, channels and consumers."""

from leveret.mgmt.api.description.schemas import (
    ANYTHING,
    COUNT,
    FLAG,
    NAME,
    NULL,
    OBJECT,
    PORT,
    TEXT,
    TIME,
    WHOLE,
    Schema,
    any_of,
    counted,
    list_of,
    nullable,
    one_of,
    record,
    ref,
)
from leveret.mgmt.statistics.sampler import CONNECTION, MESSAGES

_OPTIONAL = any_of(NULL, TEXT)
_TLS = {
    "ssl": FLAG, "ssl_protocol": _OPTIONAL, "ssl_cipher": _OPTIONAL, "ssl_hash": _OPTIONAL,
    "ssl_key_exchange": _OPTIONAL, "peer_cert_issuer": _OPTIONAL, "peer_cert_subject": _OPTIONAL,
    "peer_cert_validity": _OPTIONAL,
}  # fmt: skip
_CHANNEL = {
    "name": NAME, "number": COUNT, "connection_details": ref("ConnectionDetails"), "node": NAME,
    "vhost": TEXT, "user": TEXT, "user_who_performed_action": TEXT,
    "state": one_of("flow", "running"), "confirm": FLAG, "transactional": FLAG,
    "consumer_count": COUNT, "messages_unacknowledged": COUNT, "messages_unconfirmed": COUNT,
    "messages_uncommitted": COUNT, "acks_uncommitted": COUNT, "prefetch_count": COUNT,
    "global_prefetch_count": COUNT, "pending_raft_commands": COUNT, "reductions": COUNT,
    "reductions_details": ref("Rate"), "garbage_collection": ref("GarbageCollection"),
}  # fmt: skip
_CHANNEL_SOMETIMES = {"idle_since": TIME, "message_stats": record(counted(*MESSAGES))}

_CONNECTION = {
    "name": NAME, "node": NAME, "protocol": NAME, "state": TEXT,
    "user": TEXT, "user_who_performed_action": TEXT, "vhost": TEXT,
    "auth_mechanism": nullable(NAME), "client_properties": OBJECT, "connected_at": COUNT,
    "channels": COUNT, "channel_max": COUNT,
    "frame_max": COUNT, "timeout": COUNT, "host": TEXT, "port": PORT, "peer_host": TEXT,
    "peer_port": COUNT, "recv_cnt": COUNT, "send_cnt": COUNT, "send_pend": COUNT,
    "reductions": COUNT, "reductions_details": ref("Rate"),
    "garbage_collection": ref("GarbageCollection"), **_TLS, **counted(*CONNECTION),
}  # fmt: skip
_OF_STREAM = {
    "connection_details": record(
        {"name": NAME, "node": NAME, "peer_host": TEXT, "peer_port": COUNT, "user": TEXT}
    ),
    "queue": record({"name": TEXT, "vhost": TEXT}),
}  # fmt: skip

_LINK = {"handle": COUNT, "link_name": TEXT, "delivery_count": COUNT, "credit": WHOLE}

SCHEMAS: dict[str, Schema] = {
    "ConnectionDetails": record({"name": NAME, "peer_host": TEXT, "peer_port": COUNT}),
    "Connection": record(
        {**_CONNECTION, "type": one_of("network", "direct")},
        {"user_provided_name": ANYTHING, "variable_map": OBJECT, "container_id": TEXT},
    ),
    "Session": record(
        {
            "channel_number": COUNT, "handle_max": COUNT, "next_incoming_id": COUNT,
            "incoming_window": COUNT, "next_outgoing_id": COUNT, "remote_incoming_window": COUNT,
            "remote_outgoing_window": COUNT, "outgoing_unsettled_deliveries": COUNT,
            "incoming_links": list_of(ref("IncomingLink")),
            "outgoing_links": list_of(ref("OutgoingLink")),
        }
    ),
    "IncomingLink": record(
        {
            **_LINK, "snd_settle_mode": one_of("mixed", "settled", "unsettled"),
            "target_address": nullable(TEXT), "max_message_size": COUNT,
            "unconfirmed_messages": COUNT,
        }
    ),
    "OutgoingLink": record(
        {
            **_LINK, "source_address": nullable(TEXT), "queue_name": TEXT, "send_settled": FLAG,
            "max_message_size": any_of(COUNT, one_of("unlimited")),
            "filter": list_of(
                record({"name": TEXT, "descriptor": any_of(COUNT, TEXT), "value": ANYTHING})
            ),
        }
    ),
    "StreamConnection": record(_CONNECTION, {"user_provided_name": ANYTHING}),
    "StreamPublisher": record(
        {
            **_OF_STREAM, "publisher_id": COUNT, "reference": TEXT, "published": COUNT,
            "confirmed": COUNT, "errored": COUNT,
        }
    ),
    "StreamConsumer": record(
        {
            **_OF_STREAM, "subscription_id": COUNT, "credits": COUNT, "consumed": COUNT,
            "offset": COUNT, "offset_lag": COUNT, "offset_lag_ms": nullable(COUNT),
            "active": FLAG,
            "activity_status": one_of("single_active", "up", "waiting"), "properties": OBJECT,
        }
    ),
    "Channel": record(_CHANNEL, _CHANNEL_SOMETIMES),
    "SingleChannel": record(
        {
            **_CHANNEL, "consumer_details": list_of(ref("Consumer")),
            "publishes": list_of(ANYTHING), "deliveries": list_of(ANYTHING),
        },
        _CHANNEL_SOMETIMES,
    ),
    "Consumer": record(
        {
            "arguments": OBJECT, "ack_required": FLAG, "active": FLAG,
            "activity_status": one_of("single_active", "up", "waiting"),
            "channel_details": record(
                {
                    "connection_name": NAME, "name": NAME, "node": NAME, "number": COUNT,
                    "peer_host": TEXT, "peer_port": COUNT, "user": TEXT,
                }
            ),
            "consumer_tag": TEXT, "consumer_timeout": nullable(COUNT), "exclusive": FLAG,
            "prefetch_count": COUNT, "queue": record({"name": TEXT, "vhost": TEXT}),
            "credit": nullable(COUNT), "messages_unacknowledged": COUNT,
            "stalled_since": nullable(TIME), "has_channel": FLAG,
        },
        {"offset": COUNT, "offset_lag": COUNT, "offset_lag_ms": COUNT},
    ),
}  # fmt: skip
