"""The node as JSON: overview, node and memory, with RabbitMQ's fields.

Fields about Erlang's runtime are kept for the programs that read them; they have the nearest
figure of this process, or 0.
"""

import os
import platform
import time
from typing import Any

from leveret import __version__
from leveret.broker.amqp.json_form import text
from leveret.broker.exchanges import EXCHANGE_TYPES
from leveret.broker.protocols.amqp091.connection.handshake import COMPATIBLE_VERSION, PRODUCT
from leveret.broker.resources.file_descriptors import (
    descriptor_limit,
    open_descriptors,
    sockets_max,
)
from leveret.broker.resources.memory_measures import mapped_bytes, resident_bytes
from leveret.compiled import build
from leveret.mgmt.log.outputs import locations
from leveret.mgmt.running_node import NODE, RunningNode
from leveret.mgmt.statistics.sampler import (
    CHURN,
    DISK,
    LENGTHS,
    MESSAGES,
    QueueSums,
    message_row,
)
from leveret.mgmt.statistics.series import SampleWindow, Series, SeriesSum
from leveret.mgmt.views.plugins import running_plugins

RETENTION = {"global": [600, 3600, 28800, 86400], "basic": [600, 3600], "detailed": [600]}
MECHANISMS = {
    "PLAIN": "SASL PLAIN authentication mechanism",
    "AMQPLAIN": "QPid AMQPLAIN mechanism",
    "EXTERNAL": "TLS peer verification-based authentication plugin",
    "RABBIT-CR-DEMO": "RabbitMQ Demo challenge-response authentication mechanism",
}


def exchange_types() -> list[dict[str, Any]]:
    """The types of exchanges that can be declared."""
    return [
        {"name": name, "description": f"AMQP {name} exchange", "enabled": True}
        for name in EXCHANGE_TYPES
    ]


def listeners(node: RunningNode) -> list[dict[str, Any]]:
    """The open ports."""
    return [
        {
            "node": node.name, "protocol": protocol, "ip_address": listener.host or "::",
            "port": listener.port, "socket_opts": _socket_options(node),
        }
        for protocol, listener in node.listeners
    ]  # fmt: skip


def _socket_options(node: RunningNode) -> dict[str, Any]:
    config = node.config
    return {
        "backlog": config.tcp.backlog, "nodelay": config.tcp.nodelay,
        "linger": [config.tcp.linger, config.tcp.linger_timeout_s], "exit_on_close": False,
    }  # fmt: skip


def contexts(node: RunningNode) -> list[dict[str, Any]]:
    """The HTTP servers."""
    titles = {"http": "RabbitMQ Management", "https": "RabbitMQ Management",
              "http/prometheus": "RabbitMQ Prometheus"}  # fmt: skip
    return [
        {
            "node": node.name, "description": titles[protocol], "path": "/",
            "ip": listener.host or "0.0.0.0", "port": str(listener.port), "ssl_opts": [],
            "cowboy_opts": "",
            "protocol": protocol.partition("/")[0],
        }
        for protocol, listener in node.listeners
        if protocol in titles
    ]  # fmt: skip


def overview(
    node: RunningNode, sums: QueueSums, windows: tuple[SampleWindow | None, SampleWindow | None]
) -> dict[str, Any]:
    """The node and its totals.

    sums: over all its queues. windows: the samples to include, of messages and of lengths.
    """
    sampler = node.sampler
    facade = sampler.facade
    vhosts = facade.vhosts()
    now_ms = sampler.now_ms()
    messages, lengths = windows
    row = (*message_row(sampler.totals()), *sampler.disk_row())
    running = facade.connections()
    return {
        **versions(node),
        "rates_mode": "basic",
        "sample_retention_policies": RETENTION,
        "exchange_types": exchange_types(),
        "cluster_name": text(node.cluster_name),
        "cluster_tags": [],
        "node_tags": [],
        "default_queue_type": "classic",
        "release_series_support_status": "supported",
        "disable_stats": False,
        "is_op_policy_updating_enabled": True,
        "enable_queue_totals": False,
        "message_stats": counted(MESSAGES + DISK, row, sampler.messages, now_ms, messages),
        "churn_rates": counted(CHURN, sampler.churn_row(), sampler.churn, now_ms, messages),
        "queue_totals": counted(
            LENGTHS, (sums.messages, sums.ready, sums.unacked), sampler.lengths, now_ms, lengths
        ),
        "object_totals": {
            "channels": sum(one.channel_count for one in running),
            "connections": len(running),
            "consumers": sums.consumers,
            "exchanges": sum(vhost.exchanges for vhost in vhosts),
            "queues": sum(vhost.queues for vhost in vhosts),
        },
        "statistics_db_event_queue": 0,
        "node": node.name,
        "listeners": listeners(node),
        "contexts": contexts(node),
    }


