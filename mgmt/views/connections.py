"""Connections as JSON, with RabbitMQ's fields."""

from typing import Any

from leveret.mgmt.node_facade.clients import OpenConnection
from leveret.mgmt.statistics.sampler import CONNECTION, Sampler
from leveret.mgmt.statistics.series import SampleWindow
from leveret.mgmt.views.to_json import NO_ERLANG_PROCESS

NO_TLS = {
    "ssl": False, "ssl_protocol": None, "ssl_cipher": None, "ssl_hash": None,
    "ssl_key_exchange": None, "peer_cert_issuer": None, "peer_cert_subject": None,
    "peer_cert_validity": None,
}  # fmt: skip


def connection_view(
    connection: OpenConnection, sampler: Sampler, window: SampleWindow | None = None
) -> dict[str, Any]:
    """An open connection."""
    status = connection.status()
    view: dict[str, Any] = {
        "name": status.name,
        "node": sampler.facade.name,
        "type": status.kind,
        "protocol": status.protocol,
        "state": status.state,
        "user": status.user,
        "user_who_performed_action": status.user,
        "vhost": status.vhost,
        "auth_mechanism": status.mechanism or None,
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
    if status.container_id is not None:
        view["container_id"] = status.container_id
    if status.variables:
        view["variable_map"] = status.variables
    if view["user_provided_name"] is None:
        del view["user_provided_name"]
    row = (status.bytes_in, status.bytes_out)
    series = sampler.objects.connection(status.name, row)
    for column, name in enumerate(CONNECTION):
        view[name] = row[column]
        view[f"{name}_details"] = (
            {"rate": 0.0} if series is None else series.details(column, sampler.now_ms(), window)
        )
    return view
