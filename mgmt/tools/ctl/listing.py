"""Lists of queues, exchanges, bindings, connections, channels and consumers.

Each tuple of columns begins with RabbitMQ's; Leveret's own follow at the end.
"""

from collections.abc import Callable
from typing import Any

from leveret.mgmt.tools.ctl.amqp_tables import AmqpTable
from leveret.mgmt.tools.ctl.client import HttpError
from leveret.mgmt.tools.ctl.command import Session, command
from leveret.mgmt.tools.ctl.ip_addresses import Address
from leveret.mgmt.tools.ctl.vhosts import check_columns

LISTS = "Monitoring, observability and health checks"
PAGE = 500
AMQP = (0, 9, 1)
"""The protocol; a tuple is shown as an Erlang term."""

QUEUE_COLUMNS = (
    "name", "durable", "auto_delete", "arguments", "policy", "pid", "owner_pid", "exclusive",
    "exclusive_consumer_pid", "exclusive_consumer_tag", "messages_ready",
    "messages_unacknowledged", "messages", "messages_ready_ram", "messages_unacknowledged_ram",
    "messages_ram", "messages_persistent", "message_bytes", "message_bytes_ready",
    "message_bytes_unacknowledged", "message_bytes_ram", "message_bytes_persistent",
    "head_message_timestamp", "disk_reads", "disk_writes", "consumers", "consumer_utilisation",
    "consumer_capacity", "memory", "slave_pids", "synchronised_slave_pids", "state", "type",
    "leader", "members", "online", "mirror_pids", "synchronised_mirror_pids", "operator_policy",
    "effective_policy_definition",
    "single_active_consumer_tag", "oldest_ready_age_ms", "oldest_unacked_age_ms", "idle_since",
    "messages_paged_out", "message_bytes_paged_out", "messages_dlx", "message_bytes_dlx",
    "recoverable_slaves", "slave_nodes", "synchronised_slave_nodes",
)  # fmt: skip
EXCHANGE_COLUMNS = (
    "name", "type", "durable", "auto_delete", "internal", "arguments", "policy"
)  # fmt: skip
BINDING_COLUMNS = (
    "source_name", "source_kind", "destination_name", "destination_kind", "routing_key",
    "arguments",
)  # fmt: skip
CONNECTION_COLUMNS = (
    "pid", "name", "port", "host", "peer_port", "peer_host", "ssl", "ssl_protocol",
    "ssl_key_exchange", "ssl_cipher", "ssl_hash", "peer_cert_subject", "peer_cert_issuer",
    "peer_cert_validity", "state", "channels", "protocol", "auth_mechanism", "user", "vhost",
    "timeout", "frame_max", "channel_max", "client_properties", "recv_oct", "recv_cnt",
    "send_oct", "send_cnt", "send_pend", "connected_at", "user_provided_name", "node",
)  # fmt: skip
CHANNEL_COLUMNS = (
    "pid", "connection", "name", "number", "user", "vhost", "transactional", "confirm",
    "consumer_count", "messages_unacknowledged", "messages_uncommitted", "acks_uncommitted",
    "messages_unconfirmed", "prefetch_count", "global_prefetch_count", "state", "node",
)  # fmt: skip
CONSUMER_COLUMNS = (
    "queue_name", "channel_pid", "consumer_tag", "ack_required", "prefetch_count", "active",
    "activity_status", "arguments",
)  # fmt: skip
DEFAULT_CONSUMER_COLUMNS = [name for name in CONSUMER_COLUMNS if name != "activity_status"]


def of_vhost(ctl: Session, *path: str, **query: str) -> Any:
    """Get a list; empty for a virtual host that does not exist, as in RabbitMQ."""
    try:
        return ctl.client.get(*path, **query)
    except HttpError as error:
        if error.status != 404:
            raise
        return []


def pages(ctl: Session, *path: str) -> list[dict[str, Any]]:
    """Get a whole list page by page, so that no request is large."""
    found: list[dict[str, Any]] = []
    number, last = 1, 1
    while number <= last:
        page = of_vhost(ctl, *path, page=str(number), page_size=str(PAGE), tables="typed")
        if not page:
            break
        found += page["items"]
        number, last = number + 1, page["page_count"]
    return found


