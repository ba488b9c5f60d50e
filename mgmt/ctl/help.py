"""What the tool says about itself: usages, lists of commands, and the nearest name of a wrong one.

The headings, their order and the form of a usage are rabbitmqctl's.
"""

from collections.abc import Iterable

from mgmt.ctl.absent import ABSENT
from mgmt.ctl.command import NOTHING, Command
from mgmt.ctl.errors import USAGE, CtlError
from mgmt.ctl.formatters import BOLD, PLAIN, heading
from mgmt.ctl.index import all_commands

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
Most commands take these.

short        | long                | meaning
-------------|---------------------|------------------------------------------------
-?           | --help              | show this
-n <node>    | --node <node>       | refuse to do anything unless this is the node
-p <vhost>   | --vhost <vhost>     | the virtual host; / if none is named
-q           | --quiet             | no banner
-s           | --silent            | neither banner nor column headers
-t <seconds> | --timeout <seconds> | how long to wait for the node; 0 is not at all
             | --formatter <name>  | json, table, csv or pretty_table
             | --no-table-headers  | no column headers
             | --data-dir <path>   | where the node keeps its data, and its socket
             | --url <url>         | go to a node over HTTP instead, with
             |                     | --username <name> and --password <password>"""


def usage(one: Command) -> str:
    """How a command is used, in two lines."""
    timeout = "" if one.needs == NOTHING else " [--timeout <timeout>]"
    arguments = f" {one.usage}" if one.usage else ""
    options = "[--node <node>] [--longnames] [--quiet]"
    return f"\n{heading('Usage')}\n{TOOL} {options} {one.name}{arguments}{timeout}"


def command_help(one: Command) -> str:
    """All about one command."""
    return f"{usage(one)}\n\n{one.summary}.\n\n{_columns(one)}{GENERAL_OPTIONS}\n"


def _columns(one: Command) -> str:
    """The columns that a list can have; nothing for what is no list."""
    if not one.columns:
        return ""
    lines = [""]
    for name in sorted(one.columns):
        if len(lines[-1]) + len(name) > LINE_WIDTH:
            lines.append("")
        lines[-1] += f" {name}"
    return "\n".join([heading("Columns"), *lines, "", ""])


def overview() -> str:
    """All commands by their sections."""
    return (
        f"\n{heading('Usage')}\n{TOOL} [--node <node>] [--timeout <timeout>] [--longnames] "
        f"[--quiet] <command> [<command options>]\n\nAvailable commands:\n{command_list()}\n\n"
        f"Use '{TOOL} help <command>' to learn more about a specific command"
    )


def command_list() -> str:
    """Names and summaries."""
    commands = all_commands()
    parts = []
    for section in SECTIONS:
        members = sorted(one.name for one in commands.values() if one.section == section)
        lines = [f"   {name:<{NAME_WIDTH}}  {commands[name].summary}" for name in members]
        if lines:
            parts.append(f"\n{BOLD}{section}{PLAIN}:\n\n" + "\n".join(lines))
    return "\n".join(parts)


def unknown_command(name: str, *, with_overview: bool = True) -> CtlError:
    """Why it is not there, or the nearest name, or all of them."""
    if name in ABSENT:
        return CtlError(f"\nCommand '{name}' does not exist here: {ABSENT[name]}.\n", USAGE)
    nearest = suggestion(name, all_commands())
    if nearest:
        return CtlError(f"\nCommand '{name}' not found. \nDid you mean '{nearest}'? \n", USAGE)
    rest = f" \n{overview()}" if with_overview else ""
    return CtlError(f"\nCommand '{name}' not found.{rest}", USAGE)


def suggestion(name: str, known: Iterable[str]) -> str:
    """The most similar name; empty if none is similar enough."""
    similarity, nearest = max((jaro(one, name), one) for one in known)
    return nearest if similarity >= SIMILARITY_MIN else ""


def jaro(first: str, second: str) -> float:
    """Jaro's similarity of two words, from 0 to 1."""
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
