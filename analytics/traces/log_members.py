"""Reads what was added to a log of the broker since it was read last: whole gzip members.

A log that is being written is read up to the end of its last whole member; a complete one to its
end, whatever is damaged in it. Lines are counted on from those that were read before, so what is
read in several goes is the same as what is read at once.
"""

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import pyarrow as pa
from isal import isal_zlib

from leveret.analytics.traces.block_members import BlockMembers
from leveret.analytics.traces.log_blocks import (
    BLOCK_BYTES_MAX,
    DAMAGED,
    GZIP,
    READ_BYTES,
    Block,
    Ending,
    Problem,
    blocks_of,
)
from leveret.analytics.traces.log_parts import LogPart, PartSource
from leveret.analytics.traces.log_records import read_log, records_of_lines
from leveret.analytics.traces.parsing import set_aside
from leveret.analytics.traces.trace_files import TraceFile, Window

BEING_WRITTEN = ".open"
"""What the name of a file that is being written has at its end."""


class Added(NamedTuple):
    """Bytes of a file that are to be read. line: the number of the first line in them.

    sample: the log has one message in so many; None if it is no log that can be read.
    """

    file: TraceFile
    begins: int
    ends: int
    line: int
    sample: int | None

    @property
    def name(self) -> str:
        """The path that the file has when it is complete."""
        return self.file.path.removesuffix(BEING_WRITTEN)


class AddedRecords:
    """The records of added bytes. lines: how many were read, after the last record."""

    def __init__(self, added: Added, window: Window) -> None:
        self._added = added
        self._window = window
        self.lines = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Return the records, with the columns of schema.COLUMNS. Raises OSError."""
        added, problems = self._added, list[Problem]()
        if added.sample is None:
            yield from read_log(LogPart(added.file.path, 0, added.ends, added.ends), self._window)
            return
        with open(added.file.path, "rb") as file:
            members = BlockMembers(has_header=added.begins == 0)
            source = PartSource(file, added.begins, added.ends)
            blocks = self._counted(blocks_of(source, added.name, problems, Ending.FILE, members))
            yield from records_of_lines(blocks, added.name, added.sample, self._window)
        before = added.line - 1
        yield set_aside(
            [one._replace(line=None if one.line is None else one.line + before) for one in problems]
        )

    def _counted(self, blocks: Iterator[Block]) -> Iterator[Block]:
        for block in blocks:
            self.lines += block.lines
            yield block._replace(line=block.line + self._added.line - 1)


def end_of_whole_members(file: BinaryIO, begins: int) -> int:
    """Return where the last whole member ends, of those from `begins` on. Raises OSError."""
    file.seek(begins)
    member, data, end = isal_zlib.decompressobj(GZIP), b"", begins
    while data or (data := file.read(READ_BYTES)):
        try:
            member.decompress(data, BLOCK_BYTES_MAX)
        except DAMAGED:
            return end
        data = member.unconsumed_tail
        if member.eof:
            data = member.unused_data
            end = file.tell() - len(data)
            member = isal_zlib.decompressobj(GZIP)
    return end
