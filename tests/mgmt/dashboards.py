"""The queries of RabbitMQ's Grafana dashboards, as tables.

Nearly all panels have the same form: one metric, or its rate, joined with `rabbitmq_identity_info`
for the names of node and cluster, and summed. So a table needs the metrics only.
"""

IDENTITY = 'rabbitmq_identity_info{rabbitmq_cluster="$rabbitmq_cluster", namespace="$namespace"}'
NODE = "rabbitmq_cluster, rabbitmq_node"


def joined(series, labels=NODE):
    return f"{series} * on(instance, job) group_left({labels}) {IDENTITY}"


def rate(metric):
    return f"rate({metric}[60s])"


def summed(series):
    return f"sum({joined(series)}) by(rabbitmq_node)"


OVERVIEW_STATES = (
    "queue_messages_ready", "queue_messages_unacked", "global_publishers", "connections", "queues",
    "consumers", "channels", "build_info",
)  # fmt: skip
"""Metrics of the single numbers at the top."""
OVERVIEW_ROOM = (
    ("resident_memory_limit_bytes", "process_resident_memory_bytes"),
    ("process_max_fds", "process_open_fds"),
    ("process_max_tcp_sockets", "process_open_tcp_sockets"),
)
"""Pairs of a limit and its use."""
OVERVIEW_RATES = (
    "global_messages_received_total", "global_messages_confirmed_total",
    "global_messages_routed_total", "global_messages_unroutable_dropped_total",
    "global_messages_unroutable_returned_total", "global_messages_redelivered_total",
    "global_messages_delivered_consume_manual_ack_total",
    "global_messages_delivered_consume_auto_ack_total", "global_messages_acknowledged_total",
    "global_messages_delivered_get_auto_ack_total", "global_messages_get_empty_total",
    "global_messages_delivered_get_manual_ack_total", "queues_declared_total",
    "queues_created_total", "queues_deleted_total", "channels_opened_total",
    "channels_closed_total", "connections_opened_total", "connections_closed_total",
)  # fmt: skip
OVERVIEW_SENT = (
    "global_messages_redelivered_total", "global_messages_delivered_consume_auto_ack_total",
    "global_messages_delivered_consume_manual_ack_total",
    "global_messages_delivered_get_auto_ack_total",
    "global_messages_delivered_get_manual_ack_total",
)  # fmt: skip
RAFT = (
    "raft_log_commit_index", "raft_log_last_written_index", "raft_log_snapshot_index",
    "raft_term_total", "raft_entry_commit_latency_seconds",
)  # fmt: skip
"""RabbitMQ includes them in its totals even without quorum queues: zeros."""


def overview():
    """The expressions of RabbitMQ-Overview."""
    for name in OVERVIEW_STATES:
        yield f"sum({joined('rabbitmq_' + name, 'rabbitmq_cluster')})"
    for name in ("queue_messages_ready", "queue_messages_unacked"):
        yield summed(f"rabbitmq_{name}")
    for name in ("build_info", "disk_space_available_bytes", "queues", "channels", "connections"):
        yield joined(f"rabbitmq_{name}")
    for limit, used in OVERVIEW_ROOM:
        yield f"({joined('rabbitmq_' + limit)}) - ({joined('rabbitmq_' + used)})"
    for name in OVERVIEW_RATES:
        yield summed(rate(f"rabbitmq_{name}"))
    sent = (joined(rate(f"rabbitmq_{name}"), "rabbitmq_cluster") for name in OVERVIEW_SENT)
    yield " + ".join(f"sum({one})" for one in sent)
    received, confirmed = (
        joined(rate(f"rabbitmq_global_messages_{name}_total"))
        for name in ("received_confirm", "confirmed")
    )
    yield f"sum({received} - {confirmed}) by(rabbitmq_node)"
    automatic, manual = (
        joined(rate(f"rabbitmq_global_messages_delivered_consume_{how}_ack_total"))
        for how in ("auto", "manual")
    )
    yield f"sum(({automatic}) + ({manual})) by(rabbitmq_node)"


def others():
    """Expressions of other dashboards that apply to a node without Erlang, streams and peers."""
    for name in RAFT:
        yield joined(f"rabbitmq_{name}")
    for usage in ("blocks_size", "carriers_size"):
        yield f"sum by(alloc) ({joined(f'erlang_vm_allocators{{usage={usage!r}}}')})"
    yield joined("rabbitmq_process_resident_memory_bytes")