def versions(node: RunningNode) -> dict[str, Any]:
    """Names and versions."""
    return {
        "management_version": COMPATIBLE_VERSION,
        "rabbitmq_version": COMPATIBLE_VERSION,
        "product_name": PRODUCT,
        "product_version": COMPATIBLE_VERSION,
        "leveret_version": __version__,
        "erlang_version": "0",
        "erlang_full_version": f"none; Python {platform.python_version()}",
    }


def counted(
    names: tuple[str, ...], row: tuple[int, ...], series: Series | SeriesSum, now_ms: int,
    window: SampleWindow | None,
) -> dict[str, Any]:  # fmt: skip
    """The numbers of a row by their names, each with its rate and samples."""
    shown: dict[str, Any] = {}
    for column, name in enumerate(names):
        shown[name] = row[column]
        shown[f"{name}_details"] = series.details(column, now_ms, window)
    return shown


def partitions(node: RunningNode) -> list[str]:
    """The running nodes from which this one is partitioned."""
    return [] if node.facade is None or node.cluster is None else list(node.cluster.partitions)


def node_view(node: RunningNode, window: SampleWindow | None = None) -> dict[str, Any]:
    """An item of `/api/nodes`."""
    sampler = node.sampler
    alarms = sampler.facade.own_alarms
    row = node.node_row()
    view: dict[str, Any] = {
        "name": node.name,
        "type": "disc",
        "running": True,
        "being_drained": node.is_under_maintenance,
        "partitions": partitions(node),
        "os_pid": str(os.getpid()),
        "uptime": int((time.time() - node.started_at_s) * 1000),
        "processors": os.cpu_count() or 1,
        "run_queue": 0,
        "fd_total": descriptor_limit(),
        "sockets_total": sockets_max(descriptor_limit()),
        "proc_total": 1_048_576,
        "mem_limit": node.memory_limit,
        "mem_alarm": "memory" in alarms,
        "mem_calculation_strategy": node.config.memory.calculation_strategy,
        "disk_free_limit": node.disk_limit,
        "disk_free_alarm": "disk" in alarms,
        "rates_mode": "basic",
        "net_ticktime": node.config.cluster.tick_time_s,
        "exchange_types": exchange_types(),
        "auth_mechanisms": [
            {
                "name": name, "description": description,
                "enabled": name in node.config.authentication.mechanisms,
            }
            for name, description in MECHANISMS.items()
        ],
        "applications": [
            {"name": "rabbit", "description": "Leveret", "version": COMPATIBLE_VERSION},
            {"name": "leveret", "description": "Leveret", "version": __version__},
        ],
        "contexts": contexts(node),
        "log_files": locations(node.config),
        "db_dir": str(node.data_dir or ""),
        "config_files": [],
        "enabled_plugins": running_plugins(node),
        "cluster_links": [],
        "metrics_gc_queue_length": dict.fromkeys(_GARBAGE_QUEUES, 0),
        "ra_open_file_metrics": {"ra_log_wal": 0, "ra_log_segment_writer": 0},
    }  # fmt: skip
    for column, name in enumerate(NODE):
        view[name] = row[column]
        view[f"{name}_details"] = sampler.node.details(column, sampler.now_ms(), window)
    for name in _RUNTIME_COUNTERS:
        view[name] = 0
        view[f"{name}_details"] = {"rate": 0.0}
    churn = counted(CHURN, sampler.churn_row(), sampler.churn, sampler.now_ms(), window)
    return {**view, **churn}


_RUNTIME_COUNTERS = (
    "io_read_count", "io_read_bytes", "io_read_avg_time", "io_write_count", "io_write_bytes",
    "io_write_avg_time", "io_sync_count", "io_sync_avg_time", "io_seek_count", "io_seek_avg_time",
    "io_reopen_count", "mnesia_ram_tx_count", "mnesia_disk_tx_count", "msg_store_read_count",
    "msg_store_write_count", "queue_index_read_count", "queue_index_write_count", "gc_num",
    "gc_bytes_reclaimed", "context_switches",
)  # fmt: skip


_GARBAGE_QUEUES = (
    "connection_closed", "channel_closed", "consumer_deleted", "exchange_deleted",
    "queue_deleted", "vhost_deleted", "node_node_deleted", "channel_consumer_deleted",
)  # fmt: skip


