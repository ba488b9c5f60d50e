"""Makes columns of blocks of records (broker/tracing/block_format.py), without a line for each.

The fixed parts of records are gathered as arrays. A text is parsed once, also if several blocks
have it, and so is the line of a record of a rare event: both are rows of one small table, in which
a record has one row for the beginning of its line, and one for the address of its message. So most
columns are columns of that table, with a number for each record.

Columns are made of several blocks at once, since a call of Arrow or numpy takes as long for a block
of 30 records, which a quiet vhost has twice a second, as for one of 20,000.

A block that has anything unusual is left to the code that makes lines, which reports what is wrong.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leveret.analytics.traces.block_members import lines_of
from leveret.analytics.traces.log_blocks import LogBlock
from leveret.analytics.traces.parsing import (
    KEPT_COLUMNS,
    PARSED_COLUMNS,
    encoded,
    is_outside,
    read_json,
    sound_records,
)
from leveret.analytics.traces.property_values import (
    InvalidPropertiesError,
    Numbers,
    Octets,
    values_of,
)
from leveret.analytics.traces.schema import FIELDS, KEPT_PROPERTIES, NEEDED, OF_DELIVERIES, RANGES
from leveret.broker.tracing import record
from leveret.broker.tracing.block_format import (
    ACK,
    BODY,
    DELIVER,
    LENGTH,
    PROPERTIES,
    PUBLISH,
    RECORD,
    TEXT,
)
from leveret.broker.tracing.block_lines import BlockError, RecordBlock

_HEAD = [("kind", "u1"), ("start", "<u4")]
_TIMES = [("time_us", "<i8"), ("message", "<i8")]
_PUBLISHED = [*_HEAD, ("about", "<u4"), ("properties", "<u4"), *_TIMES, ("body_size", "<u4")]
_FIXED = {
    PUBLISH: np.dtype(_PUBLISHED),
    DELIVER: np.dtype([*_PUBLISHED, ("delivery_tag", "<i8"), ("redelivered", "?")]),
    ACK: np.dtype([*_HEAD, *_TIMES, ("delivery_tag", "<i8")]),
}
_EVENTS = {PUBLISH: record.PUBLISH, DELIVER: record.DELIVER, ACK: record.ACK}
_OF_RECORDS = ("time_us", "message", "body_size", "redelivered")
"""Fields that are fixed parts, and not in a text."""
_OF_ADDRESS = ("exchange", "routing_keys")
_RECORDS = (PUBLISH, DELIVER, ACK, RECORD)
_KINDS = (*_RECORDS, TEXT, PROPERTIES, BODY)
_NOWHERE = 0xFFFF_FFFF
"""The row of a record that has none."""


class _UnusualError(ValueError):
    """The block is left to the code that makes lines."""


def columns_of(blocks: Sequence[RecordBlock]) -> list[pa.Table | bytes | BlockError]:
    """Return the records of blocks, in their order, with KEPT_COLUMNS.

    Of an unusual block the lines are returned, or what is wrong with it.
    """
    try:
        return [_Columns(blocks).table()]
    except (BlockError, _UnusualError, InvalidPropertiesError, IndexError, pa.ArrowException):
        if len(blocks) == 1:
            return lines_of(blocks)
    # Halves find an unusual block among hundreds in a few steps.
    middle = len(blocks) // 2
    return columns_of(blocks[:middle]) + columns_of(blocks[middle:])


class _Numbering(NamedTuple):
    """The numbers of the texts, or properties, of blocks. A record has the number in its block.

    counts: how many each block has. firsts: the number of its first one in all blocks.
    """

    counts: Numbers
    firsts: Numbers

    @classmethod
    def by(cls, block_of: Numbers, blocks: int) -> "_Numbering":
        """Number them. block_of: the block of each one."""
        counts = np.bincount(block_of, minlength=blocks)
        return cls(counts, np.cumsum(counts) - counts)

    def of(self, block_of: Numbers, numbers: Numbers) -> Numbers:
        """Return the numbers in all blocks. block_of: of records. Raises _UnusualError."""
        if np.any(numbers >= self.counts[block_of]):
            raise _UnusualError
        return self.firsts[block_of] + numbers


def _entries(blocks: Sequence[RecordBlock]) -> tuple[Numbers, Numbers]:
    """Return the offset of each entry in the data of all blocks, and the number of its block."""
    places = [block.entries() for block in blocks]
    counts = [len(one) for one in places]
    sizes: Numbers = np.array([len(block.data) for block in blocks], np.int64)
    found: Numbers = np.fromiter(chain.from_iterable(places), np.int64, sum(counts))
    begins = np.repeat(np.cumsum(sizes) - sizes, counts)
    return found + begins, np.repeat(np.arange(len(blocks)), counts)


class _Columns:
    """The columns of blocks, of which there is one. Raises what `columns_of` catches."""

    def __init__(self, blocks: Sequence[RecordBlock]) -> None:
        self._data = blocks[0].data if len(blocks) == 1 else b"".join(one.data for one in blocks)
        self._octets: Octets = np.frombuffer(self._data, np.uint8)
        places, block_of = _entries(blocks)
        kinds = self._octets[places]
        if np.any(~np.isin(kinds, _KINDS)):
            raise _UnusualError
        is_record = np.isin(kinds, _RECORDS)
        self._places, self._kinds = places[is_record], kinds[is_record]
        self._block_of = block_of[is_record]
        records = np.bincount(self._block_of, minlength=len(blocks))
        if np.any(records != [block.records for block in blocks]):
            raise _UnusualError
        self._properties_at = places[kinds == PROPERTIES]
        self._property_numbers = _Numbering.by(block_of[kinds == PROPERTIES], len(blocks))
        self._text_numbers = _Numbering.by(block_of[kinds == TEXT], len(blocks))
        rows: dict[bytes, int] = {}
        texts = self._pieces(places[kinds == TEXT])
        self._text_rows: Numbers = np.array(
            [rows.setdefault(text, len(rows)) for text in texts], np.int64
        )
        self._texts = _parsed(_parsed_texts, list(rows))
        lines = self._pieces(self._places[self._kinds == RECORD])
        self._lines = _parsed(_parsed_lines, lines)
        self._shared = pa.concat_tables([self._texts, self._lines])
        self._row: Numbers = np.arange(len(self._places))
        self._start: Numbers = np.full(len(self._places), _NOWHERE)
        self._about, self._properties = self._start.copy(), self._start.copy()
        self._fixed = {name: np.zeros(len(self._places), np.int64) for name in _OF_RECORDS}

    def table(self) -> pa.Table:
        """The columns, which are KEPT_COLUMNS."""
        for kind in _FIXED:
            self._take_fixed(kind)
        of_line = self._kinds == RECORD
        numbers = np.arange(len(self._lines))
        self._start[of_line] = self._about[of_line] = len(self._texts) + numbers
        self._row[of_line] = len(self._places) + numbers
        start, about = _rows(self._start), _rows(self._about)
        made = {name: self._of_records(name) for name in _OF_RECORDS} | self._values()
        if any(is_outside(made[name], RANGES[name]) for name in ("time_us", "message")):
            raise _UnusualError
        columns = [
            made[name] if name in made
            else self._of_texts(name, about if name in _OF_ADDRESS else start)
            for name in KEPT_COLUMNS.names
        ]  # fmt: skip
        return pa.Table.from_arrays(columns, schema=KEPT_COLUMNS)

    def _pieces(self, places: Numbers) -> list[bytes]:
        """The contents of entries that have a length."""
        begins = places + 1 + LENGTH.size
        ends = begins + self._lengths(places)
        pairs = zip(begins.tolist(), ends.tolist(), strict=True)
        return [self._data[begin:end] for begin, end in pairs]

    def _lengths(self, places: Numbers) -> Numbers:
        """The lengths of entries."""
        lengths: Numbers = np.zeros(len(places), np.int64)
        for place in range(LENGTH.size, 0, -1):
            lengths = lengths << 8 | self._octets[places + place]
        return lengths

    def _take_fixed(self, kind: int) -> None:
        """Take the fixed parts of the records of a kind, and check their texts."""
        where = np.flatnonzero(self._kinds == kind)
        if not len(where):
            return
        dtype = _FIXED[kind]
        # Each place of the blocks may begin such a part: the array has all of them, overlapping.
        anywhere = np.ndarray(
            (len(self._data) - dtype.itemsize + 1,), dtype, self._data, strides=(1,)
        )
        parts, blocks = anywhere[self._places[where]], self._block_of[where]
        self._start[where] = self._rows_of(blocks, parts["start"])
        for name in _OF_RECORDS:
            if name in (dtype.names or ()):
                self._fixed[name][where] = parts[name]
        starts = _used(self._start[where], self._texts)
        _require(starts, _needed(_EVENTS[kind], starts), (*_OF_RECORDS[1:], *_OF_ADDRESS))
        if pc.any(pc.not_equal(starts["event"], _EVENTS[kind])).as_py():
            raise _UnusualError
        if kind != ACK:
            self._about[where] = self._rows_of(blocks, parts["about"])
            self._properties[where] = self._property_numbers.of(blocks, parts["properties"])
            others = [name for name in FIELDS if name not in _OF_ADDRESS]
            _require(_used(self._about[where], self._texts), _OF_ADDRESS, others)

    def _rows_of(self, blocks: Numbers, texts: Numbers) -> Numbers:
        """Return the rows of the texts of records."""
        return self._text_rows[self._text_numbers.of(blocks, texts)]

    def _of_records(self, name: str) -> pa.Array:
        """A column of fixed parts, and of the lines of others."""
        has_none = self._kinds == RECORD
        if name == "body_size":
            has_none |= self._kinds == ACK
        elif name == "redelivered":
            has_none = self._kinds != DELIVER
        kind = KEPT_COLUMNS.field(name).type
        fixed = pa.array(self._fixed[name], mask=has_none).cast(kind)
        if not len(self._lines):
            return fixed
        return pa.concat_arrays([fixed, self._lines[name].combine_chunks()]).take(
            pa.array(self._row)
        )

    def _of_texts(self, name: str, rows: pa.Array) -> pa.Array:
        """A column of values in the texts of records."""
        return encoded(self._shared[name].combine_chunks(), name).take(rows)

    def _values(self) -> dict[str, pa.Array]:
        """The values of properties."""
        begins = self._properties_at + 1 + LENGTH.size
        found = values_of(self._octets, begins, begins + self._lengths(self._properties_at))
        wanted = _rows(np.where(self._kinds == PUBLISH, self._properties, _NOWHERE))
        with_deliveries = _rows(self._properties)
        return {
            name: encoded(found[name], name).take(
                with_deliveries if name in OF_DELIVERIES else wanted
            )
            for name in KEPT_PROPERTIES
        }


def _parsed(parse: Callable[[list[bytes]], pa.Table], pieces: list[bytes]) -> pa.Table:
    """Parse pieces of blocks. Arrow parses no empty JSON, and most blocks have no lines."""
    return parse(pieces) if pieces else PARSED_COLUMNS.empty_table()


def _parsed_texts(texts: list[bytes]) -> pa.Table:
    """A row for each text, completed: the time and the properties follow it in a line."""
    if any(text[:1] not in (b"{", b",") for text in texts):
        raise _UnusualError
    lines = [b"%s0}\n" % text if text[:1] == b"{" else b"{%snull}\n" % text[1:] for text in texts]
    table = read_json(b"".join(lines))
    if table is None or len(table) != len(texts) or table["version"].null_count != len(texts):
        raise _UnusualError
    if any(is_outside(table[name], numbers) for name, numbers in RANGES.items()):
        raise _UnusualError
    return table


def _parsed_lines(lines: list[bytes]) -> pa.Table:
    """A row for each line of another record."""
    table = sound_records(LogBlock(b"".join(lines), 1, len(lines)))
    # The properties of a publish are columns of its own.
    if table is None or pc.any(pc.equal(table["event"], record.PUBLISH)).as_py():
        raise _UnusualError
    return table


def _used(numbers: Numbers, texts: pa.Table) -> pa.Table:
    """The texts that have these rows, each once."""
    return texts.filter(pa.array(np.bincount(numbers, minlength=len(texts)) > 0))


def _needed(event: str, starts: pa.Table) -> list[str]:
    """The fields of an event that are in its first text."""
    elsewhere = (*_OF_RECORDS, *_OF_ADDRESS)
    return [name for name, events in NEEDED.items() if event in events and name not in elsewhere]


def _require(texts: pa.Table, present: Iterable[str], absent: Iterable[str]) -> None:
    """Check that all texts have some fields, and none has others."""
    has_all = all(not texts[name].null_count for name in present)
    if not has_all or any(texts[name].null_count != len(texts) for name in absent):
        raise _UnusualError


def _rows(numbers: Numbers) -> pa.Array:
    return pa.array(numbers, pa.int64(), mask=numbers == _NOWHERE)
