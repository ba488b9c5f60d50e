"""How far to trust the tables: records that are missing, damaged, given twice or of a wrong time.

Each fault is a row of the table `trust` with figures and a sentence, which the head of the report
shows. If there is none, the only row says so.
"""

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from leveret.analytics.formatting import moment, plural
from leveret.analytics.tables.engine import Engine, ReadCounts
from leveret.analytics.tables.plausible import Span
from leveret.analytics.traces.clock import WENT_BACK
from leveret.analytics.traces.file_numbers import MissingFiles

TRUST = "select *, cast(null as date) as date from faults"
"""The table, made from the view `faults`."""
FINE = "nothing found"
NAMED_MAX = 3
"""Files that a sentence names."""

_DAMAGE = f"""
    select count(*), count(distinct file), cast(coalesce(sum(lost), 0) as bigint), min(file)
    from records where wrong is not null and wrong not like '{WENT_BACK}%'
"""
_JUMPS = f"""
    select count(*), count(distinct file), min(file), min(wrong) from records
    where wrong like '{WENT_BACK}%'
"""
_GAPS = """
    select count(*), cast(coalesce(sum(lost), 0) as bigint), min(time_us) from events
    where event = 'gap'
"""
_FORMATS = {"json": "JSON logs of the tracing plugin", "text": "text logs of the tracing plugin"}


class Flaw(NamedTuple):
    """A row of the table. times: files, lines, jumps or records, as the sentence says.

    lost_records: an estimate; None if it is not known. lost_bytes: of files, compressed.
    """

    kind: str
    times: int
    lost_records: int | None
    lost_bytes: int | None
    sentence: str


class LeftOut(NamedTuple):
    """Records that are not used. copies: their number by format."""

    implausible: list[Span]
    copies: dict[str, int]


def put_faults(engine: Engine, reading: ReadCounts, left_out: LeftOut) -> None:
    """Make the view `faults`, from the views `records` and `events`."""
    found = list(_faults(engine, reading, left_out)) or [
        Flaw(FINE, 0, 0, 0, "No file is missing, damaged or given twice, no record was lost, and"
             " no clock was found to be wrong.")
    ]  # fmt: skip
    columns = zip(*found, strict=True)
    types = (pa.string(), pa.int64(), pa.int64(), pa.int64(), pa.string())
    rows = {
        name: pa.array(values, kind)
        for name, values, kind in zip(Flaw._fields, columns, types, strict=True)
    }
    engine.put("faults", pa.table(rows))


def _faults(engine: Engine, reading: ReadCounts, left_out: LeftOut) -> Iterator[Flaw]:
    yield from _missing(reading)
    yield from _damaged(engine, reading)
    [(gaps, lost, first_us)] = engine.rows(_GAPS)
    if gaps:
        yield Flaw("gaps", gaps, lost, None,
                   f"The broker could not write {plural(lost, 'record')}, in {plural(gaps, 'gap')}"
                   f" from {moment(first_us)} on: its disk was too slow.")  # fmt: skip
    yield from _copies(reading, left_out.copies)
    yield from _times(engine, left_out.implausible)


def _missing(reading: ReadCounts) -> Iterator[Flaw]:
    for one in reading.missing:
        per_file = reading.events // reading.files if reading.files else 0
        numbers = f"number {one.first}" if one.files == 1 else f"numbers {one.first} to {one.last}"
        yield Flaw(
            "missing files", one.files, one.files * per_file, None,
            f"{plural(one.files, 'file')} of node {one.node}{_in_vhost(one)} of the log begun at"
            f" {moment(one.began_us)} {_is(one.files)} missing ({numbers}): about"
            f" {one.files * per_file:,} records, as the other files have {per_file:,} on average.",
        )  # fmt: skip


def _in_vhost(one: MissingFiles) -> str:
    return f", vhost {one.vhost}," if one.vhost else ""


def _damaged(engine: Engine, reading: ReadCounts) -> Iterator[Flaw]:
    [(problems, files, lost_bytes, file)] = engine.rows(_DAMAGE)
    if not problems:
        return
    skipped = round(reading.events * lost_bytes / reading.size) if reading.size else 0
    lost = skipped + problems
    cost = (
        f"{lost_bytes:,} bytes were skipped, about {plural(lost, 'record')} in all"
        if lost_bytes else "no whole part of a file was skipped"
    )  # fmt: skip
    more = f" and {plural(files - 1, 'other file')}" if files > 1 else ""
    yield Flaw(
        "damage", problems, lost, lost_bytes,
        f"{plural(problems, 'line')} or {plural(problems, 'place')} in {file}{more} could not be"
        f" read; {cost}. The table rejected has each." if problems > 1 else
        f"A line or place in {file} could not be read; {cost}. The table rejected has it.",
    )  # fmt: skip


def _copies(reading: ReadCounts, copies: dict[str, int]) -> Iterator[Flaw]:
    if reading.copies:
        shown = ", ".join(f"{one.file} (as {one.same_as})" for one in reading.copies[:NAMED_MAX])
        more = len(reading.copies) - NAMED_MAX
        rest = f" and {plural(more, 'other file')}" if more > 0 else ""
        count = len(reading.copies)
        yield Flaw("copied files", count, 0, 0,
                   f"{plural(count, 'file')} {_is(count)} a copy of another one and"
                   f" {_is(count, 'was', 'were')} not read: {shown}{rest}.")  # fmt: skip
    for name, count in sorted(copies.items()):
        yield Flaw("copied records", count, 0, 0,
                   f"{plural(count, 'record')} of {_FORMATS[name]} {_is(count)} in a log of"
                   " another format, too, and counted once.")  # fmt: skip


def _times(engine: Engine, implausible: list[Span]) -> Iterator[Flaw]:
    if implausible:
        count = sum(one.records for one in implausible)
        first_us = min(one.first_us for one in implausible)
        last_us = max(one.last_us for one in implausible)
        yield Flaw(
            "implausible times", count, count, None,
            f"{plural(count, 'record')}, of {moment(first_us)} to {moment(last_us)},"
            f" {_is(count)} more than 30 days from the others and"
            f" {_is(count, 'was', 'were')} set aside.",
        )  # fmt: skip
    [(jumps, files, file, first)] = engine.rows(_JUMPS)
    if jumps:
        where = file if files == 1 else f"{plural(files, 'file')}, among them {file}"
        yield Flaw("clock", jumps, 0, 0,
                   f"{plural(jumps, 'time')} a clock went back, in {where}"
                   f" ({first.partition(';')[0]}): times around it are not in order.")  # fmt: skip


def _is(count: int, one: str = "is", many: str = "are") -> str:
    return one if count == 1 else many
