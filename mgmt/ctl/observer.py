"""`leveretctl observer`: a live view of a node in the terminal.

Keys: 1 overview, 2 queues, 3 connections, 4 memory, q (or Ctrl-C) quits. It queries the HTTP API
once a second, over the control socket or TCP, shows as many rows as fit the terminal, and keeps
trying when the node does not answer.
"""

import os
import select
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table

from leveret.mgmt.ctl.client import NodeClient
from leveret.mgmt.ctl.errors import CtlError

INTERVAL_SECONDS = 1.0
FRAME_LINES = 5
"""Lines of a page without data: two borders, the column names and the line below them."""
KEYS = "1 overview  2 queues  3 connections  4 memory  q quit"
RATES = ("publish", "confirm", "deliver_get", "ack", "redeliver", "return_unroutable")
QUIT = ("q", "Q", "\x03", "\x04")


def _table(*columns: str) -> Table:
    table = Table(expand=True, show_edge=False, pad_edge=False)
    for number, name in enumerate(columns):
        table.add_column(
            name, justify="right" if number else "left", no_wrap=True, overflow="ellipsis",
            ratio=None if number else 1,
        )  # fmt: skip
    return table


def _overview(client: NodeClient, _rows: int) -> Group:
    overview = client.get("overview")
    rates = _table("messages", "total", "a second")
    stats = overview["message_stats"]
    for name in RATES:
        rates.add_row(name, f"{stats[name]:,}", f"{stats[f'{name}_details']['rate']:,.1f}")
    totals = _table("totals", "")
    for name, value in {**overview["object_totals"], **overview["queue_totals"]}.items():
        if isinstance(value, int):
            totals.add_row(name, f"{value:,}")
    return Group(rates, "", totals)


def _queues(client: NodeClient, rows: int) -> Table:
    table = _table("queue", "vhost", "ready", "unacked", "in/s", "out/s", "cons", "oldest")
    found = client.get("queues", page="1", page_size=str(rows), sort="messages",
                       sort_reverse="true")  # fmt: skip
    for queue in found["items"]:
        stats = queue.get("message_stats", {})
        age = queue.get("oldest_ready_age_ms")
        table.add_row(
            queue["name"], queue["vhost"], _count(queue, "messages_ready"),
            _count(queue, "messages_unacknowledged"), _rate(stats, "publish"),
            _rate(stats, "deliver_get"), _count(queue, "consumers"),
            "" if age is None else f"{age / 1000:,.0f} s",
        )  # fmt: skip
    return table


def _count(queue: dict[str, Any], name: str) -> str:
    """Return a number; a queue whose node does not answer has none."""
    return f"{queue[name]:,}" if name in queue else "?"


def _rate(stats: dict[str, Any], name: str) -> str:
    return f"{stats.get(f'{name}_details', {}).get('rate', 0):,.1f}"


def _connections(client: NodeClient, rows: int) -> Table:
    table = _table("connection", "user", "vhost", "state", "chan", "in B/s", "out B/s")
    found = client.get("connections", page="1", page_size=str(rows))
    for one in found["items"]:
        table.add_row(
            one.get("user_provided_name") or one["name"], one["user"], one["vhost"], one["state"],
            str(one["channels"]), f"{one['recv_oct_details']['rate']:,.0f}",
            f"{one['send_oct_details']['rate']:,.0f}",
        )  # fmt: skip
    return table


def _memory(client: NodeClient, rows: int) -> Table:
    name = client.get("overview", columns="node")["node"]
    node = client.get("nodes", name)
    memory = client.get("nodes", name, "memory")["memory"]
    table = _table("memory", "MB")
    table.add_row("limit", f"{node['mem_limit'] / 1e6:,.1f}")
    table.add_row("total", f"{memory['total']['rss'] / 1e6:,.1f}")
    parts = [(name, size) for name, size in memory.items() if isinstance(size, int) and size]
    for part, size in sorted(parts, key=lambda part: -part[1])[: rows - 2]:
        table.add_row(part, f"{size / 1e6:,.1f}")
    return table


PAGES: dict[str, tuple[str, Callable[[NodeClient, int], RenderableType]]] = {
    "1": ("overview", _overview),
    "2": ("queues", _queues),
    "3": ("connections", _connections),
    "4": ("memory", _memory),
}


def frame(client: NodeClient, node: str, key: str, lines: int) -> Panel:
    """Render the current page. lines: height of the terminal."""
    name, page = PAGES[key]
    body: RenderableType
    try:
        body = page(client, max(3, lines - FRAME_LINES))
    except CtlError as error:
        body = f"{error.text}\n\nRetrying ..."
    return Panel(body, title=f"Leveret {node} - {name}", subtitle=KEYS, height=lines)


def observe(client: NodeClient, node: str, *, once: bool, interval_s: float) -> None:
    """Show the node until q is pressed; without a terminal, print the first pages once."""
    console = Console()
    if once or not sys.stdin.isatty() or not sys.stdout.isatty():
        for key in ("1", "2"):
            console.print(frame(client, node, key, 24))
        return
    key = "1"
    with _every_key_at_once(), Live(console=console, screen=True, auto_refresh=False) as live:
        try:
            while True:
                live.update(frame(client, node, key, console.size.height), refresh=True)
                pressed = _key(interval_s)
                if pressed in QUIT:
                    return
                key = pressed if pressed in PAGES else key
        except KeyboardInterrupt:
            return


@contextmanager
def _every_key_at_once() -> Iterator[None]:
    """Read keys without Enter, and restore the terminal at the end."""
    settings = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, settings)


def _key(seconds: float) -> str:
    """Return the last key pressed within a time; Ctrl-D if the terminal was closed."""
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    if not ready:
        return ""
    pressed = os.read(sys.stdin.fileno(), 64).decode(errors="replace")
    return next((one for one in pressed if one in QUIT), pressed[-1:] or "\x04")
