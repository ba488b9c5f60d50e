"""Commands for queues, connections, listeners and the maintenance mode."""

import time

from leveret.mgmt.ctl.client import HttpError
from leveret.mgmt.ctl.command import CommandRun, command
from leveret.mgmt.ctl.errors import UNAVAILABLE, USAGE, CtlError, failure, no_such

QUEUES, OPERATIONS = "Queues", "Operations"


@command("purge_queue", "<queue>", "Removes the ready messages of a queue", QUEUES)
def purge_queue(ctl: CommandRun) -> None:
    """Purge a queue."""
    name = ctl.argument(0)
    ctl.banner(f"Purging queue '{name}' in vhost '{ctl.vhost}' ...")
    try:
        ctl.client.delete("queues", ctl.vhost, name, "contents")
    except HttpError as error:
        raise _queue_error(ctl, name, error) from None


def _queue_error(ctl: CommandRun, name: str, error: HttpError, code: int = UNAVAILABLE) -> CtlError:
    """Return the error for a request about a queue."""
    return no_such("Queue", name, ctl.vhost, code) if error.status == 404 else error


@command("delete_queue", "<queue_name> [--if-empty|-e] [--if-unused|-u]", "Deletes a queue",
         QUEUES, "if-empty|e", "if-unused|u")  # fmt: skip
def delete_queue(ctl: CommandRun) -> None:
    """Delete a queue, and print its number of ready messages."""
    name = ctl.argument(0)
    where = f"Queue '{name}' in vhost '{ctl.vhost}'"
    conditions = [key for key in ("empty", "unused") if ctl.options.get(f"if_{key}")]
    when = " and".join(f" if queue is {key}" for key in conditions)
    ctl.banner(f"Deleting queue '{name}' on vhost '{ctl.vhost}'{when} ...")
    try:
        queue = ctl.client.get("queues", ctl.vhost, name)
        if "unused" in conditions and queue["consumers"]:
            raise failure(f"{where} is in use (consumers: {queue['consumers']})", USAGE)
        if "empty" in conditions and queue["messages"]:
            raise failure(f"{where} is not empty (messages: {queue['messages']})", USAGE)
        asked = {f"if-{key}": "true" for key in conditions}
        ctl.client.delete("queues", ctl.vhost, name, headers=None, **asked)
    except HttpError as error:
        raise _queue_error(ctl, name, error, USAGE) from None
    ctl.say(f"Queue was successfully deleted with {queue['messages_ready']} ready messages")


# Connections


@command("close_connection", "<connection pid> <explanation>",
         "Closes the connection that list_connections shows with this pid or name",
         OPERATIONS)  # fmt: skip
def close_connection(ctl: CommandRun) -> None:
    """Close one connection. An unknown pid is not an error: the connection has been closed."""
    wanted, reason = ctl.arguments
    ctl.banner(f"Closing connection {wanted}, reason: {reason}...")
    is_pid = wanted.startswith("<") and wanted.endswith(">")
    name = _named_by(ctl, wanted[1:-1]) if is_pid else wanted
    if not _close(ctl, name, reason) and not is_pid:
        raise failure(f"there is no connection '{wanted}': see list_connections")


def _named_by(ctl: CommandRun, pid: str) -> str:
    """Return the name of the connection that list_connections shows with this pid."""
    for node in ctl.client.get("nodes", columns="name"):
        pid = pid.removeprefix(f"{node['name']}.")
    return pid.replace("->", " -> ")


def _close(ctl: CommandRun, name: str, reason: str) -> bool:
    """Close a connection, and return whether it existed."""
    try:
        ctl.client.delete("connections", name, headers={"X-Reason": reason})
    except HttpError as error:
        if error.status != 404:
            raise
        return False
    return True


