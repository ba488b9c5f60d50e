"""`log_tail` and `log_tail_stream`: the node's log from its file, or from the node's memory.

A node that has no log file keeps its last lines. A file is read by this process, which runs on the
node's machine as its user; when it is rotated, the new one is opened.
"""

import os
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leveret.mgmt.ctl.command import FOR_EVER_SECONDS, NODE, CommandRun, command
from leveret.mgmt.ctl.errors import CtlError, failure
from leveret.mgmt.ctl.status import OBSERVE, node_status

POLL_SECONDS = 0.1
LINES = 50


def _log_file(ctl: CommandRun) -> Path | None:
    """Return the log file; None if there is none."""
    files = [name for name in node_status(ctl)["log_files"] if Path(name).is_absolute()]
    return Path(files[0]) if files else None


@command("log_tail", "[--number|-N <number>]", "Prints the last lines of the node's log", OBSERVE,
         "number|N=#", needs=NODE)  # fmt: skip
def log_tail(ctl: CommandRun) -> None:
    """Print the last lines of the log."""
    number = max(0, ctl.options.get("number", LINES))
    ctl.banner(f"Last {number} log lines on node {ctl.node} ...")
    path = _log_file(ctl)
    if path is None:
        for line in ctl.client.get("node", "log", count=str(number))["lines"]:
            ctl.out(line)
        return
    with _open(path) as file:
        for line in deque(file, maxlen=number):
            ctl.out(line.rstrip("\n"))


@command("log_tail_stream", "[--duration|-d <seconds>]", "Prints new lines of the node's log, "
         "continuously", OBSERVE, "duration|d=#", needs=NODE)  # fmt: skip
def log_tail_stream(ctl: CommandRun) -> None:
    """Print new lines of the log until interrupted."""
    duration = ctl.options.get("duration")
    shown = "indefinitely" if duration is None else f"for {duration} seconds"
    ctl.banner(f"Streaming logs from node {ctl.node} {shown} ...")
    ctl.connection.wait_longer(FOR_EVER_SECONDS)
    ends_at = None if duration is None else time.monotonic() + duration
    path = _log_file(ctl)
    for lines in _from_node(ctl) if path is None else _from_file(path):
        for line in lines:
            ctl.out(line)
        sys.stdout.flush()
        if ends_at is not None and time.monotonic() >= ends_at:
            return
        if not lines:
            time.sleep(POLL_SECONDS)


def _from_node(ctl: CommandRun) -> Iterator[list[str]]:
    """Yield the new lines that the node keeps in memory, over and over."""
    number = ctl.client.get("node", "log", count="0")["last_number"]
    while True:
        found = ctl.client.get("node", "log", after=str(number))
        number = found["last_number"]
        yield found["lines"]


def _from_file(path: Path) -> Iterator[list[str]]:
    """Yield the new lines of a file, over and over; of the file that takes its place, too."""
    file = _open(path)
    file.seek(0, os.SEEK_END)
    try:
        while True:
            lines = list(iter(file.readline, ""))
            if not lines and _is_replaced(path, file):
                file.close()
                file = _open(path)
                continue
            yield [line.rstrip("\n") for line in lines]
    finally:
        file.close()


def _open(path: Path) -> Any:
    try:
        return path.open(errors="replace")
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> CtlError:
    return failure(f"the log {path} cannot be read: {error.strerror}")


def _is_replaced(path: Path, file: Any) -> bool:
    """Tell whether the path names another file than the open one."""
    try:
        return not os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        # It was renamed, and the new one is not there yet.
        return False
