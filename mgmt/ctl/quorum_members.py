"""Commands for the members of quorum queues, which rabbitmq-queues has."""

from typing import Any

from leveret.mgmt.ctl.client import HttpError
from leveret.mgmt.ctl.command import CommandRun, command
from leveret.mgmt.ctl.errors import UsageError, failure

QUEUES = "Queues"
MEMBERSHIPS = ("promotable", "voter", "non_voter")
CHANGED_COLUMNS = ("vhost", "name", "size", "result")
LAST = "last_node"


@command("add_member", "[--vhost <vhost>] <queue> <node> [--membership <promotable|voter|"
         "non_voter>]", "Adds a member of a quorum queue on a node", QUEUES, "membership=",
         counts=(2, 2))  # fmt: skip
def add_member(ctl: CommandRun) -> None:
    """Add a member, and wait until the queue has it. It catches up while the queue is in use."""
    queue, node = ctl.arguments
    body = {"node": node, "membership": _membership(ctl)}
    ctl.banner(f"Adding a replica for queue {queue} on node {node}...")
    try:
        ctl.client.post("queues", "quorum", ctl.vhost, queue, "replicas", "add", body=body)
    except HttpError as error:
        raise _failure(error) from None


@command("delete_member", "[--vhost <vhost>] <queue> <node>",
         "Removes the member of a quorum queue on a node", QUEUES)  # fmt: skip
def delete_member(ctl: CommandRun) -> None:
    """Remove a member, and wait until the queue is without it."""
    queue, node = ctl.arguments
    ctl.banner(f"Removing a replica of queue {queue} on node {node}...")
    path = ("queues", "quorum", ctl.vhost, queue, "replicas", "delete")
    try:
        ctl.client.delete(*path, body={"node": node})
    except HttpError as error:
        raise _failure(error) from None


@command("grow", "<node> <all | even> [--vhost-pattern <pattern>] [--queue-pattern <pattern>] "
         "[--membership <promotable|voter|non_voter>] [--errors-only]", "Adds a member of all "
         "quorum queues on a node, or of those with an even number of members", QUEUES,
         "vhost-pattern=", "queue-pattern=", "membership=", "errors-only",
         counts=(2, 2))  # fmt: skip
def grow(ctl: CommandRun) -> None:
    """Add members, and show how many each queue has."""
    node, strategy = ctl.arguments
    if strategy not in ("all", "even"):
        raise UsageError(f"strategy '{strategy}' is not recognised.")
    body = {"node": node, "strategy": strategy, "membership": _membership(ctl)}
    for name in ("vhost_pattern", "queue_pattern"):
        if name in ctl.options:
            body[name] = ctl.options[name]
    ctl.banner(f"Growing {strategy} quorum queues on {node}...")
    _change(ctl, "grow-quorum-queues", body)


@command("shrink", "<node> [--errors-only]", "Removes the members of all quorum queues from a node",
         QUEUES, "errors-only")  # fmt: skip
def shrink(ctl: CommandRun) -> None:
    """Remove members, and show how many each queue has left. Last members stay."""
    node = ctl.argument(0)
    ctl.banner(f"Shrinking quorum queues on {node}...")
    _change(ctl, "shrink-quorum-queues", {"node": node})


@command("force_shrink_member_to_current_member", "[--vhost <vhost>] [<queue>] [--all]",
         "Recovers a quorum queue without a leader, or all of them, from the member on this node "
         "alone: messages that only other members have are lost", QUEUES, "all",
         counts=(0, 1))  # fmt: skip
def force_shrink_member(ctl: CommandRun) -> None:
    """Give up all members but that of the node."""
    if bool(ctl.arguments) is bool(ctl.options.get("all")):
        raise UsageError("either a queue or --all has to be given.")
    if ctl.options.get("all"):
        _recover_all(ctl)
        return
    queue = ctl.argument(0)
    ctl.banner(f"Recovering queue {queue} from its member on node {ctl.node} alone...")
    (done,) = _recovered(ctl, {"vhost": ctl.vhost, "name": queue})
    if done["error"]:
        raise failure(done["error"])


@command("force_all_queues_shrink_member_to_current_member", "",
         "The same as force_shrink_member_to_current_member --all", QUEUES)  # fmt: skip
def force_all_queues_shrink_member(ctl: CommandRun) -> None:
    """Recover all queues that have no leader."""
    _recover_all(ctl)


def _recover_all(ctl: CommandRun) -> None:
    ctl.banner(
        f"Recovering all quorum queues without a leader from their members on node {ctl.node} "
        "alone..."
    )
    done = _recovered(ctl, {"all": True})
    rows = [(one["vhost"], one["name"], _result(one["error"])) for one in done]
    ctl.rows(rows, ("vhost", "name", "result"))
    if any(one["error"] for one in done):
        raise failure("not all queues were recovered")


def _recovered(ctl: CommandRun, body: dict[str, Any]) -> list[dict[str, Any]]:
    ctl.require_local()
    ctl.take_time()
    try:
        done: list[dict[str, Any]] = ctl.client.post(
            "node", "force-shrink-quorum-queues", body=body
        )
    except HttpError as error:
        raise failure(error.reason) from None
    return done


def _change(ctl: CommandRun, act: str, body: dict[str, Any]) -> None:
    ctl.require_local()
    ctl.take_time()
    try:
        changed = ctl.client.post("node", act, body=body)
    except HttpError as error:
        raise failure(error.reason) from None
    shown = [one for one in changed if one["error"] or not ctl.options.get("errors_only")]
    rows = [(one["vhost"], one["name"], one["size"], _result(one["error"])) for one in shown]
    ctl.rows(rows, CHANGED_COLUMNS)


def _membership(ctl: CommandRun) -> str:
    membership = str(ctl.options.get("membership", "promotable"))
    if membership not in MEMBERSHIPS:
        raise UsageError(f"voter status '{membership}' is not recognised.")
    return membership


def _result(error: str) -> str:
    if not error:
        return "ok"
    return "error: the last node cannot be removed" if error == LAST else f"error: {error}"


def _failure(error: HttpError) -> Exception:
    return failure("not_found" if error.status == 404 else error.reason)
