"""Lists of queues, exchanges, bindings, connections, channels and consumers.

The node takes one snapshot of all objects and sends it row by row, with only the needed columns;
each row is printed as it comes. So the cost grows with the number of rows, and objects that are
declared or deleted meanwhile do not move other rows out of the list.

Each tuple of columns begins with RabbitMQ's; Leveret's own follow at the end.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from leveret.mgmt.ctl.amqp_tables import AmqpTable
from leveret.mgmt.ctl.client import HttpError
from leveret.mgmt.ctl.command import CommandRun, command
from leveret.mgmt.ctl.ip_addresses import IpAddress
from leveret.mgmt.ctl.vhosts import check_columns

LISTS = "Monitoring, observability and health checks"
PROTOCOLS = {"AMQP 0-9-1": (0, 9, 1), "AMQP 1-0": (1, 0)}
"""RabbitMQ's tool shows these as Erlang terms, as tuples are shown here."""

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
    "recoverable_slaves", "slave_nodes", "synchronised_slave_nodes", "delivery_limit",
    "messages_ready_high", "messages_ready_normal", "messages_ready_returned",
    "messages_by_priority", "messages_active_priorities", "messages_delayed", "next_delayed_at",
    "last_delayed_at", "delayed_retry", "messages_duplicate", "message_deduplication_cache_info",
    "messages_expired_on_time",
)  # fmt: skip
EXCHANGE_COLUMNS = (
    "name", "type", "durable", "auto_delete", "internal", "arguments", "policy",
    "messages_duplicate", "cache_info",
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
    "send_oct", "send_cnt", "send_pend", "connected_at", "user_provided_name", "container_id",
    "node",
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


Row = dict[str, Any]


class Derived(NamedTuple):
    """A column that is made of columns of the HTTP API."""

    sources: tuple[str, ...]
    make: Callable[[Row], Any]


def _show(
    ctl: CommandRun, derived: dict[str, Derived], columns: Sequence[str], *path: str,
    needed: tuple[str, ...] = (), is_wanted: Callable[[Row], bool] = lambda _: True,
) -> None:  # fmt: skip
    """Print the wanted rows of a list as they come. Missing columns are empty.

    needed: the API's columns for `is_wanted`.
    """
    asked = dict.fromkeys(needed)
    for name in columns:
        asked |= dict.fromkeys(derived[name].sources if name in derived else (name,))

    def shown() -> Iterator[list[Any]]:
        for row in _rows(ctl, *path, columns=",".join(asked)):
            if is_wanted(row):
                yield [
                    _shown(name, derived[name].make(row) if name in derived else row.get(name))
                    for name in columns
                ]

    ctl.rows(shown(), columns)


def _rows(ctl: CommandRun, *path: str, **query: str) -> Iterator[Row]:
    """Return the rows of a list; none for a virtual host that does not exist, as in RabbitMQ."""
    try:
        yield from ctl.client.rows(*path, **query, tables="typed")
    except HttpError as error:
        if error.status != 404:
            raise


def _shown(name: str, value: Any) -> Any:
    if name in ("arguments", "client_properties"):
        return AmqpTable(value or [])
    if name in ("host", "peer_host"):
        return IpAddress(value or "")
    return "" if value is None else value


def pid(row: dict[str, Any], name: str) -> str:
    """Return a substitute for the Erlang pid of a connection or channel; close_connection accepts
    it.
    """
    return f"<{row['node']}.{name.replace(' ', '')}>"


@command("list_queues", "[--vhost <vhost>] [--online] [--offline] [--local] [--no-table-headers] "
         "[<column>, ...]", "Lists queues and their properties", LISTS, "online", "offline",
         "local", counts=(0, None), columns=QUEUE_COLUMNS)  # fmt: skip
def list_queues(ctl: CommandRun) -> None:
    """List queues of a virtual host."""
    columns = check_columns(ctl.arguments, QUEUE_COLUMNS) or ["name", "messages"]
    ctl.banner(f"Timeout: {float(ctl.connection.timeout_s)} seconds ...")
    ctl.banner(f"Listing queues for vhost {ctl.vhost} ...")
    _show(ctl, QUEUES, columns, "queues", ctl.vhost, needed=("node", "state"),
          is_wanted=lambda queue: _is_wanted(ctl, queue))  # fmt: skip


def _is_wanted(ctl: CommandRun, queue: dict[str, Any]) -> bool:
    """Whether a queue is to be listed: by its node, and by whether that can be reached."""
    if ctl.options.get("local") and queue["node"] != ctl.node:
        return False
    is_down = queue["state"] == "down"
    if ctl.options.get("online"):
        return not is_down or bool(ctl.options.get("offline"))
    return is_down or not ctl.options.get("offline")


def _owner(queue: Row) -> str:
    owner = (queue.get("owner_pid_details") or {}).get("name", "")
    return pid(queue, owner) if owner else ""


def _pids(nodes: str) -> Derived:
    """Substitutes for the pids of a queue on other nodes; none if it is not mirrored."""

    def make(queue: Row) -> list[str] | None:
        if queue.get(nodes) is None:
            return None
        return [pid({"node": node}, queue["name"]) for node in queue[nodes]]

    return Derived(("name", nodes), make)


def _state(queue: dict[str, Any]) -> str:
    """The state; with the number of messages that its mirrors have got, if they are synchronised.

    It is written as an Erlang term.
    """
    state = str(queue["state"])
    return f"{{{state}, {queue['sync_messages']}}}" if "sync_messages" in queue else state


PID = Derived(("name", "node"), lambda row: pid(row, row["name"]))
QUEUES = {
    "pid": PID, "owner_pid": Derived(("node", "owner_pid_details"), _owner),
    "state": Derived(("state", "sync_messages"), _state),
    "disk_reads": Derived((), lambda _: 0), "disk_writes": Derived((), lambda _: 0),
    "slave_pids": _pids("slave_nodes"), "mirror_pids": _pids("slave_nodes"),
    "synchronised_slave_pids": _pids("synchronised_slave_nodes"),
    "synchronised_mirror_pids": _pids("synchronised_slave_nodes"),
}  # fmt: skip
"""RabbitMQ's columns that have other names in the HTTP API."""


@command("list_unresponsive_queues", "[--local] [--queue-timeout <milliseconds>] [<column> ...] "
         "[--no-table-headers]", "Lists queues that do not answer in time", LISTS, "local",
         "queue-timeout=#", columns=QUEUE_COLUMNS)  # fmt: skip
def list_unresponsive_queues(ctl: CommandRun) -> None:
    """List queues that do not answer: none, since they run in the node's event loop."""
    columns = check_columns(ctl.arguments, QUEUE_COLUMNS) or ["name"]
    ctl.banner(f"Listing unresponsive queues for vhost {ctl.vhost} ...")
    ctl.rows([], columns)


@command("list_exchanges", "[--vhost <vhost>] [--no-table-headers] [<column> ...]",
         "Lists exchanges", LISTS, columns=EXCHANGE_COLUMNS)  # fmt: skip
def list_exchanges(ctl: CommandRun) -> None:
    """List exchanges of a virtual host."""
    columns = check_columns(ctl.arguments, EXCHANGE_COLUMNS) or ["name", "type"]
    ctl.banner(f"Listing exchanges for vhost {ctl.vhost} ...")
    _show(ctl, {}, columns, "exchanges", ctl.vhost)


@command("list_bindings", "[--vhost <vhost>] [--no-table-headers] [<column> ...]",
         "Lists all bindings on a vhost", LISTS, columns=BINDING_COLUMNS)  # fmt: skip
def list_bindings(ctl: CommandRun) -> None:
    """List bindings of a virtual host."""
    columns = check_columns(ctl.arguments, BINDING_COLUMNS) or list(BINDING_COLUMNS)
    ctl.banner(f"Listing bindings for vhost {ctl.vhost}...")
    _show(ctl, BINDINGS, columns, "bindings", ctl.vhost)


BINDINGS = {
    "source_name": Derived(("source",), lambda row: row["source"]),
    "source_kind": Derived((), lambda _: "exchange"),
    "destination_name": Derived(("destination",), lambda row: row["destination"]),
    "destination_kind": Derived(("destination_type",), lambda row: row["destination_type"]),
}


@command("list_connections", "[--no-table-headers] [<column> ...]",
         "Lists AMQP 0.9.1 connections for the node", LISTS,
         columns=CONNECTION_COLUMNS)  # fmt: skip
def list_connections(ctl: CommandRun) -> None:
    """List open connections."""
    columns = check_columns(ctl.arguments, CONNECTION_COLUMNS) or [
        "user", "peer_host", "peer_port", "state"
    ]  # fmt: skip
    ctl.banner("Listing connections ...")
    _show(ctl, CONNECTIONS, columns, "connections")


def _protocol(connection: Row) -> Any:
    return PROTOCOLS.get(connection["protocol"], connection["protocol"])


CONNECTIONS = {"pid": PID, "protocol": Derived(("protocol",), _protocol)}


@command("list_channels", "[--no-table-headers] [<column> ...]", "Lists all channels in the node",
         LISTS, columns=CHANNEL_COLUMNS)  # fmt: skip
def list_channels(ctl: CommandRun) -> None:
    """List open channels."""
    columns = check_columns(ctl.arguments, CHANNEL_COLUMNS) or [
        "pid", "user", "consumer_count", "messages_unacknowledged"
    ]  # fmt: skip
    ctl.banner("Listing channels ...")
    _show(ctl, CHANNELS, columns, "channels")


def _connection_pid(channel: Row) -> str:
    return pid(channel, channel["connection_details"]["name"])


CHANNELS = {
    "pid": PID,
    "connection": Derived(("connection_details", "node"), _connection_pid),
}


@command("list_consumers", "[--vhost <vhost>] [--no-table-headers] [<column> ...]",
         "Lists all consumers for a vhost", LISTS, columns=CONSUMER_COLUMNS)  # fmt: skip
def list_consumers(ctl: CommandRun) -> None:
    """List consumers of a virtual host; the order of columns is fixed."""
    asked = check_columns(ctl.arguments, CONSUMER_COLUMNS) or DEFAULT_CONSUMER_COLUMNS
    columns = [name for name in CONSUMER_COLUMNS if name in asked]
    ctl.banner(f"Listing consumers in vhost {ctl.vhost} ...")
    _show(ctl, CONSUMERS, columns, "consumers", ctl.vhost)


def _channel_pid(consumer: Row) -> str:
    channel = consumer["channel_details"]
    return pid(channel, channel["name"])


CONSUMERS = {
    "queue_name": Derived(("queue",), lambda row: row["queue"]["name"]),
    "channel_pid": Derived(("channel_details",), _channel_pid),
}
