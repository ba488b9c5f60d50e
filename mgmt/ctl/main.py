"""The `leveretctl` command: finds the command, its arguments and options, and the node.

Options may stand anywhere. Exit codes are rabbitmqctl's: 64 for a wrong use, 65 and 67 for wrong
data, 69 if the node cannot be reached or refuses, 70 for what else fails, 75 if it takes too long.
"""

import difflib
import os
import sys
from pathlib import Path
from typing import Any

from mgmt.ctl import diagnostics, listing, node, users, vhosts
from mgmt.ctl.client import Client, unreachable
from mgmt.ctl.command import COMMANDS, Command, Session, command
from mgmt.ctl.errors import OK, USAGE, CtlError, UsageError

TOPICS = (diagnostics, listing, node, users, vhosts)
"""Imported for their commands."""

DATA_DIR_VARIABLE = "LEVERET_DATA_DIR"
FLAGS = ("quiet", "silent", "no-table-headers", "longnames", "dry-run", "help", "version")
VALUES = (
    "node", "vhost", "formatter", "timeout", "data-dir", "url", "username", "password"
)  # fmt: skip
SHORT = {
    "-n": "node", "-p": "vhost", "-q": "quiet", "-s": "silent", "-t": "timeout", "-l": "longnames",
    "-h": "help", "-f": "formatter",
}  # fmt: skip
FORMATTERS = ("table", "json", "csv", "pretty_table", "string", "report")


@command("observer", "", "Starts a CLI observer interface on the node",
         "Monitoring, observability and health checks", "once")  # fmt: skip
def observer(ctl: Session) -> None:
    """A live view."""
    # rich takes longer to import than most commands take.
    from mgmt.ctl.observer import observe  # noqa: PLC0415

    observe(ctl.client, once=bool(ctl.options.get("once")))


@command("help", "[<command>]", "Displays usage information for a command", "Help",
         needs_node=False)  # fmt: skip
def show_help(ctl: Session) -> None:
    """Usage of one command, or a list of all."""
    name = ctl.argument(0)
    if not name:
        ctl.out(overview())
        return
    if name not in COMMANDS:
        raise unknown_command(name)
    ctl.out(usage(COMMANDS[name]))


@command("autocomplete", "[<text>]", "Provides command name autocomplete variants", "Help",
         needs_node=False)  # fmt: skip
def autocomplete(ctl: Session) -> None:
    """Commands that begin like this."""
    for name in sorted(COMMANDS):
        if name.startswith(ctl.argument(0)):
            ctl.out(name)


@command("completion", "<shell>", "Prints a completion script; for bash", "Help",
         needs_node=False)  # fmt: skip
def completion(ctl: Session) -> None:
    """What to source in a shell."""
    if ctl.argument(0) != "bash":
        raise UsageError("completion is for bash")
    ctl.out("complete -W \"$(leveretctl autocomplete | tr '\\n' ' ')\" leveretctl")


def usage(one: Command) -> str:
    """How a command is used."""
    flags = "".join(
        f" [--{flag.removesuffix('=')}{' <value>' if flag.endswith('=') else ''}]"
        for flag in one.options
    )
    arguments = f" {one.usage}" if one.usage else ""
    return (
        f"\nUsage\n\nleveretctl [--node <node>] [--quiet] [--vhost <vhost>] {one.name}{arguments}"
        f"{flags}\n\n{one.summary}"
    )


def overview() -> str:
    """All commands by their groups."""
    lines = [
        "\nUsage\n\nleveretctl [--data-dir <dir> | --url <url> --username <name> --password "
        "<password>]\n           [--node <node>] [--vhost <vhost>] [--timeout <seconds>] [--quiet] "
        "[--formatter <name>]\n           <command> [<arguments>]\n\nAvailable commands:"
    ]
    groups: dict[str, list[Command]] = {}
    for one in COMMANDS.values():
        groups.setdefault(one.group, []).append(one)
    for group in sorted(groups):
        lines.append(f"\n{group}:\n")
        lines += [
            f"   {one.name:<32}{one.summary}"
            for one in sorted(groups[group], key=lambda one: one.name)
        ]
    return "\n".join(lines)


def unknown_command(name: str) -> CtlError:
    """With the nearest one that is known."""
    close = difflib.get_close_matches(name, COMMANDS, n=1)
    hint = f"Did you mean '{close[0]}'?\n" if close else f"{overview()}\n"
    return CtlError(f"\nCommand '{name}' not found.\n{hint}", USAGE)


