"""What a command is, and what it is given.

Commands are functions, registered with their usage; `Session` carries the arguments, the options
and the connection to the node, and prints in the way that the options ask for: a banner ("Listing
users ..."), then rows or a sentence.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mgmt.ctl import formatters
from mgmt.ctl.client import Client
from mgmt.ctl.errors import CtlError, UsageError

Run = Callable[["Session"], int | None]


@dataclass(frozen=True, slots=True)
class Command:
    """usage: its arguments; `<name>` is required, `[...]` is not. options: its own flags."""

    name: str
    usage: str
    summary: str
    group: str
    run: Run
    options: tuple[str, ...] = ()
    needs_node: bool = True

    @property
    def required(self) -> int:
        """How many arguments it needs at least."""
        plain = self.usage.partition("[")[0].partition(" | ")[0]
        return plain.count("<")

    @property
    def maximum(self) -> int | None:
        """How many it takes; None: any number."""
        return None if "..." in self.usage else self.usage.count("<")


COMMANDS: dict[str, Command] = {}


def command(
    name: str, usage: str, summary: str, group: str, *options: str, needs_node: bool = True
) -> Callable[[Run], Run]:
    """Register a command. options: flags of its own; one that ends in = takes a value."""

    def register(run: Run) -> Run:
        COMMANDS[name] = Command(name, usage, summary, group, run, options, needs_node)
        return run

    return register


@dataclass
class Session:
    """One run of a command."""

    name: str
    arguments: list[str]
    options: dict[str, Any]
    client: Client
    node: str = ""
    out: Callable[[str], object] = field(default=lambda line: sys.stdout.write(line + "\n"))

    @property
    def vhost(self) -> str:
        """`-p`, or the default vhost."""
        return str(self.options.get("vhost") or "/")

    @property
    def is_quiet(self) -> bool:
        """No banners: `--quiet`, `--silent`, or a format for programs."""
        return bool(
            self.options.get("quiet")
            or self.options.get("silent")
            or self.formatter in ("json", "csv")
        )

    @property
    def formatter(self) -> str:
        """`--formatter`; without it, what suits the command."""
        return str(self.options.get("formatter") or "")

    def argument(self, place: int, default: str = "") -> str:
        """An argument by its place."""
        return self.arguments[place] if place < len(self.arguments) else default

    def banner(self, text: str) -> None:
        """What is being done, for people."""
        if not self.is_quiet:
            self.out(text)

    def say(self, text: str) -> None:
        """A result in words."""
        if not self.options.get("silent"):
            self.out(text)

    def require_local(self) -> None:
        """Raise CtlError unless the node is reached over its control socket."""
        if not self.client.is_local:
            raise CtlError(
                f"Error: {self.name} needs the node's control socket: run it on the node's machine "
                "with --data-dir",
                UsageError("").code,
            )

    def rows(self, rows: Iterable[Sequence[Any]], columns: Sequence[str]) -> None:
        """A table."""
        listed = [list(row) for row in rows]
        formatter = self.formatter or "table"
        if formatter == "json":
            found = [dict(zip(columns, row, strict=True)) for row in listed]
            self.out(formatters.json_rows(found))
        elif formatter == "csv":
            for line in formatters.csv_lines(columns, listed):
                self.out(line)
        elif formatter == "pretty_table":
            for line in formatters.pretty_lines(columns, listed):
                self.out(line)
        else:
            with_headers = not (self.options.get("no_table_headers") or self.options.get("silent"))
            for line in formatters.table_lines(columns, listed, with_headers=with_headers):
                self.out(line)

    def value(self, value: Any, lines: Iterable[str]) -> None:
        """One object: as JSON if that is asked for, or else as lines for people."""
        if self.formatter == "json":
            self.out(formatters.json_text(value))
        else:
            for line in lines:
                self.out(line)
