"""Controls the node's process and its broker: stop, start, and wait."""

import time
from pathlib import Path
from typing import Any

from leveret.mgmt.ctl.command import NODE, STOPPED, CommandRun, command
from leveret.mgmt.ctl.errors import (
    SOFTWARE,
    TIMED_OUT,
    UNAVAILABLE,
    CtlError,
    UsageError,
    bad_argument,
    failure,
)
from leveret.mgmt.ctl.status import MIRROR_SYNC_CRITICAL, QUORUM_CRITICAL

NODES, CLUSTER = "Nodes", "Cluster"
STOP_SECONDS, START_SECONDS, WAIT_SECONDS = 120, 300, 10
QUEUES_SECONDS = 120
POLL_SECONDS = 0.05
ANSWER_SECONDS = 10
"""A node that is starting may not answer at once."""


@command("stop", "[--idempotent] [<pidfile>]", "Stops the node and ends its process", NODES,
         "idempotent", needs=NODE)  # fmt: skip
def stop(ctl: CommandRun) -> None:
    """Stop the process, and wait until it has ended."""
    ctl.require_local()
    try:
        node = ctl.node
    except CtlError as error:
        if error.code != UNAVAILABLE or not ctl.options.get("idempotent"):
            raise
        ctl.say("The node is no longer running")
        return
    monitored = f" (will monitor pid file {ctl.argument(0)})" if ctl.arguments else ""
    ctl.banner(f"Stopping and halting node {node}{monitored} ...")
    pid = process_id(ctl)
    ctl.client.post("node", "stop")
    _wait_for_end(ctl, pid)


def process_id(ctl: CommandRun) -> int:
    """Return the process id of the node."""
    return int(ctl.client.get("node", "status")["pid"])


def _wait_for_end(ctl: CommandRun, pid: int) -> None:
    seconds = ctl.options.get("timeout", STOP_SECONDS)
    deadline = time.monotonic() + seconds
    while _is_alive(pid):
        if time.monotonic() > deadline:
            raise failure(f"process {pid} has not ended within {seconds} seconds", TIMED_OUT)
        time.sleep(POLL_SECONDS)


