"""Parses command line options like rabbitmqctl (Elixir's OptionParser, strict).

An option is declared by a short text: `global` is a flag, `user=` takes a text, `limit=#` takes an
integer; `if-empty|e` also has a letter. A flag `x` is switched off by `--no-x`. Options may be
anywhere among the arguments until `--`; an argument that begins with a dash is an option unless it
is a number. All errors are collected, so that they can be reported together.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

FLAG, TEXT, NUMBER = "flag", "text", "number"
_NEGATIVE_NUMBER = re.compile(r"-\d+(\.\d+)?")
_WHOLE_NUMBER = re.compile(r"[+-]?\d+")


class Option(NamedTuple):
    """An option. name: without dashes. kind: `FLAG`, `TEXT` or `NUMBER`. letter: for `-x`, or
    empty.
    """

    name: str
    kind: str
    letter: str

    @property
    def key(self) -> str:
        """The key of its value."""
        return self.name.replace("-", "_")

    @property
    def shown(self) -> str:
        """The name with its dashes."""
        return f"--{self.name}"


class Parsed(NamedTuple):
    """The result. words: arguments. invalid: unknown options, or ones with a wrong value."""

    words: list[str]
    values: dict[str, Any]
    invalid: list[tuple[str, str]]


def read_option(text: str) -> Option:
    """Parse the declaration of an option."""
    names, equals, kind = text.partition("=")
    name, _, letter = names.partition("|")
    return Option(name, (NUMBER if kind else TEXT) if equals else FLAG, letter)


GLOBAL = tuple(
    read_option(text)
    for text in (
        "node|n=", "vhost|p=", "quiet|q", "silent|s", "timeout|t=#", "longnames|l", "formatter=",
        "dry-run", "help|?", "table-headers", "data-dir=", "url=", "username=", "password=",
        "print-stacktrace", "script-name=",
    )
)  # fmt: skip
"""Options of every command."""


class _Reader:
    """Parses one command line."""

    def __init__(self, arguments: Iterable[str], known: Iterable[Option]) -> None:
        self._rest = list(arguments)
        self._by_name: Mapping[str, Option] = {option.name: option for option in known}
        self._by_letter = {one.letter: one for one in self._by_name.values() if one.letter}
        self.parsed = Parsed([], {}, [])

    def read(self) -> Parsed:
        while self._rest:
            word = self._rest.pop(0)
            if word == "--":
                self.parsed.words.extend(self._rest)
                break
            if word in ("", "-") or not word.startswith("-") or _NEGATIVE_NUMBER.fullmatch(word):
                self.parsed.words.append(word)
            elif word.startswith("--"):
                self._read_long(word)
            else:
                self._read_letters(word)
        return self.parsed

    def _read_long(self, word: str) -> None:
        name, equals, value = word[2:].partition("=")
        option = self._by_name.get(name)
        if option is None and name.startswith("no-"):
            switched_off = self._by_name.get(name.removeprefix("no-"))
            if switched_off is not None and switched_off.kind == FLAG and not equals:
                self.parsed.values[switched_off.key] = False
                return
        self._take(f"--{name}", option, value if equals else None)

    def _read_letters(self, word: str) -> None:
        letters, equals, value = word[1:].partition("=")
        found = [self._by_letter.get(letter) for letter in letters]
        if len(letters) > 1 and all(one is not None and one.kind == FLAG for one in found):
            for option in found:
                self._take(word, option, None)
            return
        self._take(f"-{letters}", self._by_letter.get(letters), value if equals else None)

    def _take(self, shown: str, option: Option | None, value: str | None) -> None:
        if option is None:
            self.parsed.invalid.append((shown, value or ""))
        elif option.kind == FLAG:
            self._set_flag(shown, option, value)
        else:
            self._set_value(shown, option, self._next_value() if value is None else value)

    def _set_flag(self, shown: str, option: Option, value: str | None) -> None:
        if value in (None, "true"):
            self.parsed.values[option.key] = True
        elif value == "false":
            self.parsed.values[option.key] = False
        else:
            self.parsed.invalid.append((shown, str(value)))

    def _set_value(self, shown: str, option: Option, value: str | None) -> None:
        if value is None or (option.kind == NUMBER and not _WHOLE_NUMBER.fullmatch(value)):
            self.parsed.invalid.append((shown, value or ""))
        else:
            self.parsed.values[option.key] = int(value) if option.kind == NUMBER else value

    def _next_value(self) -> str | None:
        if not self._rest:
            return None
        word = self._rest[0]
        if word.startswith("-") and word != "-" and not _NEGATIVE_NUMBER.fullmatch(word):
            return None
        return self._rest.pop(0)


def parse(arguments: Iterable[str], own: Iterable[Option] = ()) -> Parsed:
    """Parse a command line into words and options. own: the options of the command."""
    return _Reader(arguments, (*GLOBAL, *own)).read()
