"""Shows again and again what a migration has left where: at a terminal in one place.

Elsewhere, as in a log, each table follows the one before it.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from leveret.mgmt.ctl.command import CommandRun
from leveret.mgmt.ctl.migrating.migration import Look
from leveret.mgmt.ctl.migrating.table import COLUMNS, NUMBERS, rows, summary

Show = Callable[[Look, bool], None]
"""Shows a look. The second argument: whether the migration is being rolled back."""
OTHER_LINES = 5
"""Lines of the terminal without queues: the column names, the line below them, the summary."""


@contextmanager
def progress(ctl: CommandRun) -> Iterator[Show]:
    """The way in which a command shows looks."""
    if ctl.formatter or ctl.options.get("wait") is False or not sys.stdout.isatty():
        yield lambda look, is_returning: _print(ctl, look, is_returning)
        return
    console = Console()
    with Live(console=console, auto_refresh=False) as live:
        yield lambda look, is_returning: live.update(
            shown(look, is_returning, console.size.height - OTHER_LINES), refresh=True
        )


def _print(ctl: CommandRun, look: Look, is_returning: bool) -> None:
    ctl.rows(rows(look, is_all=False), COLUMNS)
    ctl.out(summary(look, is_returning=is_returning))
    # Also a reader of a pipe sees it now.
    sys.stdout.flush()


def shown(look: Look, is_returning: bool, rows_max: int) -> Group:
    """A table of as many queues as there is room for, and the summary."""
    table = Table(show_edge=False, pad_edge=False)
    for name in COLUMNS:
        title = name.replace("_", " ")
        table.add_column(title, justify="right" if name in NUMBERS else "left", overflow="fold")
    for row in rows(look, is_all=False)[: max(1, rows_max)]:
        table.add_row(*(Text("" if value is None else str(value)) for value in row))
    return Group(table, Text(summary(look, is_returning=is_returning)))
