"""Help texts: usages, the list of commands, and the most similar name for an unknown command.

The headings, their order and the form of a usage are rabbitmqctl's.
"""

from collections.abc import Iterable, Iterator

from leveret.mgmt.ctl.absent import ABSENT
from leveret.mgmt.ctl.command import NOTHING, CtlCommand
from leveret.mgmt.ctl.emphasis import bold, heading
from leveret.mgmt.ctl.errors import USAGE, CtlError, UsageError
from leveret.mgmt.ctl.index import all_commands
from leveret.mgmt.ctl.options import FLAG, GLOBAL, NUMBER, Option
from leveret.mgmt.ctl.similar_names import did_you_mean, suggestion
from leveret.mgmt.ctl.tool import HELP, LEVERETCTL, Tool

NAME_WIDTH, LINE_WIDTH = 28, 76
SECTIONS = (
    HELP, "Nodes", "Cluster", "Users", "Access Control",
    "Monitoring, observability and health checks", "Parameters", "Policies", "Virtual hosts",
    "Configuration and Environment", "Definitions", "Feature flags", "Operations", "Queues",
    "Federation plugin", "Migration", "MQTT plugin", "Plugin Management", "Schema replication",
    "Shovel plugin", "Deprecated",
)  # fmt: skip
GENERAL_OPTIONS = """Common options of most commands.

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


def usage(one: CtlCommand, tool: Tool = LEVERETCTL) -> str:
    """Format the usage of a command in two lines."""
    timeout = "" if one.needs == NOTHING else " [--timeout <timeout>]"
    arguments = f" {one.usage}" if one.usage else ""
    options = "[--node <node>] [--longnames] [--quiet]"
    return f"\n{heading('Usage')}\n{tool.name} {options} {one.name}{arguments}{timeout}"


def command_help(one: CtlCommand, tool: Tool = LEVERETCTL) -> str:
    """Format the help of one command."""
    options = f"{heading('General Options')}\n{GENERAL_OPTIONS}\n"
    return f"{usage(one, tool)}\n\n{one.summary}.\n\n{_columns(one)}{options}"


def _columns(one: CtlCommand) -> str:
    """Format the columns of a list; empty for other commands."""
    if not one.columns:
        return ""
    lines = [""]
    for name in sorted(one.columns):
        if len(lines[-1]) + len(name) > LINE_WIDTH:
            lines.append("")
        lines[-1] += f" {name}"
    return "\n".join([heading("Columns"), *lines, "", ""])


def overview(tool: Tool = LEVERETCTL) -> str:
    """Format all commands by section."""
    return (
        f"\n{heading('Usage')}\n{tool.name} [--node <node>] [--timeout <timeout>] "
        f"[--longnames] [--quiet] <command> [<command options>]\n\n"
        f"Available commands:\n{command_list(tool)}\n\n"
        f"Use '{tool.name} help <command>' to learn more about a specific command"
    )


def command_list(tool: Tool = LEVERETCTL) -> str:
    """Format names and summaries."""
    commands = {name: one for name, one in all_commands().items() if tool.has(name)}
    sections = {name: tool.section_of(name, one.section) for name, one in commands.items()}
    parts = []
    for section in dict.fromkeys((*SECTIONS, tool.section, *sorted(sections.values()))):
        members = sorted(name for name in commands if sections[name] == section)
        lines = [f"   {name:<{NAME_WIDTH}}  {commands[name].summary}" for name in members]
        if lines:
            parts.append(f"\n{bold(section)}:\n\n" + "\n".join(lines))
    return "\n".join(parts)


def unknown_command(name: str, tool: Tool = LEVERETCTL, *, with_overview: bool = True) -> CtlError:
    """Return the error for an unknown command, with the reason, the nearest name, or all names."""
    if name in ABSENT:
        return CtlError(f"\nCommand '{name}' does not exist here: {ABSENT[name]}.\n", USAGE)
    question = did_you_mean(name, filter(tool.has, all_commands()))
    if question:
        return CtlError(f"\nCommand '{name}' not found. \n{question} \n", USAGE)
    rest = f" \n{overview(tool)}" if with_overview else ""
    return CtlError(f"\nCommand '{name}' not found.{rest}", USAGE)


def invalid_options(one: CtlCommand, invalid: Iterable[tuple[str, str]]) -> UsageError:
    """Return the error for options that do not exist, or have a wrong value."""
    known = {option.shown: option for option in (*one.options, *GLOBAL)}
    lines = []
    for shown, value in invalid:
        lines += [f"{shown} : {value}", *_advice(shown, value, known)]
    return UsageError("\n".join(["Invalid options for this command:", *lines]))


def _advice(shown: str, value: str, known: dict[str, Option]) -> Iterator[str]:
    option = known.get(shown)
    if option is None:
        names = [one.name for one in known.values()]
        names += [f"no-{one.name}" for one in known.values() if one.kind == FLAG]
        nearest = suggestion(shown.lstrip("-"), names)
        if nearest:
            yield f"Did you mean '--{nearest}'?"
    elif option.kind == FLAG:
        yield f"{shown} takes no value"
    else:
        number = "a whole number" if option.kind == NUMBER else "a value"
        yield f"{shown} takes {number}" + ("" if value else ", and none is given")
