"""Connections as JSON, with RabbitMQ's fields."""

from typing import Any

from leveret.broker.sessions.served_connection import ServedConnection
from leveret.mgmt.statistics.sampler import CONNECTION, Sampler
from leveret.mgmt.statistics.series import Window
from leveret.mgmt.views.to_json import NO_ERLANG_PROCESS

NO_TLS = {
    "ssl": False, "ssl_protocol": None, "ssl_cipher": None, "ssl_hash": None,
    "ssl_key_exchange": None, "peer_cert_issuer": None, "peer_cert_subject": None,
    "peer_cert_validity": None,
}  # fmt: skip


def connection_view(
    connection: ServedConnection, sampler: Sampler, window: Window | None = None
) -> dict[str, Any]:
    """An open connection."""
    status = connection.status()
    view: dict[str, Any] = {
        "name": status.name,
        "node": sampler.broker.config.node_name,
        "type": "network",
        "protocol": "AMQP 0-9-1",
        "state": status.state,
        "user": status.user,
        "user_who_performed_action": status.user,
        "vhost": status.vhost,
        "auth_mechanism": status.mechanism,
        "client_properties": status.client_properties,
        "user_provided_name": status.client_properties.get("connection_name"),
        "connected_at": int(status.connected_at_s * 1000),
        "channels": status.channels,
        "channel_max": status.channel_max,
        "frame_max": status.frame_bytes_max,
        "timeout": status.heartbeat_s,
        "host": status.host,
        "port": status.port,
        "peer_host": status.peer_host,
        "peer_port": status.peer_port,
        "recv_cnt": status.reads,
        "send_cnt": status.writes,
        "send_pend": 0,
        **NO_ERLANG_PROCESS,
        **NO_TLS,
        **status.tls,
    }  # fmt: skip
    if view["user_provided_name"] is None:
        del view["user_provided_name"]
    series = sampler.objects.get(connection)
    row = (status.bytes_in, status.bytes_out)
    for column, name in enumerate(CONNECTION):
        view[name] = row[column]
        view[f"{name}_details"] = (
            {"rate": 0.0} if series is None else series.details(column, sampler.now_ms(), window)
        )
    return view


def open_connections(sampler: Sampler) -> list[ServedConnection]:
    """The connections whose handshake is over."""
    return [one for one in tuple(sampler.broker.connections) if one.is_open]
