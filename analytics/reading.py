"""Reading trace logs: from files of any state to a table of records, sound ones and others.

Files are looked over first, one by one and in parallel (files.py): what kind of log each is, and
whether it is whole. Whole logs of the broker are read by Spark itself, which is quick; all others
(being written, cut off, or RabbitMQ's own) line by line by Python, which is careful. Both give
lines of JSON that are parsed in one place by the one schema (schema.py).
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import NamedTuple

from pyspark import RDD, SparkContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from analytics.files import (
    LEVERET,
    RABBITMQ_JSON,
    SLICES_PER_CORE,
    LogFile,
    is_in_window,
    is_local,
    list_files,
    look_over,
    numbered_lines,
)
from analytics.foreign import records_of_json, records_of_text
from analytics.gzip_lines import Damage
from analytics.schema import Fields, parse_lines
from broker.tracing.record import OPEN_SUFFIX

_LINES = "value string, file string, line bigint, wrong_line string"

RawLine = tuple[str, str, int | None, str | None]


class Window(NamedTuple):
    """What to read. from_us, to_us: from here and before there, microseconds since 1970."""

    from_us: int | None = None
    to_us: int | None = None
    vhost: str | None = None


EVERYTHING = Window()


class Reading(NamedTuple):
    """What was read, lazily.

    records: the fields of record.FIELDS (schema.Fields says which), `file` and `line`, and `wrong`
    and `text`, which are null where nothing is wrong. files: those that were looked at.
    """

    records: DataFrame
    files: list[LogFile]

    @property
    def events(self) -> DataFrame:
        """The sound records, with the fields of record.FIELDS."""
        return self.records.where("wrong is null").drop("wrong", "text", "file", "line")


def read_trace(
    session: SparkSession,
    directory: str,
    window: Window = EVERYTHING,
    fields: Fields = Fields.SMALL,
) -> Reading:
    """Read the trace logs below a directory (a local path, or a URL that Hadoop knows).

    Raises FileNotFoundError.
    """
    return read_files(session, list_files(session, directory), window, fields)


def read_files(
    session: SparkSession,
    paths: list[str],
    window: Window = EVERYTHING,
    fields: Fields = Fields.SMALL,
) -> Reading:
    """Read trace logs, those of them that can have records of the window."""
    hours = _hour(window.from_us, "", -1), _hour(window.to_us, "~", 1)
    files = look_over(session, [path for path in paths if is_in_window(path, *hours, window.vhost)])
    lines = [_careful_lines(session, files)]
    quick = [file.path for file in files if file.is_whole]
    if quick:
        lines.append(_quick_lines(session, quick))
    records = parse_lines(reduce(DataFrame.unionByName, lines), fields)
    return Reading(records.where(_is_in(window)), files)


def _quick_lines(session: SparkSession, paths: list[str]) -> DataFrame:
    """The lines of whole files, read by Spark, which does not number them."""
    return session.read.text([_escaped(path) for path in paths]).select(
        "value",
        _file(),
        F.lit(None).cast("bigint").alias("line"),
        F.lit(None).cast("string").alias("wrong_line"),
    )


def _escaped(path: str) -> str:
    """A path as Spark takes it: it reads some letters as patterns."""
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", path)


def _file() -> Column:
    """The path of the file that a row is from, as it was given."""
    url = F.regexp_replace(F.col("_metadata.file_path"), r"^file:/*", "/")
    return F.url_decode(F.replace(url, F.lit("+"), F.lit("%2B"))).alias("file")


def number_lines(session: SparkSession, rejected: DataFrame) -> DataFrame:
    """Give lines that Spark read their numbers. Files that they are from are read once more.

    rejected: `file`, `line`, `reason`, `text`. A compressed file is read in one piece, so the order
    of Spark's own numbers is that of its lines.
    """
    paths = rejected.where("line is null and text != ''").select("file").distinct().collect()
    if not paths:
        return rejected
    numbered = session.read.text([_escaped(row.file) for row in paths]).select(
        "value",
        _file(),
        F.monotonically_increasing_id().alias("line"),
        F.lit(None).cast("string").alias("wrong_line"),
    )
    firsts = numbered.groupBy("file").agg(F.min("line").alias("first"))
    wrong = parse_lines(numbered).where("wrong is not null").join(F.broadcast(firsts), "file")
    found = wrong.selectExpr("file", "line - first + 1 as line", "wrong as reason", "text")
    return rejected.where("line is not null or text = ''").unionByName(found)


def _careful_lines(session: SparkSession, files: list[LogFile]) -> DataFrame:
    """The lines of all other files, and a row for each damage and each file that is refused."""
    context = session.sparkContext
    found = [file for file in files if not file.is_whole]
    local = [file for file in found if is_local(file.path)]
    distant = {file.path: file for file in found if not is_local(file.path)}
    rows: RDD[RawLine] = context.parallelize(local, _slices(context, local)).flatMap(_lines_of)
    if distant:
        contents = context.binaryFiles(",".join(distant), len(distant))
        rows = rows.union(contents.flatMap(lambda file: _lines_of(distant[file[0]], file[1])))
    return session.createDataFrame(rows, _LINES)


def _slices(context: SparkContext, files: list[LogFile]) -> int:
    return max(1, min(len(files), SLICES_PER_CORE * context.defaultParallelism))


def _lines_of(file: LogFile, data: bytes | None = None) -> Iterator[RawLine]:
    path = file.path
    if file.reason:
        yield "", path, None, file.reason
        return
    damages: list[RawLine] = []
    lines = _undamaged(file, data, damages)
    if file.kind == LEVERET:
        for number, line in lines:
            yield line, path, number, None
    elif file.kind:
        records = records_of_json if file.kind == RABBITMQ_JSON else records_of_text
        for number, line, wrong in records(lines):
            yield line, path, number, wrong or None
    yield from damages


def _undamaged(
    file: LogFile, data: bytes | None, damages: list[RawLine]
) -> Iterator[tuple[int, str]]:
    """The lines that can be read; what cannot is added to `damages`."""
    is_being_written = file.path.endswith(OPEN_SUFFIX)
    for number, line in numbered_lines(file.path, data):
        if not isinstance(line, Damage):
            yield number, line
        elif not (line.is_end and is_being_written):
            damages.append((line.rest, file.path, number + 1, line.reason))


def _hour(time_us: int | None, without: str, margin: int) -> str:
    """The hour whose directory is the first or last of interest; a file may run over its end."""
    if time_us is None:
        return without
    at = datetime.fromtimestamp(time_us / 1e6, UTC) + timedelta(hours=margin)
    return f"{at:%Y-%m-%dT%H}"


def _is_in(window: Window) -> Column:
    wanted = F.lit(True)
    if window.from_us is not None:
        wanted &= F.col("time_us") >= window.from_us
    if window.to_us is not None:
        wanted &= F.col("time_us") < window.to_us
    if window.vhost is not None:
        wanted &= F.col("vhost") == window.vhost
    return wanted | F.col("wrong").isNotNull()
