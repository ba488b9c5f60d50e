"""The registry of commands, and the session that a command runs in.

Commands are functions, registered with their usage. `CommandRun` has the arguments, the options and
the connection to the node, and prints in the requested format: a banner ("Listing users ..."), then
rows, facts or a sentence. The node is contacted only when a command needs it, so invalid arguments
are reported even if there is no node.
"""

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from leveret.mgmt.ctl import formatters
from leveret.mgmt.ctl.client import HttpError, NodeClient, wrong_node
from leveret.mgmt.ctl.errors import USAGE, CtlError, NodeStateError
from leveret.mgmt.ctl.options import Option, read_option
from leveret.mgmt.ctl.tool import LEVERETCTL, Tool

Run = Callable[["CommandRun"], int | None]
"""Executes a command. Returns its exit code; None for success."""

NOTHING, NODE, RUNNING, STOPPED = "nothing", "node", "running", "stopped"
"""The need of a command: nothing, a node, or a node with a running or a stopped broker."""
FOR_EVER_SECONDS = 10**8


class DryRun(Exception):
    """Ends a command after its banner: `--dry-run`."""


class CtlCommand(NamedTuple):
    """A command. usage: its arguments and options; `<name>` is required, `[<name>]` optional.

    options: its own options. counts: the number of arguments, unless the usage tells it. columns:
    of a list.
    """

    name: str
    usage: str
    summary: str
    section: str
    run: Run
    options: tuple[Option, ...]
    needs: str
    counts: tuple[int, int | None]
    columns: tuple[str, ...]

    @property
    def knows_dry_run(self) -> bool:
        """It has a `--dry-run` of its own."""
        return "--dry-run" in self.usage


COMMANDS: dict[str, CtlCommand] = {}

_IN_BRACKETS = re.compile(r"\[[^]]*\]")


def _counts(usage: str) -> tuple[int, int | None]:
    """Return the least and the greatest number (None: unlimited) of arguments in a usage."""
    optional = [part for part in _IN_BRACKETS.findall(usage) if not part.startswith("[-")]
    required = _IN_BRACKETS.sub("", usage).count("<")
    return required, None if "..." in usage else required + len(optional)


def command(
    name: str, usage: str, summary: str, section: str, *options: str, needs: str = RUNNING,
    counts: tuple[int, int | None] | None = None, columns: tuple[str, ...] = (),
) -> Callable[[Run], Run]:  # fmt: skip
    """Register a command. options: in the syntax of `options.read_option`."""

    def register(run: Run) -> Run:
        own = tuple(read_option(text) for text in options)
        COMMANDS[name] = CtlCommand(
            name, usage, summary, section, run, own, needs, counts or _counts(usage), columns
        )
        return run

    return register


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")


