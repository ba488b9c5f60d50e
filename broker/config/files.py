"""Reading configuration files: a file, those it includes, and values that are kept in files.

`include conf.d/*.conf` stands for the settings of other files, in the order of their names. A value
`$(<secret.txt)` is the content of that file without its last line end. Both paths are relative to
the directory of the file that contains them.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from leveret.broker.config.parser import Assignment, Include, Malformed, key_of, parse

FILE_CONTENT = re.compile(r"\$\(<(.+)\)")


class Entry(NamedTuple):
    """A setting of a file."""

    words: tuple[str, ...]
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


def read_entries(file: Path, problems: list[str]) -> list[Entry]:
    """The settings of a file, in order; of several with the same key, the last one."""
    entries: dict[tuple[str, ...], Entry] = {}
    for entry in _read_file(file, (), problems):
        entries.pop(entry.words, None)
        entries[entry.words] = entry
    return list(entries.values())


def _read_file(file: Path, including: tuple[Path, ...], problems: list[str]) -> Iterator[Entry]:
    text = _read_text(file, "", problems)
    for statement in parse(text):
        place = f"{file} line {statement.line}"
        match statement:
            case Malformed(_, reason):
                problems.append(f"{place}: {reason}")
            case Assignment(line, words, value):
                yield Entry(words, _expand(file, place, value, problems), file, line)
            case Include(_, pattern):
                yield from _read_included(file, place, pattern, including, problems)


def _read_included(
    file: Path, place: str, pattern: str, including: tuple[Path, ...], problems: list[str]
) -> Iterator[Entry]:
    path = file.parent / pattern
    open_files = (file.resolve(), *including)
    for included in sorted(path.parent.glob(path.name)):
        if included.resolve() in open_files:
            problems.append(f"{place}: {included} includes itself")
        else:
            yield from _read_file(included, open_files, problems)


def _expand(file: Path, place: str, value: str, problems: list[str]) -> str:
    reference = FILE_CONTENT.fullmatch(value)
    if reference is None:
        return value
    content = _read_text(file.parent / reference[1].strip(), f"{place}: ", problems)
    return content.removesuffix("\n").removesuffix("\r")


def _read_text(file: Path, prefix: str, problems: list[str]) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        problems.append(f"{prefix}cannot read {file}: {error.strerror}")
    except UnicodeDecodeError:
        problems.append(f"{prefix}{file} is not UTF-8 text")
    return ""
