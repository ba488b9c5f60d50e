"""Commands for mirrored queues: synchronising their mirrors, and moving their leaders."""

import sys
import time
from typing import Any

from leveret.mgmt.ctl.client import HttpError
from leveret.mgmt.ctl.command import CommandRun, command
from leveret.mgmt.ctl.errors import UNAVAILABLE, failure, no_such

QUEUES = "Queues"
SYNCING = "syncing"
POLL_SECONDS = 0.2
BAR_WIDTH = 30
KINDS = ("all", "classic", "quorum", "stream")
LEADER_COLUMNS = (
    "Node name", "Number of quorum queues", "Number of replicated classic queues"
)  # fmt: skip


@command("sync_queue", "[--vhost <vhost>] <queue>", "Sends the mirrors of a queue the messages "
         "that they lack, and waits until they have them", QUEUES)  # fmt: skip
def sync_queue(ctl: CommandRun) -> None:
    """Synchronise a queue, and show the progress. The queue stays available meanwhile."""
    name = ctl.argument(0)
    ctl.banner(f"Synchronising queue '{name}' in vhost '{ctl.vhost}' ...")
    ctl.take_time()
    _mirrored(ctl, name)
    ctl.client.post("queues", ctl.vhost, name, "actions", body={"action": "sync"})
    shows = sys.stderr.isatty() and not ctl.is_quiet
    while (queue := _mirrored(ctl, name))["state"] == SYNCING:
        if shows:
            sys.stderr.write(f"\r{progress_line(queue['mirroring'])}")
            sys.stderr.flush()
        time.sleep(POLL_SECONDS)
    if shows:
        sys.stderr.write("\r\033[K")


@command("cancel_sync_queue", "[--vhost <vhost>] <queue>", "Stops sending the mirrors of a "
         "queue the messages that they lack", QUEUES)  # fmt: skip
def cancel_sync_queue(ctl: CommandRun) -> None:
    """Stop sending missing messages to the mirrors of a queue."""
    name = ctl.argument(0)
    ctl.banner(f"Stopping synchronising queue '{name}' in vhost '{ctl.vhost}' ...")
    if _mirrored(ctl, name)["state"] != SYNCING:
        ctl.say("not_syncing")
        return
    ctl.client.post("queues", ctl.vhost, name, "actions", body={"action": "cancel_sync"})


def _mirrored(ctl: CommandRun, name: str) -> dict[str, Any]:
    """The state and the mirrors of a queue. Raises CtlError unless it is mirrored and led."""
    try:
        queue: dict[str, Any] = ctl.client.get("queues", ctl.vhost, name, columns="state,mirroring")
    except HttpError as error:
        raise no_such("Queue", name, ctl.vhost) if error.status == 404 else error from None
    where = f"queue '{name}' in vhost '{ctl.vhost}'"
    if "mirroring" not in queue:
        raise failure(
            f"{where} is not mirrored: see 'leveretctl set_policy' for policies with ha-mode",
            UNAVAILABLE,
        )
    if queue["state"] == "down":
        awaited, leader = queue["mirroring"]["awaited"], queue["mirroring"]["leader"]
        reason = f"it waits for node {awaited}" if awaited else f"node {leader} does not answer"
        raise failure(f"{where} is down: {reason}", UNAVAILABLE)
    return queue


def progress_line(mirroring: dict[str, Any]) -> str:
    """The progress of the mirrors that are being synchronised, as a bar."""
    running = [
        member["sync"]
        for member in mirroring["members"]
        if member["sync"] is not None and member["sync"]["running"]
    ]
    done = sum(one["messages"] for one in running)
    expected = max(1, done, sum(one["expected"] for one in running))
    filled = BAR_WIDTH * done // expected
    bar = "#" * filled + "." * (BAR_WIDTH - filled)
    mirrors = "1 mirror" if len(running) == 1 else f"{len(running)} mirrors"
    return f"[{bar}] {100 * done // expected}% of {expected} messages to {mirrors}"


@command("rebalance", "< all | classic | quorum | stream > [--vhost-pattern <pattern>] "
         "[--queue-pattern <pattern>]", "Spreads the leaders of mirrored queues evenly", QUEUES,
         "vhost-pattern=", "queue-pattern=", counts=(1, 1))  # fmt: skip
def rebalance(ctl: CommandRun) -> None:
    """Move leaders to synchronised mirrors, and show how many each node leads then."""
    kind = ctl.argument(0)
    if kind not in KINDS:
        raise failure(f"type {kind} is not supported. Try one of {', '.join(KINDS)}.")
    ctl.banner(f"Re-balancing leaders of {kind} queues...")
    ctl.require_local()
    ctl.take_time()
    chosen = {
        name: ctl.options[name] for name in ("vhost_pattern", "queue_pattern")
        if name in ctl.options
    }  # fmt: skip
    led = ctl.client.post("node", "rebalance-queues", body={"type": kind, **chosen})
    rows = [(one["node"], one["quorum"], one["classic"]) for one in led]
    if rows or ctl.formatter == "json":
        ctl.rows(rows, LEADER_COLUMNS, empty_line=True, default="pretty_table")
    else:
        # As rabbitmq-queues does.
        ctl.rows([("[]",)], ("Output",), default="pretty_table")
