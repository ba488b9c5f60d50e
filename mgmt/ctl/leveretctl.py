"""The `leveretctl` command: finds the command, its arguments and options, and the node.

Exit codes are rabbitmqctl's: 64 for wrong usage, 65 and 67 for invalid data, 69 if the node cannot
be reached or refuses, 70 for other errors, 75 for a timeout, 77 if the socket belongs to another
user (docs/reference/leveretctl.md).
"""

import io
import os
import sys
from collections.abc import Sequence

from leveret import __version__
from leveret.mgmt.ctl.client import client_of
from leveret.mgmt.ctl.command import (
    NOTHING,
    CommandRun,
    CtlCommand,
    DryRun,
    command,
)
from leveret.mgmt.ctl.completion import completions
from leveret.mgmt.ctl.errors import (
    DATA_ERROR,
    INTERRUPTED,
    MISSING_LIBRARY,
    OK,
    SOFTWARE,
    USAGE,
    CtlError,
    NodeStateError,
    UsageError,
    bad_argument,
)
from leveret.mgmt.ctl.formatters import FORMATTERS, json_facts
from leveret.mgmt.ctl.help import (
    command_help,
    command_list,
    invalid_options,
    overview,
    unknown_command,
    usage,
)
from leveret.mgmt.ctl.index import all_commands, find
from leveret.mgmt.ctl.options import Parsed, parse
from leveret.mgmt.ctl.shells import SCRIPTS
from leveret.mgmt.ctl.tool import LEVERETCTL, Tool


@command("help", "(<command> | [--list-commands])", "Displays usage information for a command",
         "Help", "list-commands", needs=NOTHING, counts=(0, 1))  # fmt: skip
def show_help(ctl: CommandRun) -> None:
    """Show the usage of one command, or list all."""
    name, tool = ctl.argument(0), ctl.tool
    if not name:
        ctl.out(command_list(tool) if ctl.options.get("list_commands") else overview(tool))
    elif tool.has(name) and (one := find(name)):
        ctl.out(command_help(one, tool))
    else:
        error = unknown_command(name, tool, with_overview=False)
        raise CtlError(f"Error:\n{error.text}", error.code)


@command("version", "", "Displays the version of the tools", "Help", needs=NOTHING)
def show_version(ctl: CommandRun) -> None:
    """Show the version of the tools."""
    if ctl.formatter == "json":
        facts = {
            "result": "ok",
            "node": ctl.options.get("node", ""),
            "value": {"version": __version__},
        }
        ctl.out(json_facts(facts))
    else:
        ctl.out(__version__)


@command("autocomplete", "[prefix]", "Lists the completions of the last word of a command line: "
         "commands, options, names", "Help", needs=NOTHING, counts=(0, None))  # fmt: skip
def autocomplete(ctl: CommandRun) -> None:
    """List the completions of the last word."""
    for name in completions(ctl.arguments):
        ctl.out(name)


@command("completion", "<bash|zsh|fish>", "Prints the completion script for a shell", "Help",
         needs=NOTHING)  # fmt: skip
def completion(ctl: CommandRun) -> None:
    """Print a completion script."""
    shell = ctl.argument(0)
    if shell not in SCRIPTS:
        raise bad_argument(f"'{shell}' is not one of the shells {', '.join(SCRIPTS)}")
    ctl.out(SCRIPTS[shell])


def _find_command(arguments: Sequence[str], tool: Tool) -> tuple[CtlCommand, Parsed]:
    """Find the command and parse its arguments. Raises CtlError."""
    words, values, _ = parse(arguments)
    if not words:
        if values.get("help"):
            return all_commands()["help"], Parsed([], {}, [])
        raise CtlError(overview(tool), USAGE)
    one = find(words[0]) if tool.has(words[0]) else None
    if one is None:
        raise unknown_command(words[0], tool)
    words, values, invalid = parse(arguments, one.options)
    return one, Parsed(words[1:], values, invalid)


def _check(one: CtlCommand, given: Parsed) -> None:
    """Check options and the number of arguments. Raises UsageError."""
    if given.invalid:
        raise invalid_options(one, given.invalid)
    formatter = given.values.get("formatter")
    if formatter is not None and formatter not in FORMATTERS:
        raise UsageError(
            f"unknown formatter '{formatter}'. Try one of json, table, csv, pretty_table"
        )
    if given.values.get("timeout", 0) < 0:
        raise UsageError("the timeout must be a number of seconds >= 0")
    least, most = one.counts
    if len(given.words) < least:
        raise UsageError("not enough arguments.")
    if most is not None and len(given.words) > most:
        raise UsageError("too many arguments.")


def _require_text(arguments: Sequence[str]) -> None:
    """Raise CtlError for an argument that is not UTF-8, since names must be."""
    for one in arguments:
        try:
            one.encode()
        except UnicodeEncodeError:
            shown = one.encode("utf-8", "surrogateescape")
            raise CtlError(f"Error: the argument {shown!r} is not UTF-8", DATA_ERROR) from None


def run(arguments: Sequence[str], tool: Tool) -> int:
    """Execute the arguments. Raises CtlError."""
    _require_text(arguments)
    if list(arguments) == ["--version"]:
        arguments = ["version"]
    if arguments and arguments[0] == "--auto-complete":
        arguments = ["autocomplete", "--", *arguments[1:]]
    one, given = _find_command(arguments, tool)
    try:
        return _run_command(one, given, tool)
    except (UsageError, NodeStateError) as error:
        shown = " ".join(arguments)
        raise CtlError(
            f"{error.text}\nArguments given:\n\t{shown}\n{usage(one, tool)}", error.code
        ) from None
    except CtlError as error:
        if error.facts is not None and given.values.get("formatter") == "json":
            raise CtlError(json_facts(error.facts), error.code) from None
        raise


def _run_command(one: CtlCommand, given: Parsed, tool: Tool) -> int:
    if given.values.get("help") and not given.invalid:
        sys.stdout.write(command_help(one, tool) + "\n")
        return OK
    _check(one, given)
    values = {**given.values, "operation": one.name}
    ctl = CommandRun(one, given.words, given.values, client_of(values), tool=tool)
    try:
        code = one.run(ctl) or OK
    except DryRun:
        return OK
    ctl.finish()
    for name in sorted(ctl.connection.left_out):
        sys.stdout.flush()
        sys.stderr.write(f"Warning: node {name} does not answer: its objects are not shown\n")
    return code


def main(arguments: Sequence[str] | None = None, tool: Tool = LEVERETCTL) -> int:
    """Run a command, and print its error. tool: the program that is run."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Characters that the terminal's encoding lacks are shown escaped.
            stream.reconfigure(errors="backslashreplace")
    try:
        code = run(sys.argv[1:] if arguments is None else arguments, tool)
        sys.stdout.flush()
        return code
    except CtlError as error:
        sys.stdout.flush()
        if error.text:
            sys.stderr.write(f"{error.text}\n")
        return error.code
    except ImportError as error:
        if error.name != MISSING_LIBRARY:
            raise
        sys.stderr.write(f"Error: {error}\n")
        return SOFTWARE
    except BrokenPipeError:
        # The reader of the output has exited: `leveretctl list_queues | head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            # The line that has ^C, perhaps behind a question, ends here.
            sys.stderr.write("\n")
        return INTERRUPTED


def entry_point() -> None:
    """Entry point of the installed command."""
    sys.exit(main())


if __name__ == "__main__":
    entry_point()
