"""Schemas of vhosts, queues, exchanges, bindings, and messages in queues."""

from leveret.broker.exchanges import EXCHANGE_TYPES
from leveret.broker.policies.parameters import UNROUTABLE_HANDLINGS
from leveret.mgmt.api.description.schemas import (
    ANYTHING,
    COUNT,
    FLAG,
    NAME,
    NUMBER,
    OBJECT,
    SHARE,
    TEXT,
    TIME,
    WHOLE,
    Schema,
    any_of,
    counted,
    described,
    list_of,
    mapping,
    nullable,
    one_of,
    record,
    ref,
)
from leveret.mgmt.statistics.sampler import CONNECTION, EXCHANGE, LENGTHS, MESSAGES, QUEUE_MESSAGES

QUEUE_TYPES = one_of("classic", "quorum", "stream")
EXCHANGE_TYPE = described(
    TEXT,
    f"One of {', '.join(EXCHANGE_TYPES.own_names)}, x-local-random with `compat = 4.0` or `4.x`, "
    "or a type that an installed package has.",
)
DESTINATION_TYPE = one_of("queue", "exchange")
_TIER = record({"messages": COUNT, "bytes": COUNT})
_PROGRESS = record({"messages": COUNT, "expected": COUNT, "running": FLAG})
_GARBAGE_COLLECTION = record(
    dict.fromkeys(
        ("fullsweep_after", "max_heap_size", "min_bin_vheap_size", "min_heap_size", "minor_gcs"),
        COUNT,
    )
)

_LAG = record({"entries": COUNT, "messages": COUNT, "bytes": COUNT, "snapshot": FLAG})
_DECLARED = {
    "name": TEXT, "vhost": TEXT, "type": one_of("classic", "quorum", "stream"),
    "durable": FLAG,
    "auto_delete": FLAG, "exclusive": FLAG, "arguments": OBJECT, "node": NAME,
    "policy": nullable(NAME), "operator_policy": nullable(NAME),
    "effective_policy_definition": OBJECT,
}  # fmt: skip
_MIRRORED = {
    "slave_nodes": list_of(NAME), "synchronised_slave_nodes": list_of(NAME),
    "recoverable_slaves": nullable(list_of(NAME)), "mirroring": ref("Mirroring"),
}  # fmt: skip
_REPLICATED = {
    "leader": TEXT, "members": list_of(NAME), "online": list_of(NAME), "open_files": OBJECT,
    "raft": ref("Raft"),
}  # fmt: skip
_IDENTIFIERS = record({"entries": COUNT, "size": COUNT, "bytes": COUNT})
"""Those by which a queue or an exchange recognises duplicates."""
_DOWN = {**_DECLARED, "state": one_of("down")}
"""What is known of a queue whose node does not answer."""
_QUEUE = {
    **_DECLARED, "state": one_of("running", "crashed", "syncing", "down"),
    "consumers": COUNT, "consumer_utilisation": SHARE,
    "consumer_capacity": SHARE, "garbage_collection": ref("GarbageCollection"),
    "memory": COUNT, "reductions": COUNT, "reductions_details": ref("Rate"),
    "storage_version": COUNT, "backing_queue_status": OBJECT,
    **dict.fromkeys(
        (
            "messages_ram", "messages_ready_ram", "messages_unacknowledged_ram",
            "messages_persistent", "messages_paged_out", "message_bytes", "message_bytes_ready",
            "message_bytes_unacknowledged", "message_bytes_ram", "message_bytes_persistent",
            "message_bytes_paged_out",
        ),
        COUNT,
    ),
    **counted(*LENGTHS),
    "oldest_ready_age_ms": nullable(COUNT), "oldest_unacked_age_ms": nullable(COUNT),
    "time_in_queue": record(
        {"bounds_ms": list_of(COUNT), "counts": list_of(COUNT), "sum_ms": NUMBER}
    ),
    "tiers": record(dict.fromkeys(("alpha", "beta", "gamma", "delta", "unacked"), _TIER)),
}  # fmt: skip
_QUEUE_SOMETIMES = {
    "exclusive_consumer_tag": nullable(TEXT), "single_active_consumer_tag": nullable(TEXT),
    **_MIRRORED, "sync_messages": COUNT, "head_message_timestamp": nullable(COUNT),
    **_REPLICATED, "messages_dlx": COUNT, "message_bytes_dlx": COUNT,
    "delivery_limit": any_of(COUNT, one_of("unlimited")),
    "messages_ready_high": COUNT, "messages_ready_normal": COUNT,
    "messages_ready_returned": COUNT, "messages_by_priority": OBJECT,
    "messages_active_priorities": COUNT, "messages_delayed": COUNT, "next_delayed_at": COUNT,
    "last_delayed_at": COUNT, "delayed_retry": TEXT, "messages_duplicate": COUNT,
    "messages_expired_on_time": COUNT, "message_deduplication_cache_info": _IDENTIFIERS,
    "single_active_consumer_ctag": nullable(TEXT),
    "message_stats": record(counted(*QUEUE_MESSAGES)), "idle_since": TIME,
    "owner_pid_details": ref("ConnectionDetails"), "disk_reads": COUNT, "disk_writes": COUNT,
}  # fmt: skip
_STREAM = {
    **_DECLARED, "state": one_of("running", "down"), "consumers": COUNT,
    "consumer_capacity": SHARE, "garbage_collection": ref("GarbageCollection"), "memory": COUNT,
    "reductions": COUNT, "reductions_details": ref("Rate"), **counted(*LENGTHS),
    "readers": mapping(COUNT), "segments": COUNT, "size_bytes": COUNT, "first_offset": COUNT,
    "next_offset": COUNT,
}  # fmt: skip
_STREAM_SOMETIMES = {
    **_REPLICATED, "message_stats": record(counted(*QUEUE_MESSAGES)), "idle_since": TIME,
}  # fmt: skip
_OF_SINGLE_QUEUE = {
    "consumer_details": list_of(ref("Consumer")), "deliveries": list_of(ANYTHING),
    "incoming": list_of(ANYTHING),
}  # fmt: skip
_LAGS = mapping(record(counted("lag")))
_EXCHANGE = {
    "name": TEXT, "vhost": TEXT, "type": EXCHANGE_TYPE, "durable": FLAG,
    "auto_delete": FLAG, "internal": FLAG, "arguments": OBJECT, "user_who_performed_action": TEXT,
}  # fmt: skip
_EXCHANGE_SOMETIMES = {
    "policy": NAME, "message_stats": record(counted(*EXCHANGE)), "messages_delayed": COUNT,
    "next_delayed_at": COUNT, "messages_duplicate": COUNT, "cache_info": _IDENTIFIERS,
}  # fmt: skip
_TABLE = any_of(OBJECT, {"type": "array", "maxItems": 0})

