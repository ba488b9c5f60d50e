"""Reads logs on other file systems than the local disk, which are accessible to Spark only.

Spark's text source streams a file as rows, which are its bytes between separators; nothing holds a
whole file. Spark would decompress a file by its name's suffix, and could not read damaged ones, so
a codec of Hadoop that changes nothing is named for the suffix.

A large log of the broker is read by several tasks: the separator is the header with which each of
its gzip members begins, so a row is a member, and Spark splits the file between rows wherever it
likes (`spark.sql.files.maxPartitionBytes`). Ten bytes are by chance the same once in 10^24.

Spark splits no file that has a codec. To find the codec of a name, Hadoop sorts all reversed
suffixes, and takes the last one that does not sort after the reversed name; the name must end with
it. A codec for the suffix with an exclamation mark before it is found for names with a letter
before that suffix. They do not end with it, so they have no codec, and their own one is hidden.

Other files are read by one task each. A file without a suffix has no codec, and Spark would split
it between lines, so its text is one row, for which there is a limit.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from operator import itemgetter
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from isal import isal_zlib
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from leveret.analytics.job.files import escaped
from leveret.analytics.traces.log_blocks import (
    DAMAGED,
    GZIP,
    MEMBER,
    BlockSource,
    EndOfData,
    Problem,
)
from leveret.analytics.traces.log_parts import PART_BYTES
from leveret.analytics.traces.log_records import read_members, read_stream
from leveret.analytics.traces.parsing import PLAIN_COLUMNS, set_aside
from leveret.analytics.traces.schema import SQL_COLUMNS
from leveret.analytics.traces.trace_files import TraceFile, TraceWindow
from leveret.broker.tracing.block_format import MAGIC

MEMBER_HEADER = MEMBER + b"\0\0\0\0\0\0\xff"
"""Each member of the broker's logs begins with it: no name, no time, unknown system."""
WHOLE_BYTES_MAX = 512 * 1024 * 1024
"""The largest file that is read as one row: Spark and Python have it in memory, several times."""
_BEGINNING_ROWS = 10
_BEGINNING = {"mapreduce.input.linerecordreader.line.maxlength": str(1 << 20)}
"""Passes over a file without line feeds, which would be one row."""
_UNCHANGED = {"io.compression.codecs": "org.apache.hadoop.io.compress.PassthroughCodec"}
_SUFFIX_OPTIONS = (
    "io.compress.passthrough.extension",
    # Hadoop's client library renames the option along with its packages.
    "org.apache.hadoop.shaded.io.compress.passthrough.extension",
)
_HIDING = "!"
"""Hadoop trims characters up to this one; names with those are not split."""

Batches = Iterator[pa.RecordBatch]


def read_distant(
    session: SparkSession, files: list[TraceFile], window: TraceWindow, part_bytes: int = PART_BYTES
) -> list[DataFrame]:
    """Return the records of files that have content, with the columns of schema.COLUMNS.

    part_bytes: files of fewer bytes are not worth splitting.
    """
    split = [file for file in files if _can_be_split(session, file, part_bytes)]
    whole = [file for file in files if file not in split]
    refused = [file for file in whole if not _suffix(file) and file.size > WHOLE_BYTES_MAX]
    whole = [file for file in whole if file not in refused]
    found = [_refused(session, refused)] if refused else []
    for suffix in sorted({_suffix(file) for file in split}):
        found.append(_in_parts(session, [one for one in split if _suffix(one) == suffix], window))
    for suffix in sorted({_suffix(file) for file in whole}):
        found.append(_in_one(session, [one for one in whole if _suffix(one) == suffix], window))
    return found


def plain(records: Batches) -> Batches:
    """Return records as Spark takes them from Python."""
    return (batch.cast(PLAIN_COLUMNS) for batch in records)


def _suffix(file: TraceFile) -> str:
    return PurePosixPath(file.path).suffix


def _can_be_split(session: SparkSession, file: TraceFile, part_bytes: int) -> bool:
    """Tell whether the file is large, complete, and a log of members with blocks of records."""
    if file.size < part_bytes or file.is_open or PurePosixPath(file.path).stem[-1:] <= _HIDING:
        return False
    rows = _rows(session, [file], _suffix(file), "\n", options=_UNCHANGED | _BEGINNING).where(
        "begins = 0"
    )
    beginning = b"\n".join(bytes(row["piece"]) for row in rows.head(_BEGINNING_ROWS))
    if not beginning.startswith(MEMBER_HEADER):
        return False
    try:
        return isal_zlib.decompressobj(GZIP).decompress(beginning).startswith(MAGIC)
    except DAMAGED:
        return False