def memory_breakdown(node: RunningNode) -> dict[str, Any]:
    """The memory of the process in bytes, by category and in total.

    `code` is measured, as the total is; see `ESTIMATED` for the other categories.
    """
    facade = node.facade
    queues = connections = channels = 0
    if facade is not None:
        for vhost in facade.vhost_names():
            queues += sum(one.memory_bytes for _, one in facade.own_statuses(vhost))
        for connection in facade.connections_in_any_state():
            connections += _CONNECTION_BYTES
            channels += _CHANNEL_BYTES * connection.channel_count
    total = resident_bytes()
    code = min(mapped_bytes(), total)
    other = max(0, total - queues - connections - channels - code)
    return {
        "connection_readers": connections // 2,
        "connection_writers": connections - connections // 2,
        "connection_channels": channels,
        "connection_other": 0,
        "queue_procs": queues,
        "queue_slave_procs": 0,
        "quorum_queue_procs": 0,
        "quorum_queue_dlx_procs": 0,
        "stream_queue_procs": 0,
        "stream_queue_replica_reader_procs": 0,
        "stream_queue_coordinator_procs": 0,
        "plugins": 0,
        "other_proc": other,
        "metrics": 0,
        "mgmt_db": 0,
        "mnesia": 0,
        "quorum_ets": 0,
        "other_ets": 0,
        "binary": 0,
        "msg_index": 0,
        "code": code,
        "atom": 0,
        "other_system": 0,
        "allocated_unused": 0,
        "reserved_unallocated": 0,
        "strategy": node.config.memory.calculation_strategy,
        "total": {"erlang": total, "rss": total, "allocated": total},
    }


ESTIMATED = (
    "connection_readers", "connection_writers", "connection_channels", "queue_procs", "other_proc"
)  # fmt: skip
"""Categories of `memory_breakdown` that are not measured: they are computed from the numbers of
objects and the measured size of one, and `other_proc` is the rest of the total."""
_CONNECTION_BYTES, _CHANNEL_BYTES = 3_072, 1_024
"""Memory of a connection and of a channel (docs/reference/performance.md has them)."""


def status(node: RunningNode) -> dict[str, Any]:
    """The content of `rabbitmqctl status`."""
    breakdown = memory_breakdown(node)
    alarms = node.facade.own_alarms if node.facade is not None else ()
    vhosts = node.facade.vhosts() if node.facade is not None else []
    return {
        "node": node.name,
        "pid": os.getpid(),
        "os": f"{platform.system()} {platform.release()}",
        "uptime": int(time.time() - node.started_at_s),
        "is_running": node.facade is not None,
        "is_under_maintenance": node.is_under_maintenance,
        "partitions": partitions(node),
        **versions(node),
        "python_version": platform.python_version(),
        "message_path": build(),
        "config_files": [],
        "log_files": locations(node.config),
        "data_directory": str(node.data_dir or ""),
        "enabled_plugin_file": str(node.config.plugins_file or ""),
        "active_plugins": running_plugins(node),
        "alarms": [{"alarm": f"resource_limit {name}", "node": node.name} for name in alarms],
        "tags": [],
        "memory": breakdown,
        "vm_memory_calculation_strategy": node.config.memory.calculation_strategy,
        "vm_memory_high_watermark_setting": _watermark_setting(node),
        "vm_memory_high_watermark_limit": node.memory_limit,
        "file_descriptors": {
            "total_limit": descriptor_limit(), "total_used": open_descriptors(),
            "sockets_limit": sockets_max(descriptor_limit()), "sockets_used": node.connection_count,
        },
        "disk_free_limit": node.disk_limit,
        "disk_free": node.disk_free,
        "run_queue": 0,
        "processes": {"limit": 1_048_576, "used": 1},
        "totals": {
            "connection_count": node.connection_count,
            "queue_count": sum(vhost.queues for vhost in vhosts),
            "virtual_host_count": len(vhosts),
        },
        "listeners": [
            {
                "interface": listener.host or "[::]", "node": node.name, "port": listener.port,
                "protocol": protocol, "purpose": _PURPOSES.get(protocol, protocol),
            }
            for protocol, listener in node.listeners
        ],
    }  # fmt: skip


_PURPOSES = {
    "clustering": "inter-node and CLI tool communication",
    "amqp": "AMQP 0-9-1",
    "amqp/ssl": "AMQP 0-9-1 over TLS",
    "http": "HTTP API",
    "https": "HTTP API over TLS (HTTPS)",
    "http/prometheus": "Prometheus exporter API over HTTP",
    "mqtt": "MQTT",
    "mqtt/ssl": "MQTT over TLS",
    "stomp": "STOMP",
    "stomp/ssl": "STOMP over TLS",
    "stream": "stream",
    "http/web-mqtt": "MQTT over WebSockets",
    "http/web-stomp": "STOMP over WebSockets",
    "https/web-mqtt": "MQTT over WebSockets and TLS",
    "https/web-stomp": "STOMP over WebSockets and TLS",
    "stream/ssl": "stream over TLS",
}


def _watermark_setting(node: RunningNode) -> dict[str, float]:
    if node.memory_watermark is not None:
        kind, value = node.memory_watermark
        return {kind: value}
    if node.config.memory.high_watermark_bytes is not None:
        return {"absolute": node.config.memory.high_watermark_bytes}
    return {"relative": node.config.memory.high_watermark_relative}
