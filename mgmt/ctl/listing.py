"""Lists of queues, exchanges, bindings, connections, channels and consumers.

RabbitMQ's columns first; those that it has not stand at the end of each tuple.
"""

from collections.abc import Callable
from typing import Any

from mgmt.ctl.client import HttpError
from mgmt.ctl.command import Session, command
from mgmt.ctl.terms import AmqpTable, Term
from mgmt.ctl.vhosts import check_columns

LISTS = "Monitoring, observability and health checks"
PAGE = 500
QUEUE_TIMEOUT_SECONDS = 60
AMQP = Term("{0,9,1}", [0, 9, 1])

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
    "messages_paged_out", "message_bytes_paged_out",
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
    """A list; empty for a vhost that does not exist, as RabbitMQ's are."""
    try:
        return ctl.client.get(*path, **query)
    except HttpError as error:
        if error.status != 404:
            raise
        return []


def pages(ctl: Session, *path: str) -> list[dict[str, Any]]:
    """A whole list, a page at a time, so that no request is large."""
    found: list[dict[str, Any]] = []
    number, last = 1, 1
    while number <= last:
        page = of_vhost(ctl, *path, page=str(number), page_size=str(PAGE))
        if not page:
            break
        found += page["items"]
        number, last = number + 1, page["page_count"]
    return found


def _show(
    ctl: Session, found: list[dict[str, Any]], columns: list[str],
    derive: Callable[[dict[str, Any]], dict[str, Any]],
) -> None:  # fmt: skip
    """Rows, each with what is made of its fields. A column that a row has not is empty."""
    rows = []
    for row in found:
        whole = {**row, **derive(row)}
        rows.append([_shown(name, whole.get(name)) for name in columns])
    ctl.rows(rows, columns)


def _shown(name: str, value: Any) -> Any:
    if name in ("arguments", "client_properties"):
        return AmqpTable(value or {})
    return "" if value is None else value


def pid(row: dict[str, Any], name: str) -> str:
    """What stands for the Erlang process of a connection or a channel: it can be closed by it."""
    return f"<{row['node']}.{name.replace(' ', '')}>"


@command("list_queues", "[--vhost <vhost>] [--online] [--offline] [--local] [--no-table-headers] "
         "[<column>, ...]", "Lists queues and their properties", LISTS, "online", "offline",
         "local", counts=(0, None), columns=QUEUE_COLUMNS)  # fmt: skip
def list_queues(ctl: Session) -> None:
    """Queues of a vhost."""
    columns = check_columns(ctl.arguments, QUEUE_COLUMNS) or ["name", "messages"]
    ctl.banner(f"Timeout: {float(ctl.connection.timeout_s)} seconds ...")
    ctl.banner(f"Listing queues for vhost {ctl.vhost} ...")
    is_offline_only = ctl.options.get("offline") and not ctl.options.get("online")
    found = [] if is_offline_only else pages(ctl, "queues", ctl.vhost)
    _show(ctl, found, columns, _queue_facts)


def _queue_facts(queue: dict[str, Any]) -> dict[str, Any]:
    """RabbitMQ's columns that the HTTP API has under other names."""
    owner = (queue.get("owner_pid_details") or {}).get("name", "")
    return {
        "disk_reads": 0, "disk_writes": 0, "pid": pid(queue, queue["name"]),
        "owner_pid": pid(queue, owner) if owner else "",
    }  # fmt: skip


@command("list_unresponsive_queues", "[--local] [--queue-timeout <milliseconds>] [<column> ...] "
         "[--no-table-headers]", "Lists queues that do not answer in time", LISTS, "local",
         "queue-timeout=#", columns=QUEUE_COLUMNS)  # fmt: skip
def list_unresponsive_queues(ctl: Session) -> None:
    """Queues that do not answer: none, since they are in the node's own loop."""
    columns = check_columns(ctl.arguments, QUEUE_COLUMNS) or ["name"]
    ctl.banner(f"Listing unresponsive queues for vhost {ctl.vhost} ...")
    ctl.rows([], columns)


@command("list_exchanges", "[--vhost <vhost>] [--no-table-headers] [<column> ...]",
         "Lists exchanges", LISTS, columns=EXCHANGE_COLUMNS)  # fmt: skip
def list_exchanges(ctl: Session) -> None:
    """Exchanges of a vhost."""
    columns = check_columns(ctl.arguments, EXCHANGE_COLUMNS) or ["name", "type"]
    ctl.banner(f"Listing exchanges for vhost {ctl.vhost} ...")
    _show(ctl, pages(ctl, "exchanges", ctl.vhost), columns, lambda _: {})


@command("list_bindings", "[--vhost <vhost>] [--no-table-headers] [<column> ...]",
         "Lists all bindings on a vhost", LISTS, columns=BINDING_COLUMNS)  # fmt: skip
def list_bindings(ctl: Session) -> None:
    """Bindings of a vhost."""
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
    """Open connections."""
    columns = check_columns(ctl.arguments, CONNECTION_COLUMNS) or [
        "user", "peer_host", "peer_port", "state"
    ]  # fmt: skip
    ctl.banner("Listing connections ...")
    _show(ctl, pages(ctl, "connections"), columns,
          lambda row: {"pid": pid(row, row["name"]), "protocol": AMQP})  # fmt: skip


@command("list_channels", "[--no-table-headers] [<column> ...]", "Lists all channels in the node",
         LISTS, columns=CHANNEL_COLUMNS)  # fmt: skip
def list_channels(ctl: Session) -> None:
    """Open channels."""
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
    """Consumers in a vhost; their columns always in the same order."""
    asked = check_columns(ctl.arguments, CONSUMER_COLUMNS) or DEFAULT_CONSUMER_COLUMNS
    columns = [name for name in CONSUMER_COLUMNS if name in asked]
    ctl.banner(f"Listing consumers in vhost {ctl.vhost} ...")
    _show(ctl, of_vhost(ctl, "consumers", ctl.vhost), columns, _consumer_facts)


def _consumer_facts(consumer: dict[str, Any]) -> dict[str, Any]:
    channel = consumer["channel_details"]
    return {
        "queue_name": consumer["queue"]["name"], "channel_pid": pid(channel, channel["name"])
    }  # fmt: skip
