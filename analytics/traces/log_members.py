"""Reads the data added to a log of the broker since it was read last: whole gzip members.

A log that is being written is read up to the end of its last whole member; a complete one to its
end, whatever is damaged in it. One read is limited, and divided into pieces for several threads;
both end where a member begins. Line numbers continue from piece to piece, so several reads in
pieces give the same result as one.
"""

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from isal import isal_zlib

from leveret.analytics.traces.block_columns import columns_of
from leveret.analytics.traces.block_members import GATHERED_BYTES, BlockMembers
from leveret.analytics.traces.log_blocks import (
    BLOCK_BYTES_MAX,
    DAMAGED,
    GZIP,
    MEMBER,
    READ_BYTES,
    EndOfData,
    LogBlock,
    Problem,
    blocks_of,
)
from leveret.analytics.traces.log_parts import LogPart, PartSource, next_member
from leveret.analytics.traces.log_records import read_log, records_of_lines
from leveret.analytics.traces.parsing import set_aside
from leveret.analytics.traces.trace_files import TraceFile, TraceWindow

BEING_WRITTEN = ".open"
"""The ending of the name of a file that is being written."""


class AddedBytes(NamedTuple):
    """Bytes of a file that are to be read.

    sample: the log has one message in this number; None if the log cannot be read.
    """

    file: TraceFile
    begins: int
    ends: int
    sample: int | None

    @property
    def name(self) -> str:
        """The path that the file has when it is complete."""
        return self.file.path.removesuffix(BEING_WRITTEN)


class AddedRecords:
    """The records of added bytes, as schema.COLUMNS.

    valid, rejected: their batches; rejected lines are counted from the first of these bytes.
    lines: how many there are. first_us, last_us: times of the first and the last record.
    """

    def __init__(self, added: AddedBytes, window: TraceWindow) -> None:
        """Read the bytes. Raises OSError."""
        self._added = added
        self._window = window
        self.lines = 0
        self.valid: list[pa.RecordBatch] = []
        self.rejected: list[pa.RecordBatch] = []
        self.first_us: int | None = None
        self.last_us: int | None = None
        for batch in self._batches():
            if batch.num_rows and batch["wrong"].null_count == 0:
                self.rejected.append(batch)
            elif batch.num_rows:
                self.valid.append(batch)
                self._look_at_times(batch["time_us"])

    def _batches(self) -> Iterator[pa.RecordBatch]:
        added, problems = self._added, list[Problem]()
        if added.sample is None:
            yield from read_log(LogPart(added.file.path, 0, added.ends, added.ends), self._window)
            return
        with _opened(added) as file:
            members = BlockMembers(None, added.begins == 0, columns_of, GATHERED_BYTES)
            source = PartSource(file, added.begins, added.ends)
            is_end = added.ends >= added.file.size and not added.file.is_open
            ending = EndOfData.FILE if is_end else EndOfData.MEMBER
            blocks = self._counted(blocks_of(source, added.name, problems, ending, members))
            yield from records_of_lines(blocks, added.name, added.sample, self._window)
        yield set_aside(problems)

    def _counted(self, blocks: Iterator[LogBlock]) -> Iterator[LogBlock]:
        for block in blocks:
            self.lines += block.lines
            yield block

    def _look_at_times(self, times_us: pa.Array) -> None:
        known = times_us.drop_null()
        if len(known):
            if self.first_us is None:
                self.first_us = known[0].as_py()
            self.last_us = known[-1].as_py()


def _opened(added: AddedBytes) -> BinaryIO:
    """Open the file, which may have got its final name since it was listed. Raises OSError."""
    try:
        return open(added.file.path, "rb")
    except FileNotFoundError:
        return open(added.name, "rb")


def later_lines(rejected: pa.RecordBatch, before: int) -> pa.RecordBatch:
    """Return rejected rows whose lines come after this number of others."""
    place = rejected.schema.get_field_index("line")
    return rejected.set_column(place, "line", pc.add(rejected["line"], before))


def end_of_added(file: TraceFile, begins: int, bytes_max: int) -> int:
    """Return the byte up to which a file is to be read next; `begins` if no member is whole yet.

    It has about this number of bytes, or more if a member is longer. Raises OSError.
    """
    with open(file.path, "rb") as opened:
        if not _has_members(opened):
            return begins if file.is_open else file.size
        if begins + bytes_max < file.size:
            border = next_member(opened, begins + bytes_max, file.size)
            if border is not None:
                return border
        return end_of_whole_members(opened, begins) if file.is_open else file.size


def pieces_of(added: AddedBytes, piece_bytes: int) -> list[AddedBytes]:
    """Divide the data to read into pieces of at least this number of bytes. Raises OSError."""
    borders = [added.begins]
    with _opened(added) as opened:
        if added.sample is not None and _has_members(opened):
            for at in range(added.begins + piece_bytes, added.ends - piece_bytes, piece_bytes):
                border = next_member(opened, at, added.ends)
                if border is not None and border > borders[-1]:
                    borders.append(border)
    ends = [*borders[1:], added.ends]
    return [
        added._replace(begins=begins, ends=end) for begins, end in zip(borders, ends, strict=True)
    ]


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


def _has_members(file: BinaryIO) -> bool:
    file.seek(0)
    return file.read(len(MEMBER)) == MEMBER
