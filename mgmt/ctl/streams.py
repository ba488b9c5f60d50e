"""Commands for the replicas of streams, which rabbitmq-streams has."""

from collections.abc import Callable
from typing import Any

from leveret.mgmt.ctl.client import HttpError
from leveret.mgmt.ctl.command import CommandRun, command
from leveret.mgmt.ctl.errors import failure
from leveret.mgmt.ctl.quorum_queues import NOT_FOUND, remarks

QUEUES = "Queues"
STREAM = "stream"
_COLUMNS = {
    "node": "node", "epoch": "term", "offset": "offset", "committed_offset": "committed_offset",
    "first_offset": "first_offset", "readers": "readers", "segments": "segments",
}  # fmt: skip
"""The columns of `stream_status` after the role, and the fields of the API that they show."""


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


@command("restart_stream", "[--vhost <vhost>] <stream> [--preferred-leader-node <node>]",
         "Has another replica of a stream lead it", QUEUES,
         "preferred-leader-node=")  # fmt: skip
def restart_stream(ctl: CommandRun) -> None:
    """Have the wanted node lead the stream, or the next replica that can, and print its name.

    Replicas do not have to be started again: this is what operators want of RabbitMQ's command.
    """
    name = ctl.argument(0)
    ctl.banner(f"Restarting stream {name}...")
    raft = _stream(ctl, name, "Cannot restart a {} queue")["raft"]
    nodes = [one["node"] for one in raft["members"]]
    leads = nodes.index(raft["leader"]) if raft["leader"] in nodes else -1
    others = [
        node
        for node in nodes[leads + 1 :] + nodes[: leads + 1]
        if node != raft["leader"] and _state(raft, node) == "follower"
    ]
    wanted = ctl.options.get("preferred_leader_node") or next(iter(others), raft["leader"])
    if wanted is None:
        raise failure(raft["reason"])
    if wanted != raft["leader"]:
        body = {"action": "transfer_leader", "node": wanted}
        try:
            ctl.client.post("queues", ctl.vhost, name, "actions", body=body)
        except HttpError as error:
            raise failure(error.reason) from None
    ctl.value(wanted, wanted)


def _state(raft: dict[str, Any], node: str) -> str:
    return str(next(one["state"] for one in raft["members"] if one["node"] == node))


@command("stream_status", "[--vhost <vhost>] [--tracking] <stream>",
         "Shows the replicas of a stream, or what it stores for its clients", QUEUES,
         "tracking")  # fmt: skip
def stream_status(ctl: CommandRun) -> None:
    """Show the replicas, then those that lag, and why there is no leader."""
    name = ctl.argument(0)
    ctl.banner(f"Status of stream {name} on node {ctl.node} ...")
    raft = _stream(ctl, name, "Cannot get stream status of a {} queue")["raft"]
    if ctl.options.get("tracking"):
        rows = tracked(ctl, name)
        ctl.rows(rows, ("type", "reference", "value"), default="pretty_table")
        return
    shown = []
    for member in sorted(raft["members"], key=lambda one: str(one["node"])):
        role = "writer" if member["node"] == raft["leader"] else "replica"
        values = [member[field] for field in _COLUMNS.values()]
        shown.append((role, *["" if value is None else value for value in values]))
    ctl.rows(shown, ("role", *_COLUMNS), default="pretty_table")
    if ctl.formatter in ("", "pretty_table"):
        for line in remarks(raft):
            ctl.say(line)


def tracked(ctl: CommandRun, name: str) -> list[tuple[str, str, int]]:
    """The kind, the name and the number of all that a stream stores. Raises CtlError."""
    try:
        found = ctl.client.get("stream", ctl.vhost, name, "tracking")
    except HttpError as error:
        raise failure(error.reason) from None
    kinds = (("sequence", found["writers"]), ("offset", found["offsets"]))
    return [(kind, *one) for kind, numbers in kinds for one in sorted(numbers.items())]


def _stream(ctl: CommandRun, name: str, of_another_type: str) -> dict[str, Any]:
    """A stream. Raises CtlError; {} in the text is the type of another queue."""
    try:
        queue: dict[str, Any] = ctl.client.get("queues", ctl.vhost, name, columns="type,raft")
    except HttpError as error:
        raise failure(NOT_FOUND) if error.status == 404 else error from None
    if queue["type"] != STREAM:
        raise failure(of_another_type.format(queue["type"]))
    return queue