def _rows(
    session: SparkSession,
    files: list[TraceFile],
    codec: str,
    separator: str,
    *,
    whole: bool = False,
    options: dict[str, str] = _UNCHANGED,
) -> DataFrame:
    """Return rows of (url, begins, piece): the last is of the part of a file that begins there.

    codec: the suffix for which the codec is named that changes nothing. separator: of pieces, a
    character for each byte.
    """
    reader = session.read.options(
        **options, **dict.fromkeys(_SUFFIX_OPTIONS, codec), encoding="ISO-8859-1",
        lineSep=separator,
    )  # fmt: skip
    rows = reader.text([escaped(file.path) for file in files], wholetext=whole)
    return rows.select(
        F.col("_metadata.file_path").alias("url"),
        F.col("_metadata.file_block_start").alias("begins"),
        F.col("value").cast("binary").alias("piece"),
    )


def _in_parts(session: SparkSession, files: list[TraceFile], window: TraceWindow) -> DataFrame:
    """Read logs of one suffix by several tasks each."""
    codec = f"{_HIDING}{_suffix(files[0])}"
    rows = _rows(session, files, codec, MEMBER_HEADER.decode("iso-8859-1"))
    return rows.mapInArrow(lambda batches: _records_of_parts(batches, window), SQL_COLUMNS)


def _in_one(session: SparkSession, files: list[TraceFile], window: TraceWindow) -> DataFrame:
    """Read logs of one suffix by one task each."""
    suffix, sizes = _suffix(files[0]), {file.path: file.size for file in files}
    rows = _rows(session, files, suffix, "\n", whole=not suffix)
    return rows.mapInArrow(lambda batches: _records_of(batches, sizes, window), SQL_COLUMNS)


def _refused(session: SparkSession, files: list[TraceFile]) -> DataFrame:
    """Return a rejected row for files that Spark could not read."""
    problems = [
        Problem(
            file.path, None,
            f"cannot be read: it has {file.size} bytes, more than {WHOLE_BYTES_MAX}, and no suffix,"
            " without which Spark reads a file as one row; give its name a suffix, such as .log",
        )
        for file in files
    ]  # fmt: skip

    def rejected(_: Iterable[pa.RecordBatch]) -> Batches:
        return plain(iter([set_aside(problems)]))

    return session.range(0, 1, 1, 1).mapInArrow(rejected, SQL_COLUMNS)


class _Pieces(BlockSource):
    """The bytes of a file, or of a part of it. begins: their offset. size: the file's size."""

    def __init__(self, pieces: Iterator[bytes], size: int | None = None, begins: int = 0) -> None:
        self._pieces = pieces
        self._size = size
        self._position = begins
        self._begun = b""

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes; none at the end."""
        found, length = [self._begun], len(self._begun)
        while length < size and (piece := next(self._pieces, None)) is not None:
            found.append(piece)
            length += len(piece)
        data = b"".join(found)
        if self._size is not None:
            data = data[: self._size - self._position]
        self._begun = data[size:]
        self._position += len(data[:size])
        return data[:size]

    def tell(self) -> int:
        """Return the position in the file, that of a part from where Spark has begun to look."""
        return self._position


def _records_of_parts(rows: Iterable[pa.RecordBatch], window: TraceWindow) -> Batches:
    """Read the records of parts of files, whose rows are members without their headers."""
    for (url, begins), members in groupby(_cells(rows), itemgetter(0, 1)):
        pieces = map(itemgetter(2), members)
        # At the beginning of a file nothing is before the first header.
        first = next(pieces) if begins == 0 else MEMBER_HEADER + next(pieces)
        source = _Pieces(chain([first], map(MEMBER_HEADER.__add__, pieces)), begins=begins)
        yield from plain(read_members(source, unquote(url), begins, EndOfData.MEMBER, window))


def _records_of(
    rows: Iterable[pa.RecordBatch], sizes: dict[str, int], window: TraceWindow
) -> Batches:
    """Read the records of files, whose rows are in the order of each file."""
    for url, of_file in groupby(_cells(rows), itemgetter(0)):
        path = unquote(url)
        # The file need not end with a line feed.
        pieces = _Pieces((piece + b"\n" for _, _, piece in of_file), sizes[path])
        yield from plain(read_stream(pieces, path, window))


def _cells(rows: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    for batch in rows:
        yield from zip(*batch.to_pydict().values(), strict=True)
