"""Makes Arrow columns of JSON lines: of a valid block at once, of other blocks line by line.

Arrow is about ten times as fast as a parser that looks at each line. If Arrow refuses a block, or
anything in it is unusual, Python parses its lines one by one. Both use the same definition of a
valid record (schema.py).
"""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from leveret.analytics.traces.log_blocks import LogBlock, Problem
from leveret.analytics.traces.schema import (
    COLUMNS,
    FIELDS,
    KEPT,
    KEPT_PROPERTIES,
    NEEDED,
    OF_DELIVERIES,
    PRIORITIES,
    RANGES,
    REPEATED,
    TEXT_MAX,
    LogUnit,
    Record,
    what_is_wrong,
)
from leveret.broker.tracing import record

ROWS_MAX = 20_000
"""Rows of a batch that is made from single records."""

_ARROW_TYPES = {
    record.STRING: pa.string(), record.LONG: pa.int64(), record.BOOLEAN: pa.bool_(),
    record.STRINGS: pa.list_(pa.string()),
}  # fmt: skip
_ARROW_TYPES[record.JSON] = pa.struct(
    [(name, _ARROW_TYPES[kind]) for name, kind in KEPT_PROPERTIES.items()]
)
PARSED_COLUMNS = pa.schema([(name, _ARROW_TYPES[kind]) for name, kind in FIELDS.items()])
"""The columns of records as they are parsed: schema.FIELDS."""
_TEXTS = pa.dictionary(pa.int32(), pa.string())
"""A column that repeats few texts: it has a number for each record, and the texts once."""
PLAIN_COLUMNS = pa.schema([(name, _ARROW_TYPES[kind]) for name, kind in COLUMNS.items()])
"""The columns of schema.COLUMNS, each text by itself."""
ARROW_COLUMNS = pa.schema(
    [(each.name, _TEXTS if each.name in REPEATED else each.type) for each in PLAIN_COLUMNS]
)
"""The columns of records as they are read."""
KEPT_COLUMNS = pa.schema([ARROW_COLUMNS.field(name) for name in (*KEPT, *KEPT_PROPERTIES)])
"""Those of them that come from a record."""
_ONLY_OF_SOME = ("format", "wrong", "text", "file", "line")
_EVENTS = pa.array(list(record.EVENTS))
_LISTS = [name for name, kind in FIELDS.items() if kind == record.STRINGS]
_PARSE = pa.json.ParseOptions(explicit_schema=PARSED_COLUMNS, unexpected_field_behavior="ignore")

_START_BYTES = len('{"event":')
"""Prefix length that is compared at the start of each line: a longer prefix is found faster."""

Wanted = Callable[[Any], Any]
"""Given a table of records, returns the mask of those to keep."""


def parse_block(
    block: LogBlock, path: str, weight: int, wanted: Wanted | None
) -> Iterator[pa.RecordBatch]:
    """Return a block's records, and its rejected lines, with the columns of schema.COLUMNS.

    wanted: selects records; None keeps all.
    """
    found = block.columns
    if found is None and (sound := sound_records(block)) is not None:
        found = _kept(sound)
    if found is not None:
        yield from _staged(found, weight, wanted)
        return
    lines = enumerate(block.data.split(b"\n")[:-1], block.line)
    entries = (LogUnit(number, _parsed(line), "", line) for number, line in lines)
    yield from parse_entries(entries, path, weight, wanted)


def parse_entries(
    entries: Iterable[LogUnit], path: str, weight: int, wanted: Wanted | None
) -> Iterator[pa.RecordBatch]:
    """Return records that were parsed one by one, and rejected ones, with the same columns."""
    sound, problems = list[Record](), list[Problem]()
    for entry in entries:
        wrong = entry.wrong or what_is_wrong(entry.found)
        if wrong:
            text = entry.text.decode("utf-8", "replace")
            problems.append(Problem(path, entry.line, wrong, text))
        elif isinstance(entry.found, dict):
            sound.append(entry.found)
        if len(sound) + len(problems) >= ROWS_MAX:
            yield from _of_records(sound, weight, wanted)
            yield set_aside(problems)
            sound, problems = [], []
    yield from _of_records(sound, weight, wanted)
    yield set_aside(problems)


def set_aside(problems: list[Problem]) -> pa.RecordBatch:
    """Return the rows for rejected lines and files."""
    rows = [
        {
            "wrong": one.reason, "text": one.text[:TEXT_MAX], "file": one.file, "line": one.line,
            "lost": one.lost_bytes,
        }
        for one in problems
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, schema=ARROW_COLUMNS)


