"""Reading configuration files: a file, the files that it includes, and references in values.

`include conf.d/*.conf` stands for the settings of other files, in the order of their names. A value
`$(<secret.txt)` is the content of that file without its last line end. Both paths are relative to
the directory of the file that contains them. `$(key)` in a value stands for the value of another
key of the files, or if none has it, for a variable of the environment: as in cuttlefish, RabbitMQ's
reader of rabbitmq.conf. The content of a secret's file is used unchanged.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from leveret.broker.config.parser import Assignment, Include, Malformed, key_of, parse, words_of

FILE_CONTENT = re.compile(r"\$\(<(.+)\)")
REFERENCE = re.compile(r"\$\(\s*([^)]*?)\s*\)")


Words = tuple[str, ...]


class ConfigEntry(NamedTuple):
    """A setting of a file."""

    words: Words
    text: str
    file: Path
    line: int

    @property
    def key(self) -> str:
        """The key as the file has it."""
        return key_of(self.words)

    @property
    def place(self) -> str:
        """The file and line, for messages."""
        return f"{self.file} line {self.line}"


def read_entries(
    file: Path, environment: Mapping[str, str], problems: list[str]
) -> list[ConfigEntry]:
    """The settings of a file, in order; of several with the same key, the last one."""
    entries: dict[Words, ConfigEntry] = {}
    for entry in _read_file(file, (), problems):
        entries.pop(entry.words, None)
        entries[entry.words] = entry
    values = _Values(entries, environment, problems)
    return [entry._replace(text=values.of(entry)) for entry in entries.values()]


class _Values:
    """The values of files with their references replaced."""

    def __init__(
        self,
        entries: Mapping[Words, ConfigEntry],
        environment: Mapping[str, str],
        problems: list[str],
    ) -> None:
        self._entries = entries
        self._environment = environment
        self._problems = problems

    def of(self, entry: ConfigEntry) -> str:
        """The value of a setting, references replaced; an invalid reference is a problem."""
        try:
            return self._value(entry, ())
        except LookupError as error:
            self._problems.append(f"{entry.place}: {entry.key}: {error.args[0]}")
            return ""

    def _value(self, entry: ConfigEntry, referring: tuple[str, ...]) -> str:
        if entry.key in referring:
            circle = (*referring[referring.index(entry.key) :], entry.key)
            raise LookupError(f"refers to itself: {' -> '.join(circle)}")
        if content := FILE_CONTENT.fullmatch(entry.text):
            file = entry.file.parent / content[1].strip()
            text = _read_text(file, f"{entry.place}: ", self._problems)
            return text.removesuffix("\n").removesuffix("\r")
        inner = (*referring, entry.key)
        return REFERENCE.sub(lambda found: self._referred(found[1], inner), entry.text)

    def _referred(self, key: str, referring: tuple[str, ...]) -> str:
        entry = self._entries.get(words_of(key))
        if entry is not None:
            return self._value(entry, referring)
        if key in self._environment:
            return self._environment[key]
        raise LookupError(
            f"$({key}) refers to a key that no file sets and to no variable of the environment; "
            "set one of them, or write the value itself"
        )


def _read_file(
    file: Path, including: tuple[Path, ...], problems: list[str]
) -> Iterator[ConfigEntry]:
    text = _read_text(file, "", problems)
    for statement in parse(text):
        place = f"{file} line {statement.line}"
        match statement:
            case Malformed(_, reason):
                problems.append(f"{place}: {reason}")
            case Assignment(line, words, value):
                yield ConfigEntry(words, value, file, line)
            case Include(_, pattern):
                yield from _read_included(file, place, pattern, including, problems)


def _read_included(
    file: Path, place: str, pattern: str, including: tuple[Path, ...], problems: list[str]
) -> Iterator[ConfigEntry]:
    path = file.parent / pattern
    open_files = (file.resolve(), *including)
    for included in sorted(path.parent.glob(path.name)):
        if included.resolve() in open_files:
            problems.append(f"{place}: {included} includes itself")
        else:
            yield from _read_file(included, open_files, problems)


def _read_text(file: Path, prefix: str, problems: list[str]) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        problems.append(f"{prefix}cannot read {file}: {error.strerror}")
    except UnicodeDecodeError:
        problems.append(f"{prefix}{file} is not UTF-8 text")
    return ""
