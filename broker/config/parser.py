r"""The `key = value` format of rabbitmq.conf: a text in, its statements out.

A line is a setting, an include, a comment (its first character is `#`) or blank. A key is words
joined by dots; a dot within a word is written `\.`. A value ends at the end of the line or at a
`#`, without white space around it. A value in single quotes is taken literally, and may be empty or
contain a `#`. One in three single quotes may have several lines; the white space around it is not
part of it. `include conf.d/*.conf` stands for the statements of other files.

An invalid line becomes a `Malformed` and parsing continues, so that one start reports all mistakes.
This is the language of Cuttlefish 3.6, except that a value in one quote ends on its line.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

WORD = r"(?:\\\.|[A-Za-z0-9_-])+"
SETTING = re.compile(rf"({WORD}(?:\.{WORD})*)[ \t]*=[ \t]*(.*)")
THREE_QUOTES = "'''"
OF_SEVERAL_LINES = re.compile(rf"({WORD}(?:\.{WORD})*)[ \t]*=[ \t]*{THREE_QUOTES}(.*)")
WORDS_OF_SECRETS = re.compile(r"[A-Za-z0-9_.]*(?:pass|secret)[A-Za-z0-9_.]*")
INCLUDE = re.compile(r"include[ \t]+([A-Za-z0-9_.*/-]+)[ \t]*(?:#.*)?")
QUOTED = re.compile(r"'([^']*)'[ \t]*(?:#.*)?")
DOT_BETWEEN_WORDS = re.compile(r"(?<!\\)\.")


class Assignment(NamedTuple):
    """A setting: the words of its key and the text of its value."""

    line: int
    words: tuple[str, ...]
    text: str


ERLANG_BEGINS = ("[", "{", "]", "}", "%")
ERLANG_HINT = (
    "; this looks like an advanced.config, which is a file beside this one, or the one that "
    "LEVERET_ADVANCED_CONFIG names"
)


class Include(NamedTuple):
    """The statements of other files. pattern: relative to the directory of this file."""

    line: int
    pattern: str


class Malformed(NamedTuple):
    """A line that is not a statement."""

    line: int
    reason: str


Statement = Assignment | Include | Malformed


def parse(text: str) -> Iterator[Statement]:
    """The statements of a file, in order."""
    lines = enumerate(text.split("\n"), start=1)
    for number, line in lines:
        stripped = line.strip(" \t\r")
        if begin := OF_SEVERAL_LINES.fullmatch(stripped):
            yield _parse_lines(number, begin[1], begin[2], (line for _, line in lines))
        elif stripped and not stripped.startswith("#"):
            yield _parse_statement(number, stripped)


def _parse_lines(number: int, key: str, first: str, lines: Iterator[str]) -> Statement:
    """A setting whose value ends at three quotes, in the first line or one of those after it."""
    value, end, rest = first.partition(THREE_QUOTES)
    while not end:
        line = next(lines, None)
        if line is None:
            return Malformed(number, f"{key} has no {THREE_QUOTES} after its value")
        more, end, rest = line.partition(THREE_QUOTES)
        value += f"\n{more}"
    if rest.strip() and not rest.lstrip().startswith("#"):
        return Malformed(number, f"{key} has text after the {THREE_QUOTES} that end its value")
    return Assignment(number, words_of(key), value.strip())


def _without_secret(line: str) -> str:
    """A line for an error text. Of a line about a password, only the key is shown."""
    word = WORDS_OF_SECRETS.match(line)
    return line if word is None else f"{word[0]} ..."


def _parse_statement(number: int, line: str) -> Statement:
    if include := INCLUDE.fullmatch(line):
        return Include(number, include[1])
    setting = SETTING.fullmatch(line)
    if setting is None:
        hint = ERLANG_HINT if line.startswith(ERLANG_BEGINS) else ""
        return Malformed(number, f"expected 'key = value', found '{_without_secret(line)}'{hint}")
    text = _value_of(setting[2])
    if text is None:
        return Malformed(number, f"{setting[1]} has no value; an empty one is written ''")
    return Assignment(number, words_of(setting[1]), text)


def _value_of(rest: str) -> str | None:
    if quoted := QUOTED.fullmatch(rest):
        return quoted[1]
    return rest.partition("#")[0].rstrip(" \t") or None


def words_of(key: str) -> tuple[str, ...]:
    """The words of a key."""
    return tuple(word.replace("\\.", ".") for word in DOT_BETWEEN_WORDS.split(key))


def key_of(words: tuple[str, ...]) -> str:
    """The key that has these words."""
    return ".".join(word.replace(".", "\\.") for word in words)