def _show(
    ctl: Session, found: list[dict[str, Any]], columns: list[str],
    derive: Callable[[dict[str, Any]], dict[str, Any]],
) -> None:  # fmt: skip
    """Print rows with derived fields. Missing columns are empty."""
    rows = []
    for row in found:
        whole = {**row, **derive(row)}
        rows.append([_shown(name, whole.get(name)) for name in columns])
    ctl.rows(rows, columns)


def _shown(name: str, value: Any) -> Any:
    if name in ("arguments", "client_properties"):
        return AmqpTable(value or [])
    if name in ("host", "peer_host"):
        return Address(value or "")
    return "" if value is None else value


def pid(row: dict[str, Any], name: str) -> str:
    """Return a substitute for the Erlang pid of a connection or channel; close_connection accepts
    it.
    """
    return f"<{row['node']}.{name.replace(' ', '')}>"


@command("list_queues", "[--vhost <vhost>] [--online] [--offline] [--local] [--no-table-headers] "
         "[<column>, ...]", "Lists queues and their properties", LISTS, "online", "offline",
         "local", counts=(0, None), columns=QUEUE_COLUMNS)  # fmt: skip
def list_queues(ctl: Session) -> None:
    """List queues of a virtual host."""
    columns = check_columns(ctl.arguments, QUEUE_COLUMNS) or ["name", "messages"]
    ctl.banner(f"Timeout: {float(ctl.connection.timeout_s)} seconds ...")
    ctl.banner(f"Listing queues for vhost {ctl.vhost} ...")
    found = [queue for queue in pages(ctl, "queues", ctl.vhost) if _is_wanted(ctl, queue)]
    _show(ctl, found, columns, _queue_facts)


def _is_wanted(ctl: Session, queue: dict[str, Any]) -> bool:
    """Whether a queue is to be listed: by its node, and by whether that can be reached."""
    if ctl.options.get("local") and queue["node"] != ctl.node:
        return False
    is_down = queue["state"] == "down"
    if ctl.options.get("online"):
        return not is_down or bool(ctl.options.get("offline"))
    return is_down or not ctl.options.get("offline")


def _queue_facts(queue: dict[str, Any]) -> dict[str, Any]:
    """Return RabbitMQ's columns that have other names in the HTTP API."""
    owner = (queue.get("owner_pid_details") or {}).get("name", "")
    mirrors, synchronised = (
        _pids(queue, name) for name in ("slave_nodes", "synchronised_slave_nodes")
    )
    return {
        "disk_reads": 0, "disk_writes": 0, "pid": pid(queue, queue["name"]),
        "owner_pid": pid(queue, owner) if owner else "", "state": _state(queue),
        "slave_pids": mirrors, "mirror_pids": mirrors,
        "synchronised_slave_pids": synchronised, "synchronised_mirror_pids": synchronised,
    }  # fmt: skip


def _pids(queue: dict[str, Any], name: str) -> list[str] | None:
    """Substitutes for the pids of a queue on other nodes; None if it is not mirrored."""
    nodes = queue.get(name)
    return None if nodes is None else [pid({"node": node}, queue["name"]) for node in nodes]


def _state(queue: dict[str, Any]) -> str:
    """The state; with the number of messages that its mirrors have got, if they are synchronised.

    It is written as an Erlang term.
    """
    state = str(queue["state"])
    return f"{{{state}, {queue['sync_messages']}}}" if "sync_messages" in queue else state


@command("list_unresponsive_queues", "[--local] [--queue-timeout <milliseconds>] [<column> ...] "
         "[--no-table-headers]", "Lists queues that do not answer in time", LISTS, "local",
         "queue-timeout=#", columns=QUEUE_COLUMNS)  # fmt: skip