class CommandRun:
    """One run of a command.

    print_line: prints a line; has_printed: whether it was called. tool: the program that runs it.
    """

    def __init__(
        self, command: CtlCommand, arguments: list[str], options: dict[str, Any],
        connection: NodeClient,
        print_line: Callable[[str], object] = _print, tool: Tool = LEVERETCTL,
    ) -> None:  # fmt: skip
        self.command = command
        self.arguments = arguments
        self.options = options
        self.connection = connection
        self.print_line = print_line
        self.tool = tool
        self.has_printed = False
        self._node = ""

    # Arguments

    @property
    def vhost(self) -> str:
        """The virtual host: `-p`, or the default vhost."""
        return str(self.options.get("vhost", "/"))

    @property
    def formatter(self) -> str:
        """`--formatter`, or the default of the command."""
        return str(self.options.get("formatter") or "")

    @property
    def is_quiet(self) -> bool:
        """Print no banners: `--quiet`, `--silent`, or a format for programs."""
        return bool(
            self.options.get("quiet")
            or self.options.get("silent")
            or self.formatter in formatters.FOR_PROGRAMS
        )

    @property
    def is_silent(self) -> bool:
        """`--silent`: print no headers, and no text for checks."""
        return bool(self.options.get("silent"))

    def argument(self, place: int, default: str = "") -> str:
        """Return an argument by its index."""
        return self.arguments[place] if place < len(self.arguments) else default

    # Node

    @property
    def client(self) -> NodeClient:
        """The connection to the node, after its name was verified. Raises CtlError."""
        if not self._node and self.command.needs != NOTHING:
            self._find_node()
        return self.connection

    @property
    def node(self) -> str:
        """The node's name."""
        if not self._node:
            self._find_node()
        return self._node

    def _find_node(self) -> None:
        """Query the node's name and whether its broker is running."""
        client = self.connection
        found = client.get("node", "ping") if client.is_local else client.get("overview")
        name, wanted = found["node"], self.options.get("node")
        if wanted and wanted not in (name, name.partition("@")[0]):
            found = self._ping_other(name, wanted)
        self._node = found["node"]
        is_running = found.get("is_running", True)
        if self.command.needs == RUNNING and found.get("is_booting"):
            raise NodeStateError(
                "this command requires the 'rabbit' app to be running on the target node, and it "
                "is still booting. Wait for it with 'leveretctl await_startup'."
            )
        if self.command.needs == RUNNING and not is_running:
            raise NodeStateError(
                "this command requires the 'rabbit' app to be running on the target node. "
                "Start it with 'leveretctl start_app'."
            )
        if self.command.needs == STOPPED and is_running:
            raise NodeStateError(
                "this command requires the 'rabbit' app to be stopped on the target node. "
                "Stop it with 'leveretctl stop_app'."
            )

    def _ping_other(self, local: str, wanted: str) -> dict[str, Any]:
        """Query another node of the cluster, and have it answer from now on."""
        client = self.connection
        if client.is_local:
            client.ask_node(wanted)
            try:
                found: dict[str, Any] = client.get("node", "ping")
                return found
            except HttpError as error:
                if error.status == 503:
                    raise client.unreachable(error.reason) from None
        raise wrong_node(client.place, local, wanted)

    def take_time(self) -> None:
        """Wait without a limit, unless `--timeout` sets one."""
        if "timeout" not in self.options:
            self.connection.wait_longer(FOR_EVER_SECONDS)

    def require_local(self) -> None:
        """Raise CtlError unless the control socket is used."""
        if not self.connection.is_local:
            raise CtlError(
                f"Error: {self.command.name} needs the node's control socket: run it on the node's "
                "machine with --data-dir",
                USAGE,
            )

    # Printing

    def out(self, line: str) -> None:
        """Print a line of the result."""
        self.has_printed = True
        self.print_line(line)

    def banner(self, text: str) -> None:
        """Print a line about the work under way, unless quiet."""
        if self.command.needs != NOTHING:
            _ = self.client
        if not self.is_quiet:
            self.print_line(text)
        self.end_dry_run()

    def offline_banner(self, text: str) -> None:
        """`banner` of a command for a node that does not run."""
        if not self.is_quiet:
            self.print_line(text)
        self.end_dry_run()

    def end_dry_run(self) -> None:
        """Raise DryRun for `--dry-run`; banner() does it, too."""
        if self.options.get("dry_run") and not self.command.knows_dry_run:
            raise DryRun

    def say(self, text: str, **facts: Any) -> None:
        """Print a result as a sentence; in JSON, as facts, with the sentence unless it is empty."""
        if self.formatter == "json":
            self.out(formatters.json_facts({**({"message": text} if text else {}), **facts}))
        else:
            self.out(text)

    def check_passed(self, text: str, **facts: Any) -> None:
        """Print the result of a successful health check, unless `--silent`."""
        if self.formatter == "json":
            self.out(formatters.json_facts({"result": "ok", **facts}))
        elif not self.is_silent:
            self.out(text)
        self.has_printed = True

    def value(self, value: Any, text: str) -> None:
        """Print one value: as JSON with the node's name, otherwise as text."""
        if self.formatter == "json":
            self.out(formatters.json_facts({"result": "ok", "node": self.node, "value": value}))
        else:
            self.out(text)

    def facts(self, facts: dict[str, Any], lines: Iterable[str]) -> None:
        """Print one object: as JSON, otherwise as lines."""
        if self.formatter == "json":
            self.out(formatters.json_facts(facts))
        else:
            for line in lines:
                self.out(line)

    def rows(
        self, rows: Iterable[Sequence[Any]], columns: Sequence[str], *, empty_line: bool = False,
        default: str = "table",
    ) -> None:  # fmt: skip
        """Print a table. empty_line: rabbitmqctl prints an empty line for this list if empty.

        default: the format without `--formatter`.
        """
        formatter = self.formatter or default
        with_headers = not self.is_silent and self.options.get("table_headers", True)
        if empty_line and not (rows := list(rows)):
            self.out("[]" if formatter == "json" else "")
        elif formatter == "json":
            self._lines(formatters.json_rows(columns, rows))
        elif formatter == "csv":
            self._lines(formatters.csv_lines(columns, rows, with_headers=with_headers))
        elif formatter == "pretty_table":
            self._lines(formatters.pretty_lines(columns, rows))
        else:
            self._lines(formatters.table_lines(columns, rows, with_headers=with_headers))
        self.has_printed = True

    def _lines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.out(line)

    def finish(self) -> None:
        """Print the JSON of a successful command without a result."""
        if self.formatter == "json" and not self.has_printed:
            node = "" if self.command.needs == NOTHING else self.node
            self.out(formatters.json_facts({"result": "ok", "node": node}))
