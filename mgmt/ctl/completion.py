"""What may follow on a command line that is being typed: for the completion of shells.

The words typed so far are read like a finished command line, and the last one, which may be empty,
is the beginning of the word that is wanted. It is the value of an option, an option, a command, or
an argument; the name of an argument in the command's usage (`<queue>`) gives its kind. Names of
objects come from the running node, which has half a second to answer; without an answer there are
none.
"""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from leveret.mgmt.ctl.client import NodeClient, client_of
from leveret.mgmt.ctl.command import COMMANDS, CtlCommand
from leveret.mgmt.ctl.errors import CtlError
from leveret.mgmt.ctl.formatters import FORMATTERS
from leveret.mgmt.ctl.index import COMMAND_MODULES, find
from leveret.mgmt.ctl.options import FLAG, GLOBAL, Option, Parsed, parse
from leveret.mgmt.ctl.tool import LEVERETCTL

ANSWER_SECONDS = 0.5
SHOWN_MAX = 200
"""The most names that are proposed; more are of no use to the user, and take time."""

_PLACEHOLDER = re.compile(r"<([^>]*)>(\S*)")
_OPTION_IN_BRACKETS = re.compile(r"\[-[^]]*\]")
_CHOICE = re.compile(r"\s*\|\s*")

FILES = ("file_path", "pidfile", "path")
OF_A_VHOST = {
    "queue": "queues", "queue_name": "queues", "stream": "queues", "exchange": "exchanges",
}  # fmt: skip
OF_THE_NODE = {"username": "users", "user": "users", "vhost": "vhosts"}
OPTION_VALUES = {"data-dir": "path", "apply-to": "queues|exchanges|all"}
"""The kinds of values of options whose names do not tell them."""
CHOICES = {
    "command": tuple(filter(LEVERETCTL.has, COMMAND_MODULES.own)),
    "formatter": FORMATTERS,
    "log_level": ("debug", "info", "notice", "warning", "error", "critical", "none"),
}
"""The possible arguments or values, where the usage does not list them."""


def completions(words: list[str]) -> list[str]:
    """Return the completions of the last word, sorted."""
    *before, prefix = words or [""]
    parsed = parse(before)
    one = find(parsed.words[0]) if parsed.words else None
    if one is not None:
        parsed = parse(before, one.options)
    found = _Completion(one, parsed, before, prefix).found()
    return sorted({name for name in found if name.startswith(prefix)})


class _Completion:
    """One word to complete. one: the command before it, if there is one."""

    def __init__(
        self, one: CtlCommand | None, parsed: Parsed, before: list[str], prefix: str
    ) -> None:
        self._one = one
        self._parsed = parsed
        self._before = before
        self._prefix = prefix
        self._options = {f"--{option.name}": option for option in self._known()}
        self._options |= {f"-{option.letter}": option for option in self._known() if option.letter}

    def _known(self) -> tuple[Option, ...]:
        return (*(self._one.options if self._one is not None else ()), *GLOBAL)

    def found(self) -> Iterable[str]:
        """Return names, of which some may have another beginning."""
        is_after_dashes = "--" in self._before
        option = self._options.get(self._before[-1]) if self._before else None
        if option is not None and option.kind != FLAG and not is_after_dashes:
            return self._named(self._value_of(option), self._prefix)
        if self._prefix.startswith("-") and not is_after_dashes:
            return self._option_or_value()
        if self._one is None:
            return () if self._parsed.words else (*COMMAND_MODULES, *COMMANDS)
        return self._argument(self._one)

    def _option_or_value(self) -> Iterable[str]:
        name, equals, value = self._prefix.partition("=")
        option = self._options.get(name)
        if not equals or option is None:
            return (f"--{option.name}" for option in self._known())
        return (f"{name}={found}" for found in self._named(self._value_of(option), value))

    def _value_of(self, option: Option) -> str:
        """Return the kind of an option's value: from the usage of the command, or its name."""
        if option.name in OPTION_VALUES:
            return OPTION_VALUES[option.name]
        usage = self._one.usage if self._one is not None else ""
        named = re.search(rf"--{option.name}(?:\|-\w)? <([^>]*)>", usage)
        return named[1] if named else option.name

    def _argument(self, one: CtlCommand) -> Iterable[str]:
        """Return the candidates for the next argument."""
        usage = _OPTION_IN_BRACKETS.sub("", one.usage)
        meanings = [name for name, _ in _PLACEHOLDER.findall(usage)]
        if not meanings:
            return ()
        place = len(self._parsed.words) - 1
        if place >= len(meanings) and "..." not in usage:
            return ()
        return self._named(meanings[min(place, len(meanings) - 1)], self._prefix)

    def _named(self, meaning: str, prefix: str) -> Iterable[str]:
        """Return the names of objects of a kind, choices, or files."""
        meaning = meaning.strip(", ")
        if meaning in OF_A_VHOST:
            vhost = str(self._parsed.values.get("vhost", "/"))
            return self._ask(prefix, OF_A_VHOST[meaning], vhost)
        if meaning in OF_THE_NODE:
            return self._ask(prefix, OF_THE_NODE[meaning])
        if meaning == "column" and self._one is not None:
            return self._one.columns
        if meaning in CHOICES:
            return CHOICES[meaning]
        if meaning in FILES or "file_path" in meaning:
            return _files(prefix)
        choices = _CHOICE.split(meaning)
        return choices if len(choices) > 1 else ()

    def _ask(self, prefix: str, *path: str) -> list[str]:
        """Ask the node for names; none if it does not answer at once."""
        query = {"columns": "name"}
        if path[0] in ("queues", "exchanges"):
            pattern = "^" + re.escape(prefix)
            query |= {"page": "1", "page_size": str(SHOWN_MAX), "name": pattern,
                      "use_regex": "true"}  # fmt: skip
        try:
            found = self._client().get(*path, **query)
        except CtlError:
            # The shell has no place for an error: nothing is proposed.
            return []
        rows = found["items"] if isinstance(found, dict) else found
        return [row["name"] for row in rows if row["name"].startswith(prefix)][:SHOWN_MAX]

    def _client(self) -> NodeClient:
        client = client_of(self._parsed.values)
        client.wait_longer(ANSWER_SECONDS)
        return client


def _files(prefix: str) -> Iterator[str]:
    directory, _, beginning = prefix.rpartition("/")
    shown = f"{directory}/" if "/" in prefix else ""
    try:
        entries = list(os.scandir(Path(shown or ".").expanduser()))
    except OSError:
        # It is not there, or may not be read: there is nothing to propose.
        return
    for entry in entries:
        if beginning or not entry.name.startswith("."):
            yield f"{shown}{entry.name}{'/' if entry.is_dir() else ''}"