SCHEMAS: dict[str, Schema] = {
    "GarbageCollection": _GARBAGE_COLLECTION,
    "Vhost": record(
        {
            "name": TEXT, "description": TEXT, "tags": list_of(TEXT),
            "default_queue_type": any_of(QUEUE_TYPES, one_of("undefined")),
            "metadata": record(
                {"description": TEXT, "tags": list_of(TEXT)},
                {
                    "default_queue_type": QUEUE_TYPES,
                    "unroutable_publishes": one_of(*UNROUTABLE_HANDLINGS),
                },
            ),
            "tracing": FLAG, "cluster_state": mapping(one_of("running")),
            **counted(*LENGTHS), **counted(*CONNECTION),
        },
        {"message_stats": record(counted(*MESSAGES))},
    ),
    "Queue": any_of(
        record(_QUEUE, _QUEUE_SOMETIMES), record(_STREAM, _STREAM_SOMETIMES),
        record(_DOWN, {**_MIRRORED, **_REPLICATED}),
    ),
    "SingleQueue": any_of(
        record({**_QUEUE, **_OF_SINGLE_QUEUE}, _QUEUE_SOMETIMES),
        record({**_STREAM, **_OF_SINGLE_QUEUE, "consumer_lags": _LAGS}, _STREAM_SOMETIMES),
        record(
            {**_DOWN, **_OF_SINGLE_QUEUE},
            {**_MIRRORED, **_REPLICATED, "consumer_lags": _LAGS},
        ),
    ),
    "Raft": record(
        {
            "leader": nullable(NAME), "term": COUNT, "reason": nullable(TEXT),
            "members": list_of(
                record(
                    {
                        "node": NAME, "state": NAME,
                        "membership": nullable(one_of("voter", "promotable", "non_voter")),
                        **dict.fromkeys(
                            (
                                "term", "log_index", "last_written", "last_applied",
                                "commit_index", "snapshot_index", "machine_version",
                            ),
                            nullable(COUNT),
                        ),
                        "lag": nullable(_LAG), "reason": nullable(TEXT),
                    },
                    {
                        **dict.fromkeys(
                            (
                                "first_offset", "readers", "segments", "size_bytes", "oldest_ms",
                                "expires_ms",
                            ),
                            nullable(COUNT),
                        ),
                        "offset": nullable(WHOLE), "committed_offset": nullable(WHOLE),
                    },
                )
            ),
        }
    ),
    "Mirroring": record(
        {
            "version": COUNT, "leader": nullable(NAME), "awaited": nullable(NAME),
            "members": list_of(
                record(
                    {
                        "node": NAME, "leads": FLAG, "synchronised": FLAG, "joined": FLAG,
                        "left": nullable(NAME), "right": nullable(NAME),
                        "pending": nullable(COUNT), "sync": nullable(_PROGRESS),
                    }
                )
            ),
            "copies": list_of(record({"node": NAME, "synchronised": FLAG})),
        }
    ),
    "Exchange": record(_EXCHANGE, _EXCHANGE_SOMETIMES),
    "SingleExchange": record(
        {**_EXCHANGE, "incoming": list_of(ANYTHING), "outgoing": list_of(ANYTHING)},
        {**_EXCHANGE_SOMETIMES, "raft": ref("Raft")},
    ),
    "Binding": record(
        {
            "source": TEXT, "vhost": TEXT, "destination": TEXT,
            "destination_type": DESTINATION_TYPE, "routing_key": TEXT, "arguments": OBJECT,
            "properties_key": NAME,
        }
    ),
    "Properties": any_of(
        record(
            {},
            {
                **dict.fromkeys(
                    (
                        "content_type", "content_encoding", "correlation_id", "reply_to",
                        "expiration", "message_id", "type", "user_id", "app_id", "cluster_id",
                    ),
                    TEXT,
                ),
                "headers": OBJECT, "delivery_mode": COUNT, "priority": COUNT, "timestamp": COUNT,
            },
        ),
        {"type": "array", "maxItems": 0},
    ),
    "GotMessage": record(
        {
            "payload_bytes": COUNT, "redelivered": FLAG, "exchange": TEXT, "routing_key": TEXT,
            "message_count": COUNT, "properties": ref("Properties"), "payload": TEXT,
            "payload_encoding": ref("PayloadEncoding"),
        }
    ),
    "PayloadEncoding": one_of("string", "base64"),
    "Death": record(
        {
            **dict.fromkeys(("queue", "reason", "count", "time", "exchange"), ANYTHING),
            "routing_keys": ANYTHING, "original_expiration": ANYTHING,
        }
    ),
    "HeldMessage": record(
        {
            "id": NAME, "position": COUNT, "exchange": TEXT, "routing_key": TEXT,
            "redelivered": FLAG, "properties": ref("Properties"), "payload": TEXT,
            "payload_encoding": ref("PayloadEncoding"), "payload_bytes": COUNT, "truncated": FLAG,
            "age_ms": nullable(COUNT), "deaths": list_of(ref("Death")),
        }
    ),
    "HeldMessages": record(
        {
            "messages": list_of(ref("HeldMessage")), "scanned": COUNT,
            "next_offset": nullable(COUNT), "next_position": nullable(TEXT), "total": COUNT,
        }
    ),
    "StreamMessages": record(
        {
            "messages": list_of(
                record(
                    {
                        "offset": COUNT, "time_ms": COUNT, "exchange": TEXT, "routing_key": TEXT,
                        "properties": ref("Properties"), "payload": TEXT,
                        "payload_encoding": ref("PayloadEncoding"), "payload_bytes": COUNT,
                        "truncated": FLAG,
                    }
                )
            ),
            "next_offset": COUNT, "first_offset": COUNT, "end_offset": COUNT,
        }
    ),
    "StreamTracking": record({}, {"offsets": mapping(COUNT), "writers": mapping(COUNT)}),
    "StoredOffset": record({"stored": COUNT, "before": nullable(COUNT)}),
    "CopiedPart": record(
        dict.fromkeys(("first", "next_offset", "end", "taken", "refused"), COUNT)
    ),
    "SuperStream": record(
        {
            "name": TEXT, "vhost": TEXT,
            "partitions": list_of(record({"stream": TEXT, "routing_key": TEXT})),
        }
    ),
    "Done": record(
        {"done": COUNT, "failed": list_of(record({"id": TEXT, "reason": TEXT}))}
    ),
    "Targets": record(
        {
            "targets": list_of(
                record({"exchange": TEXT, "routing_keys": list_of(TEXT), "messages": COUNT})
            ),
            "has_more": FLAG,
        }
    ),
    "QueuePlan": record(
        {
            "outcome": ref("Outcome"), "reason": nullable(TEXT),
            "differences": list_of(ref("Difference")), "policy": nullable(NAME),
            "operator_policy": nullable(NAME), "effective": OBJECT,
        }
    ),
    "ExchangePlan": record(
        {
            "outcome": ref("Outcome"), "reason": nullable(TEXT),
            "differences": list_of(ref("Difference")), "policy": nullable(NAME),
            "effective": OBJECT,
        }
    ),
    "Outcome": one_of("create", "same", "conflict"),
    "Difference": record({"argument": TEXT, "received": ANYTHING, "current": ANYTHING}),
}  # fmt: skip
