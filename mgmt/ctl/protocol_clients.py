"""Lists of the connections of MQTT and of STOMP: commands of rabbitmqctl's plugins.

A column has the name that RabbitMQ's tool gives it; the tables have the field of the API. What only
these protocols have is in `variable_map`. Columns with processes and counters of RabbitMQ's own
implementation are empty.
"""

from typing import Any

from leveret.mgmt.ctl.amqp_tables import AmqpTable
from leveret.mgmt.ctl.command import CommandRun, command
from leveret.mgmt.ctl.ip_addresses import IpAddress
from leveret.mgmt.ctl.listing import LISTS, pid
from leveret.mgmt.ctl.vhosts import check_columns

OF_ALL = {
    "conn_name": "name", "connection": "pid", "connection_state": "state", "host": "host",
    "port": "port", "peer_host": "peer_host", "peer_port": "peer_port", "protocol": "protocol",
    "channels": "channels", "channel_max": "channel_max", "frame_max": "frame_max",
    "client_properties": "client_properties", "ssl": "ssl", "ssl_protocol": "ssl_protocol",
    "ssl_key_exchange": "ssl_key_exchange", "ssl_cipher": "ssl_cipher", "ssl_hash": "ssl_hash",
}  # fmt: skip
VARIABLE = "variable_map."
MQTT = OF_ALL | {
    "user": "user", "vhost": "vhost", "ssl_login_name": "peer_cert_subject",
    **{
        name: VARIABLE + name
        for name in (
            "client_id", "clean_sess", "will_msg", "exchange", "unacked_pubs", "awaiting_ack",
            "awaiting_seqno", "consumer_tags", "message_id", "retainer_pid", "prefetch",
            "subscriptions",
        )
    },
}  # fmt: skip
STOMP = OF_ALL | {
    "peer_addr": "peer_host", "channel": "pid",
    **{
        name: VARIABLE + name
        for name in ("session_id", "version", "implicit_connect", "auth_login", "auth_mechanism")
    },
}  # fmt: skip


@command("list_mqtt_connections", "[--verbose] [--no-table-headers] [<column> ...]",
         "Lists MQTT connections on the target node", LISTS, "verbose",
         columns=tuple(MQTT))  # fmt: skip
def list_mqtt_connections(ctl: CommandRun) -> None:
    """List the connections of MQTT, of all nodes."""
    ctl.banner("Listing MQTT connections ...")
    _show(ctl, MQTT, ["client_id", "conn_name"], "MQTT")


@command("list_stomp_connections", "[--verbose] [--no-table-headers] [<column> ...]",
         "Lists STOMP connections on the target node", LISTS, "verbose",
         columns=tuple(STOMP))  # fmt: skip
def list_stomp_connections(ctl: CommandRun) -> None:
    """List the connections of STOMP, of all nodes."""
    ctl.banner("Listing STOMP connections ...")
    _show(ctl, STOMP, ["session_id", "conn_name"], "STOMP")


def _show(ctl: CommandRun, fields: dict[str, str], usual: list[str], protocol: str) -> None:
    if ctl.options.get("verbose"):
        columns = list(fields)
    else:
        columns = check_columns(ctl.arguments, tuple(fields)) or usual
    rows = (
        [_cell(name, row, fields[name]) for name in columns]
        for row in ctl.client.rows("connections", tables="typed")
        if protocol in row["protocol"]
    )
    ctl.rows(rows, columns)


def _cell(column: str, row: dict[str, Any], field: str) -> Any:
    if column in ("connection", "channel"):
        return pid(row, row["name"])
    if field.startswith(VARIABLE):
        return row.get("variable_map", {}).get(field.removeprefix(VARIABLE))
    value = row.get(field)
    if column == "client_properties":
        return AmqpTable(value or [])
    if column in ("host", "peer_host", "peer_addr"):
        return IpAddress(value)
    return value