def list_unresponsive_queues(ctl: Session) -> None:
    """List queues that do not answer: none, since they run in the node's event loop."""
    columns = check_columns(ctl.arguments, QUEUE_COLUMNS) or ["name"]
    ctl.banner(f"Listing unresponsive queues for vhost {ctl.vhost} ...")
    ctl.rows([], columns)


@command("list_exchanges", "[--vhost <vhost>] [--no-table-headers] [<column> ...]",
         "Lists exchanges", LISTS, columns=EXCHANGE_COLUMNS)  # fmt: skip
def list_exchanges(ctl: Session) -> None:
    """List exchanges of a virtual host."""
    columns = check_columns(ctl.arguments, EXCHANGE_COLUMNS) or ["name", "type"]
    ctl.banner(f"Listing exchanges for vhost {ctl.vhost} ...")
    _show(ctl, pages(ctl, "exchanges", ctl.vhost), columns, lambda _: {})


@command("list_bindings", "[--vhost <vhost>] [--no-table-headers] [<column> ...]",
         "Lists all bindings on a vhost", LISTS, columns=BINDING_COLUMNS)  # fmt: skip
def list_bindings(ctl: Session) -> None:
    """List bindings of a virtual host."""
    columns = check_columns(ctl.arguments, BINDING_COLUMNS) or list(BINDING_COLUMNS)
    ctl.banner(f"Listing bindings for vhost {ctl.vhost}...")
    _show(ctl, pages(ctl, "bindings", ctl.vhost), columns, _binding_facts)


def _binding_facts(binding: dict[str, Any]) -> dict[str, Any]:
    return {
        "source_name": binding["source"], "source_kind": "exchange",
        "destination_name": binding["destination"],
        "destination_kind": binding["destination_type"],
    }  # fmt: skip


@command("list_connections", "[--no-table-headers] [<column> ...]",
         "Lists AMQP 0.9.1 connections for the node", LISTS,
         columns=CONNECTION_COLUMNS)  # fmt: skip
def list_connections(ctl: Session) -> None:
    """List open connections."""
    columns = check_columns(ctl.arguments, CONNECTION_COLUMNS) or [
        "user", "peer_host", "peer_port", "state"
    ]  # fmt: skip
    ctl.banner("Listing connections ...")
    _show(ctl, pages(ctl, "connections"), columns,
          lambda row: {"pid": pid(row, row["name"]), "protocol": AMQP})  # fmt: skip


@command("list_channels", "[--no-table-headers] [<column> ...]", "Lists all channels in the node",
         LISTS, columns=CHANNEL_COLUMNS)  # fmt: skip
def list_channels(ctl: Session) -> None:
    """List open channels."""
    columns = check_columns(ctl.arguments, CHANNEL_COLUMNS) or [
        "pid", "user", "consumer_count", "messages_unacknowledged"
    ]  # fmt: skip
    ctl.banner("Listing channels ...")
    _show(ctl, pages(ctl, "channels"), columns, _channel_facts)


def _channel_facts(channel: dict[str, Any]) -> dict[str, Any]:
    return {
        "pid": pid(channel, channel["name"]),
        "connection": pid(channel, channel["connection_details"]["name"]),
    }


@command("list_consumers", "[--vhost <vhost>] [--no-table-headers] [<column> ...]",
         "Lists all consumers for a vhost", LISTS, columns=CONSUMER_COLUMNS)  # fmt: skip
def list_consumers(ctl: Session) -> None:
    """List consumers of a virtual host; the order of columns is fixed."""
    asked = check_columns(ctl.arguments, CONSUMER_COLUMNS) or DEFAULT_CONSUMER_COLUMNS
    columns = [name for name in CONSUMER_COLUMNS if name in asked]
    ctl.banner(f"Listing consumers in vhost {ctl.vhost} ...")
    _show(ctl, of_vhost(ctl, "consumers", ctl.vhost, tables="typed"), columns, _consumer_facts)


def _consumer_facts(consumer: dict[str, Any]) -> dict[str, Any]:
    channel = consumer["channel_details"]
    return {
        "queue_name": consumer["queue"]["name"], "channel_pid": pid(channel, channel["name"])
    }  # fmt: skip
