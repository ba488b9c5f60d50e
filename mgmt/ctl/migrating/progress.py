"""Looks again and again at what a migration has left where, and shows it.

At a terminal the table stays in its place. Elsewhere, as in a log, each follows the one before it.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from leveret.mgmt.ctl.client import HttpError
from leveret.mgmt.ctl.command import CommandRun
from leveret.mgmt.ctl.errors import TIMED_OUT, UNAVAILABLE, CtlError
from leveret.mgmt.ctl.migrating.look import Look
from leveret.mgmt.ctl.migrating.migration import Migration, Tell
from leveret.mgmt.ctl.migrating.table import COLUMNS, NUMBERS, rows, summary

PAUSE_SECONDS: Final = 2.0
SAID_SECONDS: Final = 5.0
Show = Callable[[Look, bool], None]
"""Shows a look. The second argument: whether the migration is being rolled back."""
OTHER_LINES = 5
"""Lines of the terminal without queues: the column names, the line below them, the summary."""


def import_progress(say: Callable[[str], object]) -> Tell:
    """Says from time to time how much is imported."""
    said_s = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal said_s
        now_s = time.monotonic()
        if now_s - said_s >= SAID_SECONDS and done < total:
            said_s = now_s
            say(f"Imported {done:,} of {total:,} objects ...")

    return tell


def looks(migration: Migration, say: Callable[[str], object]) -> Iterator[Look]:
    """Look again and again, and adjust the links. After the first look, a broker that does not
    answer, as it is restarted, is waited for.
    """
    has_looked, trouble = False, ""
    while True:
        try:
            look = migration.look()
            migration.adjust(look)
        except CtlError as error:
            if not has_looked or not _may_pass(error):
                raise
            if error.text != trouble:
                say(f"{error.text}. Trying again ...")
                trouble = error.text
            time.sleep(PAUSE_SECONDS)
            continue
        has_looked, trouble = True, ""
        yield look


def pause(migration: Migration, look: Look, seconds: float, show: Show) -> None:
    """Wait before the next look, while idle links make room for those of other queues, and no
    longer than until everything seems to have moved.
    """
    end_s, is_returning = time.monotonic() + seconds, migration.is_returning
    is_moving = look.left(is_returning=is_returning) != 0
    while (left_s := end_s - time.monotonic()) > 0:
        time.sleep(min(PAUSE_SECONDS, left_s))
        if len(look.links.directions) < len(look.queues):
            try:
                look = migration.make_room(look)
            except CtlError as error:
                if _may_pass(error):
                    # The next look waits for the node.
                    return
                raise
            show(look, is_returning)
            if is_moving and look.left(is_returning=is_returning) == 0:
                return


def _may_pass(error: CtlError) -> bool:
    if isinstance(error, HttpError):
        return error.status >= 500
    return error.code in (UNAVAILABLE, TIMED_OUT)


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
    if look.is_estimated:
        return
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