def _close_all(ctl: CommandRun, vhost: str | None, user: str | None, reason: str) -> int:
    limit = ctl.options.get("limit", 0)
    delay_ms = ctl.options.get("per_connection_delay", 0)
    if not delay_ms and ctl.client.is_local:
        body = {"reason": reason, "vhost": vhost, "user": user, "limit": limit}
        closed: int = ctl.client.post("node", "close-connections", body=body)["closed"]
        return closed
    found = [
        row
        for row in ctl.client.rows("connections", columns="name,vhost,user")
        if vhost in (None, row["vhost"]) and user in (None, row["user"])
    ][: limit or None]
    for connection in found:
        _close(ctl, connection["name"], reason)
        time.sleep(delay_ms / 1000)
    return len(found)


@command("close_all_connections", "[--vhost <vhost> --limit <limit>] [-n <node> --global] "
         "[--per-connection-delay <delay>] <explanation>",
         "Closes all connections to a virtual host, or to the node", OPERATIONS, "global",
         "limit=#", "per-connection-delay=#")  # fmt: skip
def close_all_connections(ctl: CommandRun) -> None:
    """Close the connections to a virtual host, or all."""
    reason, limit = ctl.argument(0), ctl.options.get("limit", 0)
    is_global = ctl.options.get("global")
    where = f"in vhost {ctl.vhost}"
    if is_global:
        where = f"to node {ctl.node} (across all vhosts)"
    ctl.banner(f"Closing {limit or 'all'} connections {where}, reason: {reason}...")
    text = f"Closed {_close_all(ctl, None if is_global else ctl.vhost, None, reason)} connections"
    ctl.value(text, text)


@command("close_all_user_connections", "<username> <explanation>",
         "Closes all connections of a user", OPERATIONS)  # fmt: skip
def close_all_user_connections(ctl: CommandRun) -> None:
    """Close the connections of a user."""
    user, reason = ctl.arguments
    ctl.banner(f"Closing connections of user {user}, reason: {reason}...")
    _close_all(ctl, None, user, reason)


# Listeners and the process


@command("suspend_listeners", "", "Stops accepting AMQP connections; open ones stay",
         OPERATIONS)  # fmt: skip
def suspend_listeners(ctl: CommandRun) -> None:
    """Stop accepting clients."""
    ctl.require_local()
    ctl.banner(
        f"Will suspend client connection listeners on node {ctl.node}. The node will no longer "
        "accept client connections!"
    )
    ctl.client.post("node", "suspend-listeners")


@command("resume_listeners", "", "Accepts AMQP connections again", OPERATIONS)
def resume_listeners(ctl: CommandRun) -> None:
    """Accept clients again."""
    ctl.require_local()
    ctl.banner(
        f"Will resume client connection listeners on node {ctl.node}. The node will now accept "
        "client connections"
    )
    ctl.client.post("node", "resume-listeners")


@command("drain", "", "Prepares the node for a stop: closes all connections and accepts no new "
         "ones, until revive", OPERATIONS)  # fmt: skip
def drain(ctl: CommandRun) -> None:
    """Close all connections and stop accepting clients."""
    ctl.require_local()
    ctl.banner(f"Will put node {ctl.node} into maintenance mode. The node will no longer serve "
               "any client traffic!")  # fmt: skip
    ctl.client.post("node", "drain")


@command("revive", "", "Ends the maintenance mode that drain began", OPERATIONS)
def revive(ctl: CommandRun) -> None:
    """Accept clients again."""
    ctl.require_local()
    ctl.banner(f"Will put node {ctl.node} back into regular operating mode. "
               "The node will again serve client traffic and host primary queue replicas."
               )  # fmt: skip
    ctl.client.post("node", "revive")


@command("force_gc", "", "Runs the garbage collector of the node", OPERATIONS)
def force_gc(ctl: CommandRun) -> None:
    """Run the garbage collector."""
    ctl.require_local()
    ctl.banner(f"Will ask all processes on node {ctl.node} to schedule a full sweep GC")
    ctl.client.post("node", "collect-garbage")
