"""Estimates how many events trace logs have, and blocks of them, from the beginnings of a few."""

import io
from collections.abc import Sequence
from typing import NamedTuple

from leveret.analytics.traces.block_members import BlockMembers
from leveret.analytics.traces.log_blocks import EndOfData, blocks_of
from leveret.analytics.traces.log_records import read_stream
from leveret.analytics.traces.trace_files import EVERYTHING, TraceFile
from leveret.broker.tracing.block_lines import RecordBlock

SAMPLES_MAX = 8
BLOCKS_SAMPLE_BYTES = 1024 * 1024
"""Bytes that are read of a file: at least one block of records, also if it has bodies."""
SAMPLE_BYTES = 256 * 1024
"""Bytes of these that are parsed if they have lines: about 10,000 events, in 50 ms."""


class LogSize(NamedTuple):
    """Numbers of records, and of blocks of records."""

    events: int
    blocks: int


def estimated_size(files: Sequence[TraceFile]) -> LogSize:
    """Return the probable size of local files. Exact for a few small files."""
    sampled = files[:: -(-len(files) // SAMPLES_MAX)] if files else ()
    events = blocks = sampled_bytes = 0
    for file in sampled:
        try:
            with open(file.path, "rb") as source:
                beginning = source.read(BLOCKS_SAMPLE_BYTES)
        except OSError:
            # The job lists the file as one that cannot be read.
            continue
        counts = _records_of_blocks(beginning, file.path)
        if not sum(counts):
            beginning = beginning[:SAMPLE_BYTES]
            batches = read_stream(io.BytesIO(beginning), file.path, EVERYTHING)
            counts = [batch["wrong"].null_count for batch in batches]
        else:
            blocks += len(counts)
        events += sum(counts)
        sampled_bytes += len(beginning)
    total = sum(file.size for file in files)
    share = total / sampled_bytes if sampled_bytes else 0
    return LogSize(round(events * share), round(blocks * share))


def _records_of_blocks(beginning: bytes, path: str) -> list[int]:
    """Return how many records each block at the beginning of a file has; none if it has lines."""
    counts: list[int] = []

    def count(block: RecordBlock) -> bool:
        counts.append(block.records)
        return False

    for _ in blocks_of(io.BytesIO(beginning), path, [], EndOfData.WRITTEN, BlockMembers(count)):
        continue
    return counts
