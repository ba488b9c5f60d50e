"""Commands for the replicas of streams, which rabbitmq-streams has."""

from collections.abc import Callable
from typing import Any

from leveret.mgmt.ctl.client import HttpError
from leveret.mgmt.ctl.command import CommandRun, command
from leveret.mgmt.ctl.errors import failure
from leveret.mgmt.ctl.quorum_queues import NOT_FOUND, remarks

QUEUES = "Queues"
STREAM = "stream"
_COLUMNS = ("role", "node", "state", "log_index", "commit_index")


@command("add_replica", "[--vhost <vhost>] <stream> <node>",
         "Adds a replica of a stream on a node", QUEUES, counts=(2, 2))  # fmt: skip
def add_replica(ctl: CommandRun) -> None:
    """Add a replica, and wait until the stream has it. It catches up while the stream is in use."""
    stream, node = ctl.arguments
    ctl.banner(f"Adding a replica for queue {stream} on node {node}...")
    _change(ctl, ctl.client.post, stream, "add", node)


@command("delete_replica", "[--vhost <vhost>] <stream> <node>",
         "Removes the replica of a stream on a node", QUEUES, counts=(2, 2))  # fmt: skip
def delete_replica(ctl: CommandRun) -> None:
    """Remove a replica, and wait until the stream is without it."""
    stream, node = ctl.arguments
    ctl.banner(f"Removing a replica of queue {stream} on node {node}...")
    _change(ctl, ctl.client.delete, stream, "delete", node)


def _change(ctl: CommandRun, send: Callable[..., Any], stream: str, change: str, node: str) -> None:
    ctl.take_time()
    try:
        send("queues", "stream", ctl.vhost, stream, "replicas", change, body={"node": node})
    except HttpError as error:
        raise failure(NOT_FOUND if error.status == 404 else error.reason) from None


@command("stream_status", "[--vhost <vhost>] <stream>", "Shows the replicas of a stream", QUEUES)
def stream_status(ctl: CommandRun) -> None:
    """Show the replicas, then those that lag, and why there is no leader."""
    name = ctl.argument(0)
    ctl.banner(f"Status of stream {name} on node {ctl.node} ...")
    try:
        queue: dict[str, Any] = ctl.client.get("queues", ctl.vhost, name, columns="type,raft")
    except HttpError as error:
        raise failure(NOT_FOUND) if error.status == 404 else error from None
    if queue["type"] != STREAM:
        raise failure(f"Cannot get stream status of a {queue['type']} queue")
    raft = queue["raft"]
    rows = []
    for member in raft["members"]:
        role = "writer" if member["node"] == raft["leader"] else "replica"
        shown = [member[column] for column in _COLUMNS[1:]]
        rows.append((role, *["" if value is None else value for value in shown]))
    ctl.rows(rows, _COLUMNS, default="pretty_table")
    if ctl.formatter in ("", "pretty_table"):
        for line in remarks(raft):
            ctl.say(line)
