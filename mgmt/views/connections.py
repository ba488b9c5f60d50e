"""Connections as JSON, with RabbitMQ's fields."""

from typing import Any

from broker.net.closing import RUNNING
from broker.net.connection import Connection
from mgmt.statistics.sampler import CONNECTION, Sampler
from mgmt.statistics.series import Window
from mgmt.views.values import table_to_json, text

NO_TLS = {
    "ssl": False, "ssl_protocol": None, "ssl_cipher": None, "ssl_hash": None,
    "ssl_key_exchange": None, "peer_cert_issuer": None, "peer_cert_subject": None,
    "peer_cert_validity": None,
}  # fmt: skip


def connection_view(
    connection: Connection, sampler: Sampler, window: Window | None = None
) -> dict[str, Any]:
    """An open connection."""
    tuning = connection.tuning
    properties = table_to_json(connection.client_properties)
    view: dict[str, Any] = {
        "name": connection.name,
        "node": sampler.broker.config.node_name,
        "type": "network",
        "protocol": "AMQP 0-9-1",
        "state": connection.publishing_state,
        "user": text(connection.user.name),
        "user_who_performed_action": text(connection.user.name),
        "vhost": text(connection.vhost.name),
        "auth_mechanism": connection.mechanism,
        "client_properties": properties,
        "user_provided_name": properties.get("connection_name"),
        "connected_at": int(connection.connected_at_s * 1000),
        "channels": len(connection.channels),
        "channel_max": tuning.channel_max,
        "frame_max": tuning.frame_bytes_max,
        "timeout": tuning.heartbeat_s,
        "host": connection.own_host,
        "port": connection.own_port,
        "peer_host": connection.peer_host,
        "peer_port": connection.peer_port,
        "recv_cnt": connection.reads,
        "send_cnt": connection.writes,
        "send_pend": 0,
        "reductions": 0,
        "reductions_details": {"rate": 0.0},
        "garbage_collection": {
            "fullsweep_after": 0, "max_heap_size": 0, "min_bin_vheap_size": 0,
            "min_heap_size": 0, "minor_gcs": 0,
        },
        **NO_TLS,
        **connection.tls_facts(),
    }  # fmt: skip
    if view["user_provided_name"] is None:
        del view["user_provided_name"]
    series = sampler.objects.get(connection)
    row = (connection.bytes_in, connection.bytes_out)
    for column, name in enumerate(CONNECTION):
        view[name] = row[column]
        view[f"{name}_details"] = (
            {"rate": 0.0} if series is None else series.details(column, sampler.now_ms(), window)
        )
    return view


def open_connections(sampler: Sampler) -> list[Connection]:
    """Those whose handshake is over."""
    return [one for one in tuple(sampler.broker.connections) if one.state is RUNNING]
