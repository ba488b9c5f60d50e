"""`leveretctl observer`: a live view of a node in the terminal.

Keys: 1 overview, 2 queues, 3 connections, 4 memory, q ends it. It asks the HTTP API once a second,
over the control socket or the network.
"""

import select
import sys
import termios
import time
import tty
from collections.abc import Callable
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table

from mgmt.ctl.client import Client

INTERVAL_SECONDS = 1.0
ROWS = 20
KEYS = "1 overview  2 queues  3 connections  4 memory  q quit"
PAGES = {"1": "overview", "2": "queues", "3": "connections", "4": "memory"}


def frame(client: Client, page: str) -> Panel:
    """One look at the node."""
    overview = client.get("overview")
    title = f"Leveret {overview['node']} - {overview['cluster_name']}"
    parts: dict[str, Callable[[Client, dict[str, Any]], Group | Table]] = {
        "overview": _overview, "queues": _queues, "connections": _connections, "memory": _memory
    }  # fmt: skip
    body = parts[page](client, overview)
    return Panel(
        body, title=title, subtitle="1 overview  2 queues  3 connections  4 memory  q quit"
    )


def _table(*columns: str) -> Table:
    table = Table(expand=True, show_edge=False, pad_edge=False)
    for number, name in enumerate(columns):
        table.add_column(name, justify="right" if number else "left", no_wrap=not number)
    return table


def _overview(_client: Client, overview: dict[str, Any]) -> Group:
    rates = _table("messages", "total", "a second")
    stats = overview["message_stats"]
    for name in ("publish", "confirm", "deliver_get", "ack", "redeliver", "return_unroutable"):
        rates.add_row(name, f"{stats[name]:,}", f"{stats[f'{name}_details']['rate']:,.1f}")
    totals = _table("totals", "")
    for name, value in {**overview["object_totals"], **overview["queue_totals"]}.items():
        if isinstance(value, int):
            totals.add_row(name, f"{value:,}")
    return Group(rates, "", totals)


def _queues(client: Client, _overview: dict[str, Any]) -> Table:
    table = _table("queue", "vhost", "ready", "unacked", "in/s", "out/s", "consumers", "oldest")
    found = client.get("queues", page="1", page_size=str(ROWS), sort="messages",
                       sort_reverse="true")  # fmt: skip
    for queue in found["items"]:
        stats = queue.get("message_stats", {})
        age = queue.get("oldest_ready_age_ms")
        table.add_row(
            queue["name"], queue["vhost"], f"{queue['messages_ready']:,}",
            f"{queue['messages_unacknowledged']:,}", _rate(stats, "publish"),
            _rate(stats, "deliver_get"), str(queue["consumers"]),
            "" if age is None else f"{age / 1000:,.1f} s",
        )  # fmt: skip
    return table


def _rate(stats: dict[str, Any], name: str) -> str:
    return f"{stats.get(f'{name}_details', {}).get('rate', 0):,.1f}"


def _connections(client: Client, _overview: dict[str, Any]) -> Table:
    table = _table("connection", "user", "vhost", "state", "channels", "in B/s", "out B/s")
    found = client.get("connections", page="1", page_size=str(ROWS))
    for one in found["items"]:
        table.add_row(
            one["name"], one["user"], one["vhost"], one["state"], str(one["channels"]),
            f"{one['recv_oct_details']['rate']:,.0f}", f"{one['send_oct_details']['rate']:,.0f}",
        )  # fmt: skip
    return table


def _memory(client: Client, _overview: dict[str, Any]) -> Table:
    node = client.get("nodes")[0]
    memory = client.get("nodes", node["name"], "memory")["memory"]
    table = _table("memory", "MB")
    table.add_row("limit", f"{node['mem_limit'] / 1e6:,.1f}")
    table.add_row("total", f"{memory['total']['rss'] / 1e6:,.1f}")
    parts = [(name, size) for name, size in memory.items() if isinstance(size, int) and size]
    for name, size in sorted(parts, key=lambda part: -part[1]):
        table.add_row(name, f"{size / 1e6:,.1f}")
    return table


def observe(client: Client, *, once: bool) -> None:
    """Show the node until q is pressed; or one frame, as text."""
    console = Console()
    if once or not sys.stdin.isatty():
        console.print(frame(client, "overview"))
        console.print(frame(client, "queues"))
        return
    settings = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    page = "overview"
    try:
        with Live(frame(client, page), console=console, screen=True, auto_refresh=False) as live:
            while True:
                key = _key(INTERVAL_SECONDS)
                if key == "q":
                    return
                page = PAGES.get(key, page)
                live.update(frame(client, page), refresh=True)
    except KeyboardInterrupt:
        return
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, settings)


def _key(seconds: float) -> str:
    deadline = time.monotonic() + seconds
    ready, _, _ = select.select([sys.stdin], [], [], max(0.0, deadline - time.monotonic()))
    return sys.stdin.read(1) if ready else ""