def _parsed(line: bytes) -> object:
    try:
        return json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def _of_records(
    sound: list[Record], weight: int, wanted: Wanted | None
) -> Iterator[pa.RecordBatch]:
    if sound:
        table = pa.Table.from_pylist(sound, schema=PARSED_COLUMNS)
        yield from _staged(_kept(table), weight, wanted)


def sound_records(block: LogBlock) -> pa.Table | None:
    """Parse a block of lines with Arrow: schema.FIELDS. None if Arrow finds an invalid record."""
    data = block.data
    start = data[:_START_BYTES]
    if not start.startswith(b"{") or data.count(b"\n" + start) != block.lines - 1:
        return None
    table = read_json(data)
    # Each line begins like an object, so more rows than lines means that a line holds two objects.
    is_sound = table is not None and table.num_rows == block.lines and _is_sound(table)
    return table if is_sound else None


def read_json(data: bytes) -> pa.Table | None:
    """Parse JSON objects, of which there is one: schema.FIELDS. None if one is invalid."""
    try:
        if not data.isascii():
            data.decode()
        options = pa.json.ReadOptions(use_threads=False, block_size=len(data) + 1)
        return pa.json.read_json(pa.BufferReader(data), options, _PARSE)
    except (pa.ArrowException, UnicodeDecodeError):
        return None


def _is_sound(table: pa.Table) -> bool:
    events = table["event"]
    if events.null_count or not _all(pc.is_in(events, _EVENTS)):
        return False
    if (pc.max(table["version"]).as_py() or 0) > record.VERSION:
        return False
    if any(pc.list_flatten(table[name]).null_count for name in _LISTS):
        return False
    if any(is_outside(table[name], numbers) for name, numbers in RANGES.items()):
        return False
    if is_outside(pc.struct_field(table["properties"], "priority"), PRIORITIES):
        return False
    return not any(_is_missing(table, name, needing) for name, needing in NEEDED.items())


def is_outside(column: pa.ChunkedArray, numbers: range) -> bool:
    """Tell whether a number is none of these."""
    least, most = pc.min_max(column).values()
    return least.is_valid and not (least.as_py() in numbers and most.as_py() in numbers)


def _is_missing(table: pa.Table, name: str, needing: frozenset[str]) -> bool:
    """Tell whether a record lacks a field that its event requires."""
    if not table[name].null_count:
        return False
    needs = pc.is_in(table["event"], pa.array(list(needing)))
    return bool(pc.any(pc.and_(needs, pc.is_null(table[name]))).as_py())


def _all(values: pa.ChunkedArray) -> bool:
    return bool(pc.all(values).as_py())


def _kept(table: pa.Table) -> pa.Table:
    """Return the columns of valid records that come from them, KEPT_COLUMNS."""
    is_publish = pc.equal(table["event"], record.PUBLISH)
    is_either = pc.or_(is_publish, pc.equal(table["event"], record.DELIVER))
    values = [
        encoded(
            pc.if_else(
                is_either if name in OF_DELIVERIES else is_publish,
                pc.struct_field(table["properties"], name), None,
            ), name,
        )
        for name in KEPT_PROPERTIES
    ]  # fmt: skip
    columns = [encoded(table[name], name) for name in KEPT]
    return pa.Table.from_arrays([*columns, *values], schema=KEPT_COLUMNS)


def encoded(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Return a column of texts that are repeated as numbers of texts; others as they are."""
    return column.dictionary_encode() if name in REPEATED else column


def _staged(kept: pa.Table, weight: int, wanted: Wanted | None) -> Iterator[pa.RecordBatch]:
    """Return valid records with the columns of schema.COLUMNS."""
    if wanted is not None:
        kept = kept.filter(wanted(kept))
    rows = len(kept)
    blank = {name: pa.nulls(rows, ARROW_COLUMNS.field(name).type) for name in _ONLY_OF_SOME}
    weights = pa.repeat(weight, rows)
    if weight != 1:
        # Chunks of streams are all in the log, whatever its sample.
        of_streams = pc.is_in(kept["event"].cast(pa.string()), pa.array(record.STREAM_EVENTS))
        weights = pc.if_else(of_streams, 1, weights)
    made = {"weight": weights, **blank}
    columns = [made[name] if name in made else kept[name] for name in ARROW_COLUMNS.names]
    yield from pa.Table.from_arrays(columns, schema=ARROW_COLUMNS).to_batches()
