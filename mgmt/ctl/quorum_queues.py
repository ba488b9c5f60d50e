"""Commands for quorum queues: their members, their leaders, a message at a place."""

from typing import Any

from leveret.broker.runtime.names import DELAYING_PREFIX
from leveret.mgmt.ctl.client import HttpError
from leveret.mgmt.ctl.command import CommandRun, command
from leveret.mgmt.ctl.errors import UNAVAILABLE, CtlError, bad_argument, failure, no_such
from leveret.mgmt.ctl.status import node_status

QUEUES = "Queues"
QUORUM = "quorum"
_COLUMNS = {
    "Node Name": "node", "Raft State": "state", "Log Index": "log_index",
    "Commit Index": "commit_index", "Snapshot Index": "snapshot_index", "Term": "term",
    "Machine Version": "machine_version",
}  # fmt: skip
"""The columns of `quorum_status`, and the fields of the API that they show."""
_COLUMNS_SINCE_4 = {
    "Node Name": "node", "Raft State": "state", "Membership": "membership",
    "Last Log Index": "log_index", "Last Written": "last_written", "Last Applied": "last_applied",
    "Commit Index": "commit_index", "Snapshot Index": "snapshot_index", "Term": "term",
    "Machine Version": "machine_version",
}  # fmt: skip
NOT_FOUND = "not_found"


@command("quorum_status", "<queue>", "Shows the members of a quorum queue", QUEUES)
def quorum_status(ctl: CommandRun) -> None:
    """Show the members, then those that lag, and why there is no leader."""
    name = ctl.argument(0)
    ctl.banner(f"Status of quorum queue {name} on node {ctl.node} ...")
    raft = _members_of(ctl, name)
    columns = _COLUMNS
    if node_status(ctl)["rabbitmq_version"].startswith("4"):
        columns = _COLUMNS_SINCE_4
    rows = [
        tuple("" if member[field] is None else member[field] for field in columns.values())
        for member in raft["members"]
    ]
    ctl.rows(rows, tuple(columns), default="pretty_table")
    if ctl.formatter in ("", "pretty_table"):
        for line in remarks(raft):
            ctl.say(line)


def remarks(raft: dict[str, Any]) -> list[str]:
    """Remarks on the members that RabbitMQ's table does not have."""
    lines = []
    if raft["leader"] is None:
        lines.append(f"There is no leader: {raft['reason']}")
    for member in raft["members"]:
        lag, node = member["lag"], member["node"]
        if lag is not None and (lag["entries"] or lag["snapshot"]):
            how = ", and receives a snapshot" if lag["snapshot"] else ""
            lines.append(
                f"{node} lacks {lag['messages']} messages ({lag['bytes']} bytes) in "
                f"{lag['entries']} entries{how}"
            )
        elif lag is None and raft["leader"] not in {None, node}:
            lines.append(f"{node}: its lag is unknown until it answers the leader")
        if member["reason"] and member["reason"] != raft["reason"]:
            lines.append(f"{node}: {member['reason']}")
    return lines


def _quorum_queue(ctl: CommandRun, name: str, of_another_type: str) -> dict[str, Any]:
    """A quorum queue. Raises CtlError for another one."""
    queue = _found(ctl, "queues", name)
    if queue["type"] != QUORUM:
        raise failure(of_another_type)
    return queue


def _members_of(ctl: CommandRun, name: str) -> dict[str, Any]:
    """The members of a quorum queue; those of a delayed message exchange are shown with it."""
    if name.startswith(DELAYING_PREFIX):
        queue = _found(ctl, "exchanges", name.removeprefix(DELAYING_PREFIX))
    else:
        queue = _quorum_queue(ctl, name, "Cannot get quorum status of a classic queue")
    if "raft" not in queue:
        raise failure(NOT_FOUND)
    members: dict[str, Any] = queue["raft"]
    return members


def _found(ctl: CommandRun, kind: str, name: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = ctl.client.get(kind, ctl.vhost, name, columns="type,raft")
    except HttpError as error:
        raise failure(NOT_FOUND) if error.status == 404 else error from None
    return found


@command("transfer_leader", "[--vhost <vhost>] <queue> <node>", "Moves the leader of a "
         "replicated queue to a node, and waits until it leads", QUEUES)  # fmt: skip
def transfer_leader(ctl: CommandRun) -> None:
    """Move one leader. Clients notice a pause of some milliseconds."""
    name, node = ctl.arguments
    ctl.banner(f"Transferring the leader of queue '{name}' in vhost '{ctl.vhost}' to {node} ...")
    body = {"action": "transfer_leader", "node": node}
    try:
        ctl.client.post("queues", ctl.vhost, name, "actions", body=body)
    except HttpError as error:
        raise _queue_error(ctl, name, error) from None


def _queue_error(ctl: CommandRun, name: str, error: HttpError) -> CtlError:
    return no_such("Queue", name, ctl.vhost, UNAVAILABLE) if error.status == 404 else error


@command("peek", "[--vhost <vhost>] <queue> <position>", "Shows the message at a position of a "
         "quorum queue without removing it", QUEUES)  # fmt: skip
def peek(ctl: CommandRun) -> None:
    """Show the message at a position, from 1, in the order of delivery."""
    name, position = ctl.arguments
    if not position.isdigit() or not int(position):
        raise bad_argument("position value must be a positive integer")
    ctl.banner(f"Peeking at quorum queue {name} at position {position}...")
    try:
        shown = ctl.client.get("queues", ctl.vhost, name, "peek", position)
    except HttpError as error:
        raise _peek_error(ctl, error) from None
    ctl.rows([tuple(shown.values())], tuple(shown), default="pretty_table")


def _peek_error(ctl: CommandRun, error: HttpError) -> CtlError:
    texts = {
        "not_found": f"Target queue was not found in virtual host '{ctl.vhost}'",
        "no_message_at_pos": "Target queue does not have a message at that position",
        "classic_queue_not_supported": "Cannot peek into a classic queue",
    }
    text = texts.get(error.content.get("error", ""), texts["not_found"])
    return failure(text) if error.status in (400, 404) else error


@command("reclaim_quorum_memory", "[--vhost <vhost>] <quorum queue>", "Writes snapshots of a "
         "quorum queue on all its nodes, which frees space of their logs", QUEUES)  # fmt: skip
def reclaim_quorum_memory(ctl: CommandRun) -> None:
    """Free the space of entries that a snapshot of the queue replaces."""
    name = ctl.argument(0)
    ctl.banner(f"Will flush Raft WAL of quorum queue {name} ...")
    _quorum_queue(ctl, name, "This operation is not applicable to classic queues")
    ctl.client.post("queues", ctl.vhost, name, "reclaim")
