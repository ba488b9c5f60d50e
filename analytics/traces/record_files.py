"""Parses logs into Parquet files of records, which both engines read.

Each log is parsed once. The files are short-lived: they are in the work directory, and deleted when
the job ends.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from leveret.analytics.traces.log_parts import LogPart
from leveret.analytics.traces.log_records import read_log
from leveret.analytics.traces.parsing import ARROW_COLUMNS
from leveret.analytics.traces.schema import REPEATED
from leveret.analytics.traces.trace_files import TraceWindow
from leveret.broker.resources.available_processors import available_processors

COMPRESSION = "snappy"
"""Chosen for speed, since the files are short-lived. Not LZ4: Parquet for Java cannot read all of
PyArrow's LZ4 files (parquet-java issue 3478)."""
FEW_VALUES = [
    *REPEATED, "channel", "new_message", "weight", "routing_keys.list.element",
    "queues.list.element",
]  # fmt: skip
"""Columns whose values are written once, and then as numbers. Others differ in most records."""
ENCODINGS = dict.fromkeys(("time_us", "message", "body_size"), "DELTA_BINARY_PACKED")
THREADS_MAX = 4
"""Each needs up to half a gigabyte of memory."""
GROUP_ROWS = 200_000
"""Rows of one row group: about 30 MB in memory."""


class RowCounts(NamedTuple):
    """Rows of record files. rejected: those of rejected lines and files, included in `rows`."""

    rows: int
    rejected: int


class RecordFiles:
    """Writes the records of local logs, with a thread for each processor, up to THREADS_MAX.

    Arrow and the decompression release the interpreter lock, so threads parse in parallel.
    """

    def __init__(self, parts: Sequence[LogPart], window: TraceWindow, directory: Path) -> None:
        self._parts = parts
        self._window = window
        self._directory = directory
        # By part: each is written by one thread.
        self._rows = [0] * len(parts)
        self._is_stopped = False

    @property
    def rows(self) -> int:
        """The rows that were parsed so far."""
        return sum(self._rows)

    def write(self) -> RowCounts:
        """Write a file for each part, and an empty one, so that there is one without any log.

        Raises OSError if a file cannot be written.
        """
        self._directory.mkdir()
        write_batches((), str(self._directory / "empty.parquet"))
        with ThreadPoolExecutor(min(available_processors(), THREADS_MAX)) as threads:
            futures = [threads.submit(self._write, number) for number in range(len(self._parts))]
            try:
                return _summed(future.result() for future in as_completed(futures))
            except BaseException:
                # Leaving the pool waits for its threads.
                self._is_stopped = True
                raise

    def _write(self, number: int) -> RowCounts:
        path = str(self._directory / f"part-{number:05}.parquet")
        return write_batches(self._counted(number), path)

    def _counted(self, number: int) -> Iterator[pa.RecordBatch]:
        for batch in read_log(self._parts[number], self._window):
            if self._is_stopped:
                return
            self._rows[number] += batch.num_rows
            yield batch


def write_batches(batches: Iterable[pa.RecordBatch], path: str) -> RowCounts:
    """Write one Parquet file and return the counts of its rows."""
    with pq.ParquetWriter(
        path, ARROW_COLUMNS, compression=COMPRESSION, use_dictionary=FEW_VALUES,
        column_encoding=ENCODINGS,
    ) as file:  # fmt: skip
        return _summed(_write_group(file, group) for group in _groups(batches))


def _write_group(file: pq.ParquetWriter, group: pa.Table) -> RowCounts:
    # Parquet takes the numbers of texts as they are if all batches have the same texts.
    file.write_table(group.unify_dictionaries())
    return RowCounts(len(group), len(group) - group["wrong"].null_count)


def _summed(counts: Iterable[RowCounts]) -> RowCounts:
    found = list(counts)
    return RowCounts(sum(one.rows for one in found), sum(one.rejected for one in found))


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Return the rows of the batches in tables of at least GROUP_ROWS rows, except the last."""
    pending: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        pending.append(batch)
        rows += batch.num_rows
        if rows >= GROUP_ROWS:
            yield pa.Table.from_batches(pending)
            pending, rows = [], 0
    yield pa.Table.from_batches(pending, ARROW_COLUMNS)