def _is_alive(pid: int) -> bool:
    """Tell whether a process is running; a zombie is not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@command("shutdown", "[--wait]", "Stops the node, and waits until its process has ended", NODES,
         "wait", needs=NODE)  # fmt: skip
def shutdown(ctl: CommandRun) -> None:
    """Stop the process."""
    ctl.require_local()
    pid = process_id(ctl)
    ctl.end_dry_run()
    if ctl.options.get("wait", True):
        ctl.say(f"Shutting down RabbitMQ node {ctl.node} running at PID {pid}")
        ctl.client.post("node", "stop")
        ctl.say(f"Waiting for PID {pid} to terminate")
        _wait_for_end(ctl, pid)
        ctl.say(f"RabbitMQ node {ctl.node} running at PID {pid} successfully shut down")
    else:
        ctl.client.post("node", "stop")


@command("stop_app", "", "Stops the broker and leaves the process running", NODES, needs=NODE)
def stop_app(ctl: CommandRun) -> None:
    """Stop the broker."""
    ctl.require_local()
    ctl.banner(f"Stopping rabbit application on node {ctl.node} ...")
    ctl.take_time()
    ctl.client.post("node", "stop-app")


@command("start_app", "", "Starts the broker", NODES, needs=NODE)
def start_app(ctl: CommandRun) -> None:
    """Start the broker."""
    ctl.require_local()
    ctl.banner(f"Starting node {ctl.node} ...")
    ctl.take_time()
    ctl.client.post("node", "start-app")


@command("reset", "", "Removes all definitions and messages of a stopped broker, and the node from "
         "its cluster", NODES, needs=STOPPED)  # fmt: skip
def reset(ctl: CommandRun) -> None:
    """Delete all data."""
    ctl.require_local()
    ctl.banner(f"Resetting node {ctl.node} ...")
    ctl.take_time()
    ctl.client.post("node", "leave-cluster")
    ctl.client.post("node", "reset")


@command("force_reset", "", "Removes all definitions and messages of a stopped broker", CLUSTER,
         needs=STOPPED)  # fmt: skip
def force_reset(ctl: CommandRun) -> None:
    """Delete all data."""
    ctl.require_local()
    ctl.banner(f"Forcefully resetting node {ctl.node} ...")
    ctl.client.post("node", "reset")


# Waiting


def _is_running(ctl: CommandRun) -> bool:
    """Tell whether the broker is running. Raises CtlError if there is no node."""
    found: dict[str, Any] = ctl.connection.get("node", "ping")
    return bool(found["is_running"])


def _running_nodes(ctl: CommandRun) -> int:
    """Count the nodes that run in the cluster."""
    found: dict[str, Any] = ctl.connection.get("node", "cluster-status")
    return len(found["running_nodes"])


@command("await_startup", "", "Waits until the node's broker is running", NODES, needs=NODE)
def await_startup(ctl: CommandRun) -> None:
    """Wait until the broker is running. Fails if there is no node: see `wait`."""
    ctl.require_local()
    seconds = ctl.options.get("timeout", START_SECONDS)
    deadline = time.monotonic() + seconds
    ctl.connection.wait_longer(seconds + ANSWER_SECONDS)
    while not _is_running(ctl):
        if time.monotonic() > deadline:
            raise failure(
                f"the broker of node {ctl.node} is not running after {seconds} seconds: see its "
                "log, or start it with 'leveretctl start_app'"
            )
        time.sleep(POLL_SECONDS)


@command("await_online_nodes", "<count>", "Waits until this many nodes of the cluster run",
         CLUSTER, needs=NODE)  # fmt: skip
def await_online_nodes(ctl: CommandRun) -> None:
    """Wait until the broker and this number of nodes in all are running."""
    text = ctl.argument(0)
    if not text.isdigit() or not int(text):
        raise bad_argument("Argument must be a positive integer")
    seconds = ctl.options.get("timeout", START_SECONDS)
    ctl.banner(
        f"Will wait for at least {text} nodes to join the cluster of {ctl.node}. Timeout: "
        f"{seconds} seconds."
    )
    ctl.connection.wait_longer(seconds + ANSWER_SECONDS)
    deadline = time.monotonic() + seconds
    while not _is_running(ctl) or _running_nodes(ctl) < int(text):
        if time.monotonic() > deadline:
            raise failure(
                f"Error: timed out while waiting. Not enough nodes joined {ctl.node}'s cluster.",
                SOFTWARE,
            )
        time.sleep(POLL_SECONDS)


@command("await_online_quorum_plus_one", "", "Waits until every quorum queue of the node has more "
         "members than the quorum", CLUSTER)  # fmt: skip
def await_online_quorum_plus_one(ctl: CommandRun) -> None:
    """Wait until the node may be stopped without making a quorum queue unavailable."""
    ctl.banner("Will wait for a quorum + 1 of nodes to be online for all quorum queues ...")
    _await_no_queue(ctl, QUORUM_CRITICAL, "would lose its quorum without the node")


@command("await_online_synchronized_mirror", "", "Waits until every mirrored queue of the node "
         "has a synchronised mirror that runs", CLUSTER)  # fmt: skip
def await_online_synchronized_mirror(ctl: CommandRun) -> None:
    """Wait until the node may be stopped without making a mirrored queue lose messages."""
    ctl.banner("Will wait for a synchronised mirror be online for all classic mirrored queues ...")
    _await_no_queue(ctl, MIRROR_SYNC_CRITICAL, "has no synchronised mirror on a running node")


def _await_no_queue(ctl: CommandRun, check: str, why: str) -> None:
    """Wait until no queue needs the node, as a health check says. why: what is wrong with one."""
    seconds = ctl.options.get("timeout", QUEUES_SECONDS)
    ctl.connection.wait_longer(seconds + ANSWER_SECONDS)
    deadline = time.monotonic() + seconds
    while queues := ctl.client.get("health", "checks", check).get("queues", ()):
        if time.monotonic() > deadline:
            queue = queues[0]["readable_name"]
            raise CtlError(f"Error: timed out while waiting. {queue} {why}", SOFTWARE)
        time.sleep(POLL_SECONDS)


@command("post_upgrade", "", "Runs the tasks that follow an upgrade; there are none", CLUSTER)
def post_upgrade(ctl: CommandRun) -> None:
    """Succeed: no task is needed after an upgrade."""
    ctl.banner("Executing post upgrade checks...")


@command("wait", "[<pidfile>] [--pid|-P <pid>]", "Waits until the broker of a process is running",
         NODES, "pid|P=#", needs=NODE)  # fmt: skip
def wait(ctl: CommandRun) -> None:
    """Wait until the broker of a process is running, or the process has ended."""
    ctl.require_local()
    if ctl.arguments and "pid" in ctl.options:
        raise UsageError("give either a process id (--pid) or a pid file, not both")
    if not ctl.arguments and "pid" not in ctl.options:
        raise UsageError("give a process id (--pid) or a pid file")
    seconds = ctl.options.get("timeout", WAIT_SECONDS)
    ctl.connection.wait_longer(seconds)
    deadline = time.monotonic() + seconds
    pid = ctl.options.get("pid") or _read_pid(ctl, Path(ctl.argument(0)), deadline)
    if not ctl.is_quiet:
        ctl.print_line(f"Waiting for the node while OS process '{pid}' is running")
    _wait_while_alive(ctl, pid, deadline)
    ctl.say(f"Applications 'rabbit_and_plugins' are running on node '{ctl.node}'")


def _read_pid(ctl: CommandRun, path: Path, deadline: float) -> int:
    """Return the process id, waiting for the file."""
    if not ctl.is_quiet:
        ctl.print_line(f"Waiting for pid file '{path}' to appear")
    while True:
        text = path.read_text().strip() if path.is_file() else ""
        if text.isdigit():
            break
        if text:
            raise failure(f"could not read pid from file {path}. File contents: {text[:50]}")
        if time.monotonic() > deadline:
            raise ctl.connection.timed_out()
        time.sleep(POLL_SECONDS)
    if not ctl.is_quiet:
        ctl.print_line(f"pid is {text}")
    return int(text)


def _wait_while_alive(ctl: CommandRun, pid: int, deadline: float) -> None:
    while True:
        if not _is_alive(pid):
            raise failure(f"process {pid} is not running")
        try:
            if _is_running(ctl):
                return
        except CtlError as error:
            if error.code != UNAVAILABLE:
                raise
        if time.monotonic() > deadline:
            raise ctl.connection.timed_out()
        time.sleep(POLL_SECONDS)
