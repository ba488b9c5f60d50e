"""Finds log files that were given twice: under another name, decompressed, or as a part.

A copy that was made while its file was being written has a part of it. So of files that begin with
the same lines, the one with most data is read. Only such files are read beyond their beginning
here.
"""

import hashlib
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from leveret.analytics.traces.log_blocks import read_blocks
from leveret.analytics.traces.trace_files import TraceFile

BEGINNING_BYTES = 64 * 1024
LINES_MIN = 2
"""A broker's log begins with a header, so its second line is its first record."""


class Copy(NamedTuple):
    """A file that is not read, and the one that has the same records."""

    file: str
    same_as: str


class _Beginning(NamedTuple):
    lines: list[bytes]
    file: TraceFile


def without_copies(files: Sequence[TraceFile]) -> tuple[list[TraceFile], list[Copy]]:
    """Return the local files to read, in their order, and the copies of them."""
    beginnings = sorted(
        (_beginning(file) for file in files if file.size), key=lambda one: one.lines[:LINES_MIN]
    )
    copies: dict[str, Copy] = {}
    for first, group in groupby(beginnings, lambda one: one.lines[:LINES_MIN]):
        found = list(group)
        if len(found) > 1 and len(first) == LINES_MIN:
            copies |= {copy.file: copy for copy in _copies_among(found)}
    kept = [file for file in files if file.path not in copies]
    return kept, [copies[path] for path in sorted(copies)]


def beginning_of(file: TraceFile) -> str:
    """Return a key that only files with the same first lines share; empty if there are too few."""
    lines = _beginning(file).lines[:LINES_MIN]
    if len(lines) < LINES_MIN:
        return ""
    return hashlib.blake2b(b"\n".join(lines), digest_size=8).hexdigest()


def _copies_among(candidates: list[_Beginning]) -> Iterator[Copy]:
    """Yield the copies among files with the same first lines."""
    originals: list[_Beginning] = []
    for one in sorted(candidates, key=_order):
        for original in originals:
            known = min(len(one.lines), len(original.lines))
            if one.lines[:known] == original.lines[:known]:
                yield Copy(one.file.path, original.file.path)
                break
        else:
            originals.append(one)


def _order(one: _Beginning) -> tuple[int, bool, str]:
    """Sort the file with most data first; of equal ones, that which is in its directory."""
    data = sum(len(block.data) for block in read_blocks(one.file, []))
    return -data, one.file.hour_us is None, one.file.path


def _beginning(file: TraceFile) -> _Beginning:
    data = b""
    for block in read_blocks(file, []):
        data += block.data
        if len(data) >= BEGINNING_BYTES:
            break
    return _Beginning(data[:BEGINNING_BYTES].split(b"\n")[:-1], file)
