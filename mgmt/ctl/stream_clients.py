"""Lists of the stream protocol's connections, publishers and consumers: rabbitmq-streams' commands.

A column has the name that RabbitMQ's tool gives it; the second table has the field of the API.
"""

from typing import Any

from leveret.mgmt.ctl.amqp_tables import AmqpTable
from leveret.mgmt.ctl.command import CommandRun, command
from leveret.mgmt.ctl.listing import LISTS, pid
from leveret.mgmt.ctl.vhosts import check_columns

CONNECTIONS = {
    "conn_name": "name", "port": "port", "peer_port": "peer_port", "host": "host",
    "peer_host": "peer_host", "user": "user", "vhost": "vhost", "ssl": "ssl",
    "ssl_protocol": "ssl_protocol", "ssl_key_exchange": "ssl_key_exchange",
    "ssl_cipher": "ssl_cipher", "ssl_hash": "ssl_hash", "auth_mechanism": "auth_mechanism",
    "heartbeat": "timeout", "frame_max": "frame_max", "client_properties": "client_properties",
    "connected_at": "connected_at", "node": "node",
}  # fmt: skip
PUBLISHERS = {
    "connection_pid": "connection_details", "node": "connection_details",
    "publisher_id": "publisher_id", "stream": "queue", "reference": "reference",
    "messages_published": "published", "messages_confirmed": "confirmed",
    "messages_errored": "errored",
}  # fmt: skip
CONSUMERS = {
    "connection_pid": "connection_details", "node": "connection_details",
    "subscription_id": "subscription_id", "stream": "queue", "messages_consumed": "consumed",
    "offset": "offset", "offset_lag": "offset_lag", "credits": "credits", "active": "active",
    "activity_status": "activity_status", "properties": "properties",
}  # fmt: skip


@command("list_stream_connections", "[--no-table-headers] [<column> ...]",
         "Lists stream connections", LISTS, columns=tuple(CONNECTIONS))  # fmt: skip
def list_stream_connections(ctl: CommandRun) -> None:
    """List the connections of all nodes."""
    ctl.banner("Listing stream connections ...")
    columns = check_columns(ctl.arguments, tuple(CONNECTIONS)) or ["conn_name"]
    _show(ctl, CONNECTIONS, columns, "stream", "connections")


@command("list_stream_publishers", "[--vhost <vhost>] [--no-table-headers] [<column> ...]",
         "Lists all stream publishers for a vhost", LISTS,
         columns=tuple(PUBLISHERS))  # fmt: skip
def list_stream_publishers(ctl: CommandRun) -> None:
    """List the publishers in a virtual host."""
    ctl.banner(f"Listing stream publishers in vhost {ctl.vhost} ...")
    columns = check_columns(ctl.arguments, tuple(PUBLISHERS)) or list(PUBLISHERS)
    _show(ctl, PUBLISHERS, columns, "stream", "publishers", ctl.vhost)


@command("list_stream_consumers", "[--vhost <vhost>] [--no-table-headers] [<column> ...]",
         "Lists all stream consumers for a vhost", LISTS,
         columns=tuple(CONSUMERS))  # fmt: skip
def list_stream_consumers(ctl: CommandRun) -> None:
    """List the consumers in a virtual host."""
    ctl.banner(f"Listing stream consumers in vhost {ctl.vhost} ...")
    columns = check_columns(ctl.arguments, tuple(CONSUMERS)) or list(CONSUMERS)
    _show(ctl, CONSUMERS, columns, "stream", "consumers", ctl.vhost)


def _show(ctl: CommandRun, fields: dict[str, str], columns: list[str], *path: str) -> None:
    rows = ctl.client.rows(*path, tables="typed")
    ctl.rows(([_cell(name, row[fields[name]]) for name in columns] for row in rows), columns)


def _cell(column: str, value: Any) -> Any:
    match column:
        case "connection_pid":
            return pid(value, value["name"])
        case "node" if isinstance(value, dict):
            return value["node"]
        case "stream":
            return value["name"]
        case "client_properties":
            return AmqpTable(value or [])
        case "properties":
            return ", ".join(f"{name}: {text}" for name, text in sorted(value.items()))
    return "" if value is None else value
