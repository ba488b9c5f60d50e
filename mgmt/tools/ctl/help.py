"""Help texts: usages, the list of commands, and the most similar name for an unknown command.

The headings, their order and the form of a usage are rabbitmqctl's.
"""

from collections.abc import Iterable

from leveret.mgmt.tools.ctl.absent import ABSENT
from leveret.mgmt.tools.ctl.command import NOTHING, Command
from leveret.mgmt.tools.ctl.errors import USAGE, CtlError
from leveret.mgmt.tools.ctl.formatters import BOLD, PLAIN, heading
from leveret.mgmt.tools.ctl.index import all_commands

TOOL = "leveretctl"
SIMILARITY_MIN = 0.77
NAME_WIDTH, LINE_WIDTH = 28, 76
SECTIONS = (
    "Help", "Nodes", "Cluster", "Users", "Access Control",
    "Monitoring, observability and health checks", "Parameters", "Policies", "Virtual hosts",
    "Configuration and Environment", "Definitions", "Feature flags", "Operations", "Queues",
    "Deprecated",
)  # fmt: skip
GENERAL_OPTIONS = f"""{heading("General Options")}
Common options of most commands.

short        | long                | meaning
-------------|---------------------|------------------------------------------------
-?           | --help              | show this help
-n <node>    | --node <node>       | fail unless the node has this name
-p <vhost>   | --vhost <vhost>     | virtual host; / by default
-q           | --quiet             | print no banner
-s           | --silent            | print neither banner nor column headers
-t <seconds> | --timeout <seconds> | time limit; 0 does not wait at all
             | --formatter <name>  | json, table, csv or pretty_table
             | --no-table-headers  | print no column headers
             | --data-dir <path>   | the node's data directory
             | --url <url>         | connect over HTTP instead, with
             |                     | --username <name> and --password <password>"""


def usage(one: Command) -> str:
    """Format the usage of a command in two lines."""
    timeout = "" if one.needs == NOTHING else " [--timeout <timeout>]"
    arguments = f" {one.usage}" if one.usage else ""
    options = "[--node <node>] [--longnames] [--quiet]"
    return f"\n{heading('Usage')}\n{TOOL} {options} {one.name}{arguments}{timeout}"


def command_help(one: Command) -> str:
    """Format the help of one command."""
    return f"{usage(one)}\n\n{one.summary}.\n\n{_columns(one)}{GENERAL_OPTIONS}\n"


def _columns(one: Command) -> str:
    """Format the columns of a list; empty for other commands."""
    if not one.columns:
        return ""
    lines = [""]
    for name in sorted(one.columns):
        if len(lines[-1]) + len(name) > LINE_WIDTH:
            lines.append("")
        lines[-1] += f" {name}"
    return "\n".join([heading("Columns"), *lines, "", ""])


def overview() -> str:
    """Format all commands by section."""
    return (
        f"\n{heading('Usage')}\n{TOOL} [--node <node>] [--timeout <timeout>] [--longnames] "
        f"[--quiet] <command> [<command options>]\n\nAvailable commands:\n{command_list()}\n\n"
        f"Use '{TOOL} help <command>' to learn more about a specific command"
    )


def command_list() -> str:
    """Format names and summaries."""
    commands = all_commands()
    parts = []
    for section in SECTIONS:
        members = sorted(one.name for one in commands.values() if one.section == section)
        lines = [f"   {name:<{NAME_WIDTH}}  {commands[name].summary}" for name in members]
        if lines:
            parts.append(f"\n{BOLD}{section}{PLAIN}:\n\n" + "\n".join(lines))
    return "\n".join(parts)


def unknown_command(name: str, *, with_overview: bool = True) -> CtlError:
    """Return the error for an unknown command, with the reason, the nearest name, or all names."""
    if name in ABSENT:
        return CtlError(f"\nCommand '{name}' does not exist here: {ABSENT[name]}.\n", USAGE)
    nearest = suggestion(name, all_commands())
    if nearest:
        return CtlError(f"\nCommand '{name}' not found. \nDid you mean '{nearest}'? \n", USAGE)
    rest = f" \n{overview()}" if with_overview else ""
    return CtlError(f"\nCommand '{name}' not found.{rest}", USAGE)


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return the most similar name; empty if none is similar enough."""
    similarity, nearest = max((jaro(one, name), one) for one in known)
    return nearest if similarity >= SIMILARITY_MIN else ""


def jaro(first: str, second: str) -> float:
    """Return Jaro's similarity of two words, 0 to 1."""
    if first == second:
        return 1.0
    reach = max(len(first), len(second)) // 2 - 1
    taken = [False] * len(second)
    matched = []
    for place, letter in enumerate(first):
        for other in range(max(0, place - reach), min(len(second), place + reach + 1)):
            if not taken[other] and second[other] == letter:
                taken[other] = True
                matched.append(letter)
                break
    if not matched:
        return 0.0
    in_second = [letter for letter, is_taken in zip(second, taken, strict=True) if is_taken]
    moved = sum(a != b for a, b in zip(matched, in_second, strict=True)) / 2
    count = len(matched)
    return (count / len(first) + count / len(second) + (count - moved) / count) / 3
