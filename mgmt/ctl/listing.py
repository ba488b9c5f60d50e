"""Lists of queues, exchanges, bindings, connections, channels and consumers, and closing them."""

import time
from typing import Any

from mgmt.ctl.client import HttpError
from mgmt.ctl.command import Session, command
from mgmt.ctl.errors import UNAVAILABLE, USAGE, CtlError, UsageError
from mgmt.ctl.vhosts import check_columns

LISTS, QUEUES, OPERATIONS = "Monitoring, observability and health checks", "Queues", "Operations"
PAGE = 500

QUEUE_COLUMNS = (
    "name", "durable", "auto_delete", "arguments", "policy", "pid", "owner_pid", "exclusive",
    "exclusive_consumer_pid", "exclusive_consumer_tag", "messages_ready",
    "messages_unacknowledged", "messages", "messages_ready_ram", "messages_unacknowledged_ram",
    "messages_ram", "messages_persistent", "message_bytes", "message_bytes_ready",
    "message_bytes_unacknowledged", "message_bytes_ram", "message_bytes_persistent",
    "head_message_timestamp", "disk_reads", "disk_writes", "consumers", "consumer_utilisation",
    "consumer_capacity", "memory", "slave_pids", "synchronised_slave_pids", "state", "type",
    "leader", "members", "online", "operator_policy", "effective_policy_definition",
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


def pages(ctl: Session, *path: str) -> list[dict[str, Any]]:
    """A whole list, a page at a time, so that no request is large."""
    found: list[dict[str, Any]] = []
    number = 1
    while True:
        page = ctl.client.get(*path, page=str(number), page_size=str(PAGE))
        found += page["items"]
        if number >= page["page_count"]:
            return found
        number += 1


def _list(
    ctl: Session, banner: str, found: list[dict[str, Any]], default: tuple[str, ...],
    known: tuple[str, ...],
) -> None:  # fmt: skip
    columns = check_columns(ctl.arguments or list(default), known)
    ctl.banner(banner)
    ctl.rows([[row.get(name, "") for name in columns] for row in found], columns)


def _check(ctl: Session, known: tuple[str, ...]) -> None:
    """Complain of a column before anything is asked of the node."""
    check_columns(ctl.arguments, known)


@command("list_queues", "[<column>, ...]", "Lists queues and their properties", LISTS,
         "online", "offline", "local", "no-table-headers")  # fmt: skip
def list_queues(ctl: Session) -> None:
    """Queues of a vhost."""
    _check(ctl, QUEUE_COLUMNS)
    if not ctl.is_quiet:
        ctl.out(f"Timeout: {ctl.options.get('timeout') or 60.0} seconds ...")
    found = [] if ctl.options.get("offline") else pages(ctl, "queues", ctl.vhost)
    for queue in found:
        queue["pid"] = f"<{queue['node']}>"
        queue["owner_pid"] = (queue.get("owner_pid_details") or {}).get("name", "")
        queue["leader"], queue["members"] = queue["node"], [queue["node"]]
        queue["online"] = [queue["node"]]
    _list(ctl, f"Listing queues for vhost {ctl.vhost} ...", found, ("name", "messages"),
          QUEUE_COLUMNS)  # fmt: skip


@command("list_unresponsive_queues", "[<column>, ...]",
         "Tests queues to respond within timeout. Lists those which did not", LISTS)  # fmt: skip
def list_unresponsive_queues(ctl: Session) -> None:
    """Queues that do not answer: none, since they are in the node's own loop."""
    ctl.banner(f"Listing unresponsive queues for vhost {ctl.vhost} ...")
    ctl.rows([], ("name",))


@command("list_exchanges", "[<column>, ...]", "Lists exchanges", LISTS, "no-table-headers")
def list_exchanges(ctl: Session) -> None:
    """Exchanges of a vhost."""
    _check(ctl, EXCHANGE_COLUMNS)
    found = pages(ctl, "exchanges", ctl.vhost)
    _list(ctl, f"Listing exchanges for vhost {ctl.vhost} ...", found, ("name", "type"),
          EXCHANGE_COLUMNS)  # fmt: skip


@command("list_bindings", "[<column>, ...]", "Lists all bindings on a vhost", LISTS,
         "no-table-headers")  # fmt: skip
def list_bindings(ctl: Session) -> None:
    """Bindings of a vhost."""
    _check(ctl, BINDING_COLUMNS)
    found = [
        {
            "source_name": row["source"], "source_kind": "exchange",
            "destination_name": row["destination"], "destination_kind": row["destination_type"],
            "routing_key": row["routing_key"], "arguments": row["arguments"],
        }
        for row in pages(ctl, "bindings", ctl.vhost)
    ]  # fmt: skip
    _list(ctl, f"Listing bindings for vhost {ctl.vhost}...", found, BINDING_COLUMNS,
          BINDING_COLUMNS)  # fmt: skip


@command("list_connections", "[<column>, ...]",
         "Lists AMQP 0.9.1 connections for the node", LISTS, "no-table-headers")  # fmt: skip
def list_connections(ctl: Session) -> None:
    """Open connections."""
    _check(ctl, CONNECTION_COLUMNS)
    found = pages(ctl, "connections")
    for connection in found:
        connection["pid"] = f"<{connection['name']}>"
    _list(ctl, "Listing connections ...", found, ("user", "peer_host", "peer_port", "state"),
          CONNECTION_COLUMNS)  # fmt: skip


@command("list_channels", "[<column>, ...]", "Lists all channels in the node", LISTS,
         "no-table-headers")  # fmt: skip
def list_channels(ctl: Session) -> None:
    """Open channels."""
    _check(ctl, CHANNEL_COLUMNS)
    found = pages(ctl, "channels")
    for channel in found:
        channel["pid"] = f"<{channel['name']}>"
        channel["connection"] = channel["connection_details"]["name"]
    _list(ctl, "Listing channels ...", found,
          ("pid", "user", "consumer_count", "messages_unacknowledged"),
          CHANNEL_COLUMNS)  # fmt: skip


@command("list_consumers", "[<column>, ...]", "Lists all consumers for a vhost", LISTS,
         "no-table-headers")  # fmt: skip
def list_consumers(ctl: Session) -> None:
    """Consumers in a vhost."""
    _check(ctl, CONSUMER_COLUMNS)
    found = ctl.client.get("consumers", ctl.vhost)
    for consumer in found:
        consumer["queue_name"] = consumer["queue"]["name"]
        consumer["channel_pid"] = f"<{consumer['channel_details']['name']}>"
    _list(ctl, f"Listing consumers in vhost {ctl.vhost} ...", found, CONSUMER_COLUMNS,
          CONSUMER_COLUMNS)  # fmt: skip


@command("list_hashes", "", "Lists hash functions supported by encoding commands", LISTS)
def list_hashes(ctl: Session) -> None:
    """Hashes of passwords."""
    ctl.banner("Listing supported hash algorithms ...")
    for name in ("rabbit_password_hashing_sha256", "rabbit_password_hashing_sha512"):
        ctl.out(name)


# Queues


@command("purge_queue", "<queue>", "Purges a queue (removes all messages in it)", QUEUES)
def purge_queue(ctl: Session) -> None:
    """Drop what is ready."""
    name = ctl.argument(0)
    ctl.banner(f"Purging queue '{name}' in vhost '{ctl.vhost}' ...")
    try:
        ctl.client.delete("queues", ctl.vhost, name, "contents")
    except HttpError as error:
        if error.status == 404:
            raise CtlError("Error:\nnot_found", UNAVAILABLE) from None
        raise


@command("delete_queue", "<queue>", "Deletes a queue", QUEUES, "if-empty", "if-unused")
def delete_queue(ctl: Session) -> None:
    """Delete a queue."""
    name = ctl.argument(0)
    conditions = {
        key: "true" for key in ("if-empty", "if-unused") if ctl.options.get(key.replace("-", "_"))
    }
    suffix = "".join(f" if queue is {key.removeprefix('if-')}" for key in conditions)
    ctl.banner(f"Deleting queue '{name}' on vhost '{ctl.vhost}'{suffix} ...")
    try:
        count = ctl.client.get("queues", ctl.vhost, name)["messages_ready"]
        ctl.client.delete("queues", ctl.vhost, name, headers=None, **conditions)
    except HttpError as error:
        if error.status == 404:
            raise CtlError("Error:\nQueue not found", USAGE) from None
        raise
    ctl.say(f"Queue was successfully deleted with {count} ready messages")


# Connections


@command("close_connection", "<connectionpid> <explanation>",
         "Instructs the broker to close the connection associated with the Erlang process id",
         OPERATIONS)  # fmt: skip
def close_connection(ctl: Session) -> None:
    """Close one connection, by its name or by what list_connections shows as its pid."""
    name, reason = ctl.argument(0).strip("<>"), ctl.argument(1)
    ctl.banner(f"Closing connection {ctl.argument(0)}, reason: {reason}...")
    ctl.client.delete("connections", name, headers={"X-Reason": reason})


def _number(ctl: Session, name: str) -> int:
    text = ctl.options.get(name) or "0"
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{name} must be a number, and is '{text}'") from None


def _close_all(ctl: Session, vhost: str | None, user: str | None, reason: str) -> int:
    limit = _number(ctl, "limit")
    delay_ms = _number(ctl, "per_connection_delay")
    if not delay_ms and ctl.client.is_local:
        body = {"reason": reason, "vhost": vhost, "user": user, "limit": limit}
        closed: int = ctl.client.post("node", "close-connections", body=body)["closed"]
        return closed
    found = [
        row
        for row in pages(ctl, "connections")
        if vhost in (None, row["vhost"]) and user in (None, row["user"])
    ]
    for connection in found[: limit or None]:
        ctl.client.delete("connections", connection["name"], headers={"X-Reason": reason})
        time.sleep(delay_ms / 1000)
    return len(found[: limit or None])


@command("close_all_connections", "<explanation>",
         "Instructs the broker to close all connections for the specified vhost or entire node",
         OPERATIONS, "global", "limit=", "per-connection-delay=")  # fmt: skip
def close_all_connections(ctl: Session) -> None:
    """Close the connections to a vhost, or all."""
    reason = ctl.argument(0)
    is_global = ctl.options.get("global")
    if is_global:
        ctl.banner(f"Closing all connections to node {ctl.node} (across all vhosts), "
                   f"reason: {reason}...")  # fmt: skip
    else:
        ctl.banner(f"Closing all connections in vhost {ctl.vhost}, reason: {reason}...")
    count = _close_all(ctl, None if is_global else ctl.vhost, None, reason)
    ctl.say(f"Closed {count} connections")


@command("close_all_user_connections", "<username> <explanation>",
         "Instructs the broker to close all connections of the specified user", OPERATIONS,
         "limit=", "per-connection-delay=")  # fmt: skip
def close_all_user_connections(ctl: Session) -> None:
    """Close the connections of a user."""
    user, reason = ctl.arguments
    ctl.banner(f"Closing connections of user {user}, reason: {reason}...")
    ctl.say(f"Closed {_close_all(ctl, None, user, reason)} connections")
