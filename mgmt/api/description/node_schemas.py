"""Schemas of the node itself: overview, nodes, memory, health, logins; and of errors."""

from leveret.mgmt.api.description.schemas import (
    ANYTHING,
    COUNT,
    FLAG,
    NAME,
    NUMBER,
    OBJECT,
    PORT,
    TEXT,
    WHOLE,
    Schema,
    counted,
    list_of,
    mapping,
    one_of,
    record,
    ref,
)
from leveret.mgmt.running_node import NODE
from leveret.mgmt.statistics.sampler import CHURN, DISK, LENGTHS, MESSAGES

PROTOCOL = one_of(
    "amqp", "amqp/ssl", "http", "https", "http/prometheus", "https/prometheus", "stream",
    "stream/ssl",
)  # fmt: skip
RUNTIME_COUNTERS = (
    "io_read_count", "io_read_bytes", "io_read_avg_time", "io_write_count", "io_write_bytes",
    "io_write_avg_time", "io_sync_count", "io_sync_avg_time", "io_seek_count", "io_seek_avg_time",
    "io_reopen_count", "mnesia_ram_tx_count", "mnesia_disk_tx_count", "msg_store_read_count",
    "msg_store_write_count", "queue_index_read_count", "queue_index_write_count", "gc_num",
    "gc_bytes_reclaimed", "context_switches",
)  # fmt: skip
_MEMBER = {
    "name": NAME, "type": one_of("disc", "ram"), "running": FLAG, "partitions": list_of(NAME),
    "cluster_links": list_of(ANYTHING),
}  # fmt: skip
_TOTALS = dict.fromkeys(("channels", "connections", "consumers", "exchanges", "queues"), COUNT)
_ATTEMPTS = {
    "protocol": NAME, "auth_attempts": COUNT, "auth_attempts_failed": COUNT,
    "auth_attempts_succeeded": COUNT,
}  # fmt: skip

SCHEMAS: dict[str, Schema] = {
    "Error": record({"error": NAME, "reason": ANYTHING}, {"problems": list_of(ref("Problem"))}),
    "Failed": record({"status": one_of("failed"), "reason": TEXT}, is_open=True),
    "Ok": record({"status": one_of("ok")}),
    "Rate": record(
        {"rate": NUMBER},
        {
            "avg_rate": NUMBER, "avg": NUMBER,
            "samples": list_of(record({"sample": WHOLE, "timestamp": WHOLE})),
        },
    ),
    "ExchangeType": record({"name": NAME, "description": TEXT, "enabled": FLAG}),
    "Listener": record(
        {
            "node": NAME, "protocol": PROTOCOL, "ip_address": NAME, "port": PORT,
            "socket_opts": OBJECT,
        }
    ),
    "Context": record(
        {
            "node": NAME, "description": TEXT, "path": TEXT, "ip": NAME, "port": NAME,
            "ssl_opts": ANYTHING, "cowboy_opts": ANYTHING, "protocol": one_of("http", "https"),
        }
    ),
    "Overview": record(
        {
            "management_version": NAME, "rabbitmq_version": NAME, "product_name": NAME,
            "product_version": NAME, "leveret_version": NAME, "erlang_version": NAME,
            "erlang_full_version": NAME, "rates_mode": one_of("basic", "detailed", "none"),
            "sample_retention_policies": mapping(list_of(COUNT)),
            "exchange_types": list_of(ref("ExchangeType")), "cluster_name": TEXT,
            "cluster_tags": list_of(TEXT), "node_tags": list_of(TEXT),
            "default_queue_type": NAME, "release_series_support_status": NAME,
            "disable_stats": FLAG, "is_op_policy_updating_enabled": FLAG,
            "enable_queue_totals": FLAG, "message_stats": record(counted(*MESSAGES, *DISK)),
            "queue_totals": record(counted(*LENGTHS)), "object_totals": record(_TOTALS),
            "statistics_db_event_queue": COUNT, "node": NAME,
        },
        {
            "churn_rates": record(counted(*CHURN)), "listeners": list_of(ref("Listener")),
            "contexts": list_of(ref("Context")),
        },
    ),
    "AbsentNode": record({**_MEMBER, "answering": FLAG}),
    "Node": record(
        {
            **_MEMBER, "being_drained": FLAG, "os_pid": NAME, "uptime": COUNT, "processors": COUNT,
            "run_queue": COUNT, "fd_total": COUNT, "sockets_total": COUNT, "proc_total": COUNT,
            "mem_limit": COUNT, "mem_alarm": FLAG, "mem_calculation_strategy": NAME,
            "disk_free_limit": COUNT, "disk_free_alarm": FLAG, "rates_mode": NAME,
            "net_ticktime": COUNT, "exchange_types": list_of(ref("ExchangeType")),
            "auth_mechanisms": list_of(
                record({"name": NAME, "description": TEXT, "enabled": FLAG})
            ),
            "applications": list_of(record({"name": NAME, "description": TEXT, "version": TEXT})),
            "contexts": list_of(ref("Context")), "log_files": list_of(TEXT), "db_dir": TEXT,
            "config_files": list_of(TEXT), "enabled_plugins": list_of(NAME),
            "metrics_gc_queue_length": mapping(COUNT),
            "ra_open_file_metrics": mapping(COUNT),
            **counted(*NODE), **counted(*RUNTIME_COUNTERS), **counted(*CHURN),
        },
        {"memory": ref("Memory"), "memory_estimated": list_of(NAME)},
    ),
    "Memory": {
        "type": "object",
        "properties": {
            "strategy": NAME,
            "total": record({"erlang": COUNT, "rss": COUNT, "allocated": COUNT}),
        },
        "required": ["strategy", "total"],
        "additionalProperties": COUNT,
    },
    "LoginAttempts": record(_ATTEMPTS),
    "LoginAttemptsOfAddress": record({**_ATTEMPTS, "remote_address": NAME, "username": TEXT}),
    "FeatureFlag": record(
        {
            "name": NAME, "desc": TEXT, "doc_url": TEXT, "state": one_of("enabled", "disabled"),
            "stability": one_of("stable", "experimental"), "provided_by": NAME,
        }
    ),
    "AuditLine": record(
        {
            "time": COUNT, "user": TEXT, "address": TEXT, "way": NAME, "action": NAME,
            "vhost": TEXT, "kind": TEXT, "name": TEXT, "text": TEXT, "detail": OBJECT,
            "node": NAME,
        }
    ),
    "PortOk": record({"status": one_of("ok"), "port": PORT}),
    "ProtocolOk": record({"status": one_of("ok"), "protocol": PROTOCOL}),
    "CriticalOk": record({"status": one_of("ok"), "reason": TEXT}),
}  # fmt: skip
