"""Detects the kind of a log and reads its records. Runs in Spark's workers.

File names are not reliable: a log may have been copied, renamed or decompressed. So the first lines
decide. Logs of the broker are parsed block by block (block_columns.py, or parsing.py if it has
lines), logs of RabbitMQ's tracing plugin entry by entry (rabbitmq_logs.py). Data that cannot be
read become rejected rows.
"""

import io
import json
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from leveret.analytics.traces.block_columns import columns_of
from leveret.analytics.traces.block_members import GATHERED_BYTES, BlockMembers
from leveret.analytics.traces.clock import RecordClock
from leveret.analytics.traces.log_blocks import (
    MEMBER,
    BlockSource,
    EndOfData,
    LogBlock,
    Problem,
    blocks_of,
)
from leveret.analytics.traces.log_parts import LogPart, PartSource, part_source
from leveret.analytics.traces.parsing import Wanted, parse_block, parse_entries, set_aside
from leveret.analytics.traces.rabbitmq_logs import records_of_json, records_of_text
from leveret.analytics.traces.schema import SAMPLES, in_words
from leveret.analytics.traces.trace_files import TraceWindow
from leveret.broker.tracing import record
from leveret.broker.tracing.block_lines import RecordBlock

_LEVERET, _RABBITMQ_JSON, _RABBITMQ_TEXT, _UNKNOWN = "leveret", "json", "text", ""
_RABBITMQ_TYPES = ("published", "received")
_TITLES = (b": Message published", b": Message received")
_BEGINNING_BYTES, _BEGINNING_LINES = 1 << 16, 20


class _Kind(NamedTuple):
    """The kind of a log. sample: it has one message in `sample`. reason: why it cannot be used."""

    name: str
    sample: int = 1
    reason: str = ""


def read_log(part: LogPart, window: TraceWindow) -> Iterator[pa.RecordBatch]:
    """Read the records of a window from a part of a local log, as schema.COLUMNS."""
    if not part.size:
        yield from read_stream(io.BytesIO(), part.path, window)
        return
    try:
        with open(part.path, "rb") as file:
            if part.is_whole:
                yield from read_stream(file, part.path, window)
            else:
                yield from _read_part(file, part, window)
    except OSError as error:
        reason = f"cannot be read: {error.strerror or error}"
        yield set_aside([Problem(part.path, None, reason)])


def read_stream(source: BlockSource, path: str, window: TraceWindow) -> Iterator[pa.RecordBatch]:
    """Read the records of a window from a whole log. Raises OSError."""
    problems: list[Problem] = []
    members = _members(window)
    blocks = blocks_of(source, path, problems, _ending_of(path), members)
    first = next(blocks, None)
    beginning = first.data if first else b"".join(one.text.encode() for one in problems)
    kind = _kind_of(beginning)
    if first and not kind.reason:
        yield from _parsed(chain([first], blocks), path, kind, window)
    elif kind.reason and beginning:
        problems = [Problem(path, None, kind.reason)]
    elif not problems and not path.endswith(record.OPEN_SUFFIXES):
        problems = [Problem(path, None, "is empty")]
    yield set_aside(problems)


def read_members(
    source: BlockSource, path: str, begins: int, ending: EndOfData, window: TraceWindow
) -> Iterator[pa.RecordBatch]:
    """Read the records of a window from members with blocks, the first from byte `begins` on.

    Lines are counted from there; a later part is named with the file. Raises OSError.
    """
    name, problems = _part_name(path, begins), list[Problem]()
    members = _members(window, has_header=begins == 0)
    blocks = blocks_of(source, name, problems, ending, members)
    first = next(blocks, None)
    kind = _kind_of(members.header)
    if first and not kind.reason:
        yield from _parsed(chain([first], blocks), name, kind, window)
    elif first:
        problems = [Problem(name, None, kind.reason)]
    yield set_aside(problems)


def sample_of(path: str) -> int | None:
    """Return how many messages one in a log of the broker stands for.

    None if the file is no such log, or none that can be read. Raises OSError.
    """
    with open(path, "rb") as file:
        first = next(blocks_of(file, path, [], EndOfData.WRITTEN, BlockMembers()), None)
    kind = _kind_of(first.data if first else b"")
    return kind.sample if kind.name == _LEVERET and not kind.reason else None


def records_of_lines(
    blocks: Iterator[LogBlock], path: str, sample: int, window: TraceWindow
) -> Iterator[pa.RecordBatch]:
    """Read the records of a window from lines of a log of the broker."""
    yield from _parsed(blocks, path, _Kind(_LEVERET, sample), window)