def parse(arguments: list[str]) -> tuple[str, list[str], dict[str, Any]]:
    """The command's name, its arguments and all options. Raises UsageError."""
    words: list[str] = []
    options: dict[str, Any] = {}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--":
            words += rest
            break
        name = SHORT.get(word) or (word[2:] if word.startswith("--") else "")
        if not name or (words and word.startswith("-") and word[1:2].isdigit()):
            words.append(word)
            continue
        name, equals, value = name.partition("=")
        kind = _kind_of(name, words[0] if words else "", rest)
        key = name.replace("-", "_")
        if kind == "flag":
            options[key] = value not in ("false", "no") if equals else True
        elif equals:
            options[key] = value
        elif rest:
            options[key] = rest.pop(0)
        else:
            raise UsageError(f"the option --{name} needs a value")
    return (words[0] if words else ""), words[1:], options


def _kind_of(name: str, known_command: str, rest: list[str]) -> str:
    """Whether an option is a flag or takes a value. Raises UsageError if it is not known."""
    if name in FLAGS:
        return "flag"
    if name in VALUES:
        return "value"
    later = [word for word in rest if word in COMMANDS]
    for candidate in (known_command, *later):
        one = COMMANDS.get(candidate)
        if one is not None:
            if name in one.options:
                return "flag"
            if f"{name}=" in one.options:
                return "value"
    raise UsageError(f"Invalid options for this command: --{name}")


def _session(name: str, arguments: list[str], options: dict[str, Any]) -> Session:
    if options.get("formatter") and options["formatter"] not in FORMATTERS:
        raise UsageError(f"formatter must be one of {', '.join(FORMATTERS)}")
    timeout = options.get("timeout")
    try:
        seconds = float(timeout) if timeout not in (None, "infinity") else None
    except ValueError:
        raise UsageError(f"timeout must be a number of seconds, and is '{timeout}'") from None
    data_dir = options.get("data_dir") or os.environ.get(DATA_DIR_VARIABLE) or "data"
    client = Client(
        data_dir=Path(data_dir), url=options.get("url") or "",
        username=options.get("username") or "guest", password=options.get("password") or "guest",
        timeout=60.0 if timeout is None else seconds or None,
    )  # fmt: skip
    return Session(name, arguments, options, client)


def _find_node(ctl: Session) -> None:
    """Learn the node's name, and that it is the one that is meant."""
    if ctl.client.is_local:
        ctl.node = ctl.client.get("node", "ping")["node"]
    else:
        ctl.node = ctl.client.get("overview")["node"]
    wanted = ctl.options.get("node")
    if wanted and wanted not in (ctl.node, ctl.node.partition("@")[0]):
        raise unreachable(ctl.client.place, f"the node there is '{ctl.node}', not '{wanted}'")


def run(arguments: list[str]) -> int:
    """Do what the arguments say. Raises CtlError."""
    name, words, options = parse(arguments)
    if options.get("version"):
        name, words = "version", []
    if not name or options.get("help"):
        name, words = "help", [name] if name else []
    one = COMMANDS.get(name)
    if one is None:
        raise unknown_command(name)
    ctl = _session(name, words, options)
    if len(words) < one.required:
        raise UsageError(f"not enough arguments.\nArguments given:\n\t{' '.join(arguments)}\n"
                         f"{usage(one)}")  # fmt: skip
    if one.maximum is not None and len(words) > one.maximum:
        raise UsageError(f"too many arguments.\nArguments given:\n\t{' '.join(arguments)}\n"
                         f"{usage(one)}")  # fmt: skip
    if one.needs_node:
        _find_node(ctl)
    return one.run(ctl) or OK


def main(arguments: list[str] | None = None) -> int:
    """Run, and say what went wrong."""
    try:
        return run(sys.argv[1:] if arguments is None else arguments)
    except CtlError as error:
        sys.stdout.flush()
        sys.stderr.write(f"{error.text}\n")
        return error.code
    except BrokenPipeError:
        # Whoever read the output has gone: `leveretctl list_queues | head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        return 130


def entry_point() -> None:
    """For the installed command."""
    sys.exit(main())


if __name__ == "__main__":
    entry_point()
