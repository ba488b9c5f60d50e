"""Reads trace logs, in any state, into one data frame of valid and rejected records.

Workers open local files themselves, and each task reads parts of them (log_parts.py). Files on
other file systems are accessible to Spark only, whose text source streams them: a task reads a file
of any size as rows, which are its bytes between line feeds, and nothing holds a whole file. Spark
would decompress a file by its name's suffix, and could not read damaged ones, so a codec of Hadoop
that changes nothing is named for the suffix.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from itertools import groupby
from operator import itemgetter
from pathlib import PurePosixPath
from typing import NamedTuple
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from leveret.analytics.job.files import escaped, list_files
from leveret.analytics.traces.copies import Copy, without_copies
from leveret.analytics.traces.local_files import is_local, local_path
from leveret.analytics.traces.log_blocks import Source
from leveret.analytics.traces.log_parts import LogPart, parts_of
from leveret.analytics.traces.log_records import read_log, read_stream
from leveret.analytics.traces.parsing import PLAIN_COLUMNS
from leveret.analytics.traces.schema import SQL_COLUMNS
from leveret.analytics.traces.trace_files import EVERYTHING, TraceFile, Window

TASKS_MAX = 1_000
_UNCHANGED = {
    "io.compression.codecs": "org.apache.hadoop.io.compress.PassthroughCodec",
    "lineSep": "\n",
}
_SUFFIX_OPTIONS = (
    "io.compress.passthrough.extension",
    # Hadoop's client library renames the option along with its packages.
    "org.apache.hadoop.shaded.io.compress.passthrough.extension",
)

Batches = Iterator[pa.RecordBatch]


class LogFiles(NamedTuple):
    """The files to read. parts: of local files. distant: files of other file systems.

    copies: of local files, which are not read.
    """

    session: SparkSession
    parts: list[LogPart]
    distant: list[TraceFile]
    files: list[TraceFile]
    copies: list[Copy]
    window: Window

    @property
    def records(self) -> DataFrame:
        """The records, with the columns of schema.COLUMNS. Evaluated lazily."""
        found = [self.by_task(lambda _, records: _plain(records), SQL_COLUMNS)]
        for suffix in sorted({PurePosixPath(file.path).suffix for file in self.distant}):
            found.append(self._of_suffix(suffix))
        return reduce(DataFrame.unionAll, found)

    def by_task(self, done: Callable[[int, Batches], Batches], columns: str) -> DataFrame:
        """Read the local files, and return what is done with the number and records of each task.

        Evaluated lazily.
        """
        parts, window = self.parts, self.window
        tasks = max(1, min(len(parts), TASKS_MAX))

        def records(task: int) -> Batches:
            for part in parts[task::tasks]:
                yield from read_log(part, window)

        def run(numbers: Iterable[pa.RecordBatch]) -> Batches:
            for batch in numbers:
                for task in batch.column(0).to_pylist():
                    yield from done(task, records(task))

        return self.session.range(0, tasks, 1, tasks).mapInArrow(run, columns)

    def _of_suffix(self, suffix: str) -> DataFrame:
        sizes = {
            file.path: file.size
            for file in self.distant
            if PurePosixPath(file.path).suffix == suffix
        }
        window = self.window
        reader = self.session.read.options(**_UNCHANGED, **dict.fromkeys(_SUFFIX_OPTIONS, suffix))
        # There is no codec for a name without a suffix: Spark would read parts in any order.
        rows = reader.text([escaped(path) for path in sizes], wholetext=not suffix)
        pieces = rows.select(F.col("_metadata.file_path"), F.col("value").cast("binary"))
        return pieces.mapInArrow(lambda found: _records_of(found, sizes, window), SQL_COLUMNS)


class _Pieces(Source):
    """The bytes of a file, whose line feeds Spark has left out. size: of the file."""

    def __init__(self, pieces: Iterator[bytes], size: int) -> None:
        self._pieces = pieces
        self._size = size
        self._position = 0
        self._begun = b""

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes; none at the end."""
        found, length = [self._begun], len(self._begun)
        while length < size and (piece := next(self._pieces, None)) is not None:
            found += (piece, b"\n")
            length += len(piece) + 1
        # The file need not end with a line feed.
        data = b"".join(found)[: self._size - self._position]
        self._begun = data[size:]
        self._position += len(data[:size])
        return data[:size]

    def tell(self) -> int:
        """Return the position in the file."""
        return self._position


def _records_of(rows: Iterable[pa.RecordBatch], sizes: dict[str, int], window: Window) -> Batches:
    """Read the records of files: rows of (URL, piece), in the order of each file."""
    pairs = (pair for batch in rows for pair in zip(*batch.to_pydict().values(), strict=True))
    for url, of_file in groupby(pairs, itemgetter(0)):
        path = unquote(url)
        pieces = _Pieces(map(itemgetter(1), of_file), sizes[path])
        yield from _plain(read_stream(pieces, path, window))


def _plain(records: Batches) -> Batches:
    """Return records as Spark takes them from Python."""
    return (batch.cast(PLAIN_COLUMNS) for batch in records)


def read_trace(session: SparkSession, directory: str, window: Window = EVERYTHING) -> LogFiles:
    """Read the trace logs below a directory: a local path or a Hadoop URL.

    Raises FileNotFoundError if the directory does not exist.
    """
    return read_files(session, list_files(session, directory, window), window)


def read_files(
    session: SparkSession, files: list[TraceFile], window: Window = EVERYTHING
) -> LogFiles:
    """Read trace logs: local ones by part, others by file."""
    local, copies = without_copies(
        [file._replace(path=local_path(file.path)) for file in files if is_local(file.path)]
    )
    distant = [file for file in files if not is_local(file.path)]
    # Spark leaves out files without content; the job lists them.
    parts = parts_of([*local, *(file for file in distant if not file.size)])
    with_content = [file for file in distant if file.size]
    return LogFiles(session, parts, with_content, files, copies, window)