def _read_part(file: BinaryIO, part: LogPart, window: TraceWindow) -> Iterator[pa.RecordBatch]:
    """Read one of several parts. Only logs of the broker have parts; others are read by the first.

    Lines are counted from the beginning of the part, which is named with the file.
    """
    first = next(blocks_of(file, part.path, [], EndOfData.WRITTEN, _members(window)), None)
    file.seek(0)
    kind = _kind_of(first.data if first else b"")
    if kind.name != _LEVERET or kind.reason or file.read(len(MEMBER)) != MEMBER:
        file.seek(0)
        if part.begins == 0:
            yield from read_stream(file, part.path, window)
        return
    source = part_source(file, part)
    if source is None:
        return
    name = _part_name(part.path, source.tell())
    problems: list[Problem] = []
    ending = _ending_of(part.path) if source.ends is None else EndOfData.MEMBER
    members = _members(window, has_header=part.begins == 0)
    blocks, clock = blocks_of(source, name, problems, ending, members), RecordClock(name)
    yield from _parsed_blocks(blocks, name, kind, window, clock)
    if source.ends is not None:
        problems += _jumps_to(PartSource(file, source.ends), part.path, kind, window, clock)
    yield set_aside(problems)


def _jumps_to(
    later: PartSource, path: str, kind: _Kind, window: TraceWindow, clock: RecordClock
) -> list[Problem]:
    """Return a problem if the clock went back before the first record of the next part."""
    members = BlockMembers(None, has_header=False, make=columns_of)
    for block in islice(blocks_of(later, path, [], EndOfData.MEMBER, members), 1):
        for batch in parse_block(block, path, kind.sample, _filter(window)):
            times_us = batch["time_us"].drop_null()
            if len(times_us):
                return clock.jumps_of(times_us[:1])
    return []


def _part_name(path: str, begins: int) -> str:
    return f"{path} from byte {begins}" if begins else path


def _ending_of(path: str) -> EndOfData:
    return EndOfData.WRITTEN if path.endswith(record.OPEN_SUFFIXES) else EndOfData.FILE


def _members(window: TraceWindow, has_header: bool = True) -> BlockMembers:
    def is_wanted(block: RecordBlock) -> bool:
        return window.overlaps(block.from_us, block.to_us)

    return BlockMembers(is_wanted, has_header, columns_of, GATHERED_BYTES)


def _parsed(
    blocks: Iterator[LogBlock], path: str, kind: _Kind, window: TraceWindow
) -> Iterator[pa.RecordBatch]:
    if kind.name == _LEVERET:
        yield from _parsed_blocks(blocks, path, kind, window, RecordClock(path))
        return
    entries = records_of_json if kind.name == _RABBITMQ_JSON else records_of_text
    for batch in parse_entries(entries(_lines(blocks)), path, kind.sample, _filter(window)):
        formats = pa.repeat(kind.name, batch.num_rows)
        yield batch.set_column(batch.column_names.index("format"), "format", formats)


def _parsed_blocks(
    blocks: Iterator[LogBlock], path: str, kind: _Kind, window: TraceWindow, clock: RecordClock
) -> Iterator[pa.RecordBatch]:
    """Parse the blocks of a log of the broker."""
    for block in blocks:
        for batch in parse_block(block, path, kind.sample, _filter(window)):
            yield batch
            if problems := clock.jumps_of(batch["time_us"]):
                yield set_aside(problems)


def _filter(window: TraceWindow) -> Wanted | None:
    """Return the filter for the records of a window; None for all."""
    return None if window == TraceWindow() else lambda table: _is_in(table, window)


def _lines(blocks: Iterator[LogBlock]) -> Iterator[tuple[int, bytes]]:
    for block in blocks:
        yield from enumerate(block.data.split(b"\n")[:-1], block.line)


def _is_in(table: pa.Table, window: TraceWindow) -> Any:
    time_us, wanted = table["time_us"], pc.equal(table["event"], table["event"])
    if window.from_us is not None:
        wanted = pc.and_(wanted, pc.greater_equal(time_us, window.from_us))
    if window.to_us is not None:
        wanted = pc.and_(wanted, pc.less(time_us, window.to_us))
    if window.vhost is not None:
        wanted = pc.and_(wanted, pc.equal(table["vhost"], window.vhost))
    return wanted


def _kind_of(beginning: bytes) -> _Kind:
    """Detect the kind of a log by its first lines."""
    for line in beginning[:_BEGINNING_BYTES].split(b"\n")[:_BEGINNING_LINES]:
        if any(title in line for title in _TITLES):
            return _Kind(_RABBITMQ_TEXT)
        found = _json_object(line)
        if found.get("type") in _RABBITMQ_TYPES:
            return _Kind(_RABBITMQ_JSON)
        if "event" in found:
            return _by_header(found)
    return _Kind(_UNKNOWN, reason="is not a trace log: no line has a known format")


def _by_header(first: dict[str, Any]) -> _Kind:
    if first.get("event") != record.HEADER:
        return _Kind(_LEVERET)
    version, sample = first.get("version"), first.get("sample")
    if not isinstance(version, int) or version > record.VERSION:
        reason = f"is of version {version}; the latest supported is {record.VERSION}"
        return _Kind(_LEVERET, reason=reason)
    if isinstance(sample, int) and sample not in SAMPLES:
        reason = (
            f"has one message in {sample}, as its header says; this must be {in_words(SAMPLES)}"
        )
        return _Kind(_LEVERET, reason=reason)
    return _Kind(_LEVERET, sample if isinstance(sample, int) else 1)


def _json_object(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
